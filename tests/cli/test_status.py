"""`connect status` of a Connect cluster of Apache's: what a person and a pipeline read of it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from connect_reconciler.ledger.config_entry import Entry, dump_entry
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.ledger_records import owned_record
from connect_runtime import KAFKA_VERSION
from connect_specs.names import ClusterTopics
from support.broker import BrokerAddress, produce
from support.by_hand import ByHand
from support.command import CONNECT, Command
from support.rig import Rig
from support.serving import serving

TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: Couldn't open it\n"
    "\tat org.apache.kafka.connect.file.FileStreamSinkTask.start(FileStreamSinkTask.java:1)\n"
    "Caused by: java.nio.file.NoSuchFileException: /x\n"
)


def connector(
    state: str = "RUNNING",
    *tasks: str,
    owner: str = "",
    class_name: str = "FileStreamSinkConnector",
    kind: str = "sink",
) -> dict[str, Any]:
    """One as `GET /connectors` tells it; a task that failed has a trace."""
    config = {"connector.class": class_name}
    if owner:
        config[LEDGER_KEY] = dump_entry(Entry(Owned(owner, {}, None), {}))
    return {
        "info": {"config": config, "tasks": list(range(len(tasks))), "type": kind},
        "status": {
            "connector": {"state": state, "worker_id": "w:8083"},
            "tasks": [
                {"id": number, "state": task, "worker_id": "w:8083"}
                | ({"trace": TRACE} if task == "FAILED" else {})
                for number, task in enumerate(tasks)
            ],
            "type": kind,
        },
    }


@contextmanager
def worker(connectors: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A worker that answers what it is asked about them; its address."""
    for name, each in connectors.items():
        each["info"] |= {"name": name}
        each["info"]["config"] |= {"name": name}
        each["info"]["tasks"] = [{"connector": name, "task": n} for n in each["info"]["tasks"]]
        each["status"] |= {"name": name}

    async def answer(request: Request) -> Response:
        match request.url.path.strip("/").split("/"):
            case [""]:
                return JSONResponse(
                    {"version": KAFKA_VERSION, "commit": "c", "kafka_cluster_id": "k"}
                )
            case ["connectors"]:
                asked = request.query_params.getlist("expand")
                found = {n: {k: each[k] for k in asked} for n, each in connectors.items()}
                return JSONResponse(found if asked else list(connectors))
            case ["connectors", name, "status"] if name in connectors:
                return JSONResponse(connectors[name]["status"])
            case ["connector-plugins"]:
                return JSONResponse([])
        return JSONResponse({"error_code": 404, "message": "not here"}, 404)

    app = Starlette(routes=[Route("/{path:path}", answer)])
    with serving(app) as address:
        yield address


@pytest.fixture
def project(connect: Command) -> Iterator[Command]:
    """A cluster with a connector of each kind, of which the specs name two."""
    there = {
        "a": connector("RUNNING", "FAILED"),
        "b": connector("RUNNING", "RUNNING", "RUNNING"),
        "gone": connector("STOPPED", owner="p"),
        "theirs": connector("FAILED", owner="q"),
        "wild": connector("RUNNING", "RUNNING"),
    }
    with worker(there) as address:
        target = f"{{rest: 'http://{address}'}}"
        connect.write("connect.yaml", f"project: p\ncluster: {{group.id: g, target: {target}}}\n")
        for name in ("a", "b"):
            connect.write(
                f"connectors/{name}.yaml", f"name: {name}\nconfig: {{connector.class: C}}\n"
            )
        yield connect


def test_a_failed_task_fails_its_connector_and_says_why_in_its_row(project: Command) -> None:
    done = project("status")
    assert done.returncode == 0
    assert done.stdout == (
        "CONNECTOR  TARGET   TYPE  STATE    TASKS  REASON\n"
        "a          running  sink  FAILED   0/1    NoSuchFileException: /x\n"
        "b          running  sink  RUNNING  2/2\n"
        "gone       stopped  sink  STOPPED  0/0\n"
    )
    assert done.stderr == "not shown: 2 of other projects or unmanaged (--all lists them)\n"


def names(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split()[0] for line in done.stdout.splitlines()[1:]]


def test_which_are_shown(project: Command) -> None:
    everything = project("status", "--all")
    assert names(everything) == ["a", "b", "gone", "theirs", "wild"]
    assert everything.stderr == ""
    assert names(project("status", "--target", "b")) == ["b"]
    assert names(project("status", "--all", "--target", "w*", "--target", "b")) == ["b", "wild"]
    unknown = project("status", "--target", "wild")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there are: a" in unknown.stderr


def test_the_exit_code_tells_only_when_asked(project: Command) -> None:
    assert project("status").returncode == 0
    assert project("status", "--exit-code").returncode == 1
    assert project("status", "--exit-code", "--target", "b", "--target", "gone").returncode == 0
    assert project("status", "--exit-code", "--json", "--all").returncode == 1


