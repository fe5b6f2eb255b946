"""`connect plugins`, and what the lock that it writes is good for."""

import json

import pytest

from support.command import Command

SPEC = """\
name: lines
config:
  connector.class: FileStreamSource
  topic: lines
  value.converter: StringConverter
"""


@pytest.fixture
def project(connect: Command) -> Command:
    """A project whose own Kafka was never started."""
    connect.write("connect.yaml", "project: p\ncluster: {group.id: g, kafka: embedded}\n")
    connect.write("connectors/lines.yaml", SPEC)
    return connect


def test_plugins_are_listed_without_a_runtime(project: Command) -> None:
    listed = project("plugins", "list")
    assert listed.returncode == 0, listed.stderr
    assert "no runtime is up" in listed.stderr
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in listed.stdout
    connectors = json.loads(project("plugins", "list", "--connectors", "--json").stdout)["plugins"]
    assert {each["type"] for each in connectors} == {"sink", "source"}


def test_a_lock_is_written_checked_and_told_apart(project: Command) -> None:
    """The lock file of plugins' keys."""
    missing = project("plugins", "lock", "--check")
    assert missing.returncode == 4
    assert not (project.folder / "plugins.lock.json").exists()

    assert project("plugins", "lock").returncode == 0
    file = project.folder / "plugins.lock.json"
    written = file.read_text()
    locked = {each["class"]: each for each in json.loads(written)["plugins"]}
    assert "org.apache.kafka.connect.storage.StringConverter" in locked
    assert "org.apache.kafka.connect.json.JsonConverter" not in locked

    assert project("plugins", "lock", "--check").returncode == 0
    assert project("plugins", "lock").returncode == 0
    assert file.read_text() == written

    file.write_text(written.replace('"default": "2000"', '"default": "7"'))
    stale = project("plugins", "lock", "--check")
    assert stale.returncode == 4
    assert "  ~ batch.size: default 7 → 2000\n" in stale.stdout
    assert json.loads(project("plugins", "lock", "--check", "--json").stdout)["changes"][0][
        "keys"
    ] == ["~ batch.size: default 7 → 2000"]


def test_validate_checks_configs_of_a_cluster_by_its_lock(connect: Command) -> None:
    """Keys and types are checked offline, with no cluster and no credentials."""
    target = "target: {rest: 'http://127.0.0.1:1'}"
    connect.write("connect.yaml", f"project: p\ncluster: {{group.id: g, {target}}}\n")
    spec = connect.write(
        "connectors/a.yaml",
        "name: a\nconfig:\n  connector.class: Orders\n  topics: t\n"
        "  tasks.max: x\n  tokn: s3cret\n",
    )
    unknown = connect("validate")
    assert "warning[config.unknown-class]: connectors/a.yaml:3:3: " in unknown.stderr
    # What Connect says of its own keys holds whatever the class
    assert unknown.returncode == 2
    assert unknown.stderr.count("error[") == 1
    assert "error[config.refused]: connectors/a.yaml:5:3: " in unknown.stderr
    keys = [
        {"name": "tasks.max", "type": "INT", "importance": "HIGH"},
        {"name": "topics", "type": "LIST", "importance": "HIGH"},
        {"name": "token", "type": "PASSWORD", "importance": "HIGH"},
    ]
    plugin = {"class": "com.example.OrdersConnector", "type": "sink", "keys": keys}
    connect.write("plugins.lock.json", json.dumps({"format": 1, "plugins": [plugin]}))
    refused = connect("validate")
    assert refused.returncode == 2
    assert "error[config.refused]: connectors/a.yaml:5:3: a: Invalid value x" in refused.stderr
    spec.write_text(spec.read_text().replace("tasks.max: x", "tasks.max: 1"))
    warned = connect("validate", "--json")
    assert warned.returncode == 0, warned.stderr
    (warning,) = json.loads(warned.stdout)["warnings"]
    assert (warning["line"], warning["hint"]) == (6, "did you mean token?")
    assert "s3cret" not in warned.stdout + warned.stderr + refused.stdout + refused.stderr
