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