def test_the_type_is_what_rest_says_where_the_name_of_a_class_does_not_tell(
    connect: Command,
) -> None:
    debezium = "io.debezium.connector.postgresql.PostgresConnector"
    with worker({"a": connector("RUNNING", class_name=debezium, kind="source")}) as address:
        target = f"{{rest: 'http://{address}'}}"
        connect.write("connect.yaml", f"project: p\ncluster: {{group.id: g, target: {target}}}\n")
        connect.write("connectors/a.yaml", f"name: a\nconfig: {{connector.class: {debezium}}}\n")
        assert "a          running  source  RUNNING  0/0\n" in connect("status").stdout
        (found,) = json.loads(connect("status", "--json").stdout)["connectors"]
    assert found["type"] == "source"


def test_the_type_is_that_of_an_installed_class(on_kafka: Command, by_hand: ByHand) -> None:
    """No runtime is up, and the class's name does not tell."""
    file = on_kafka.folder / "connect.yaml"
    project = yaml.safe_load(file.read_text())
    project["cluster"]["worker"] |= {"plugin.modules": "support.gated"}
    file.write_text(yaml.safe_dump(project))
    by_hand.config("a", **{"connector.class": "support.gated:SlowToStart"})
    done = on_kafka("status", "--all")
    assert done.stdout, done.stderr
    assert done.stdout.splitlines()[1].split()[:3] == ["a", "running", "source"]


def test_what_a_spec_names_and_the_cluster_lost_is_missing(project: Command) -> None:
    project.write("connectors/c.yaml", "name: c\nstate: stopped\nconfig: {connector.class: C}\n")
    asked = ("status", "--target", "b", "--target", "c")
    assert project(*asked).stdout == (
        "CONNECTOR  TARGET   TYPE  STATE    TASKS  REASON\n"
        "b          running  sink  RUNNING  2/2\n"
        "c          stopped  -     MISSING  -      not applied yet\n"
    )
    assert project(*asked, "--exit-code").returncode == 1
    told = json.loads(project(*asked, "--json").stdout)["connectors"][1]
    assert (told["state"], told["why"]) == ("MISSING", ["not applied yet"])


def test_all_says_whose_each_connector_is(project: Command) -> None:
    lines = project("status", "--all").stdout.splitlines()
    assert lines[0].split()[:6] == ["CONNECTOR", "TARGET", "TYPE", "STATE", "TASKS", "PROJECT"]
    owners = [(line.split()[0], line.split()[5]) for line in lines[1:]]
    assert owners == [("a", "-"), ("b", "-"), ("gone", "p"), ("theirs", "q"), ("wild", "-")]


def test_json_is_complete(project: Command) -> None:
    told = json.loads(project("status", "--json").stdout)
    assert told["not_shown"] == 2
    first, second, third = told["connectors"]
    assert (first["name"], first["state"], first["target"]) == ("a", "FAILED", "running")
    assert first["connector"]["state"] == "RUNNING"
    assert first["why"] == ["NoSuchFileException: /x"]
    assert first["tasks"][0]["trace"] == TRACE
    assert (second["why"], second["project"]) == ([], None)
    assert third["project"] == "p"


def test_specs_that_cannot_be_read_hide_nothing(project: Command) -> None:
    project.write("connectors/a.yaml", "name: a\nconfg: {}\n")
    done = project("status")
    assert names(done) == ["a", "b", "gone", "theirs", "wild"]
    assert "the specs cannot be read" in done.stderr


def test_a_narrow_terminal(project: Command) -> None:
    ours, its = pty.openpty()
    shown = subprocess.Popen(
        [*CONNECT, "status"],
        cwd=project.folder,
        env=os.environ | {"COLUMNS": "50"},
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=subprocess.DEVNULL,
    )
    os.close(its)
    assert shown.wait(60) == 0
    text = os.read(ours, 65536).decode().replace("\r\n", "\n")
    os.close(ours)
    assert "a          running  sink  FAILED   0/1\n    NoSuchFileException: /x\n" in text
    assert max(map(len, text.splitlines())) <= 50


def test_what_never_was_there_is_not_said_to_be_gone(
    broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    """The ledger names its owner before it is created, and the cluster refuses it then."""
    rig = Rig(tmp_path / "project", f"status-{unique[-8:]}", broker.kafka)
    rig.source("a", state="stopped")
    rig.apply()
    rig("delete", "a", "--yes")
    rig.source("b", state="stopped")
    topic = ClusterTopics.of(rig.name).ledger
    begun = owned_record(topic, "b", Owned(rig.name, {}, None, applied_ms=0))
    produce(broker.bootstrap_servers, topic, [(begun.key, begun.value)])
    shown = rig("status").stdout
    assert re.search(r"^a .* no longer on the cluster$", shown, re.MULTILINE), shown
    assert re.search(r"^b .* an apply began to create it", shown, re.MULTILINE), shown
    assert list(rig.leftovers()) == []
