"""Debezium's own archive: installed, restored by `connect up`, listed, and its keys locked, with a
runtime and without one."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import Command

pytestmark = [pytest.mark.spark, pytest.mark.long]

DEBEZIUM = "io.debezium:debezium-connector-postgres:3.6.1.Final"
CONNECTOR = "io.debezium.connector.postgresql.PostgresConnector"
# Ours has a version of its own
UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
TIMEOUT_S = 300.0
PROJECT = """\
project: p
cluster:
  group.id: p
  kafka: embedded
  worker: {listeners: "http://127.0.0.1:0"}
"""
SPEC = f"""\
name: orders
state: stopped
config:
  connector.class: {CONNECTOR}
  topic.prefix: shop
  database.hostname: 127.0.0.1
  database.port: 1
  database.user: me
  database.password: ${{env:PASSWORD}}
  database.dbname: shop
  transforms: unwrap
  transforms.unwrap.type: ExtractNewRecordState
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Command]:
    connect = Command(tmp_path)
    connect.write("connect.yaml", PROJECT)
    connect.write("connectors/orders.yaml", SPEC)
    yield connect
    done = connect("down")
    assert done.returncode == 0, done.stderr


def _json(project: Command, *words: str) -> Any:
    done = project(*words, "--json", timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _listed(project: Command) -> dict[str, Any]:
    return {plugin["class"]: plugin for plugin in _json(project, "plugins", "list")["plugins"]}


def test_debezium_is_installed_listed_and_locked(project: Command) -> None:
    assert _json(project, "plugins", "install", DEBEZIUM) == {
        "installed": ["debezium-connector-postgres"],
        "removed": [],
    }
    lock = (project.folder / "plugins.lock.json").read_text()
    offline = _listed(project)
    assert offline[CONNECTOR] == {
        "class": CONNECTOR,
        "type": "source",
        "version": "3.6.1.Final",
        "from": DEBEZIUM,
    }
    assert (offline[UNWRAP]["version"], offline[UNWRAP]["from"]) == ("3.6.1.Final", DEBEZIUM)
    own = offline["org.apache.kafka.connect.file.FileStreamSourceConnector"]
    assert own["from"] == "built in"
    # as on another machine
    shutil.rmtree(project.folder / ".connect" / "plugins")
    shutil.rmtree(project.folder / ".connect" / "plugin-store")
    done = project("up", "--detach", timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert "installed Java plugins: debezium-connector-postgres" in done.stderr
    assert _listed(project) == offline
    assert (project.folder / "plugins.lock.json").read_text() == lock

    _json(project, "plugins", "lock")
    of_runtime = (project.folder / "plugins.lock.json").read_text()
    assert json.loads(of_runtime)["installed"] == json.loads(lock)["installed"]
    versions = {entry["class"]: entry["version"] for entry in json.loads(of_runtime)["plugins"]}
    assert versions[UNWRAP] == versions[CONNECTOR] == "3.6.1.Final"
    assert project("down").returncode == 0
    (project.folder / "plugins.lock.json").write_text(lock)
    _json(project, "plugins", "lock")
    assert (project.folder / "plugins.lock.json").read_text() == of_runtime

    assert _json(project, "plan")["summary"]["create"] == 1
    applied = project("apply", "--yes", timeout_s=TIMEOUT_S)
    # Debezium looks for its database when it validates: it was asked
    words = "Error while validating connector config: Connection to"
    assert words in applied.stdout + applied.stderr
