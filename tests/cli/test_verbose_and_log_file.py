"""`--verbose` and `--log-file`: what is asked of a cluster is told, in a file of the user's own."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from connect_reconciler.cli import entry
from connect_runtime import KAFKA_VERSION
from support.broker import BrokerAddress
from support.serving import serving

ABOUT = {"version": KAFKA_VERSION, "commit": "c", "kafka_cluster_id": "k"}
CONFIG = {"connector.class": "FileStreamSource", "topic": "t", "db.password": "hunter2"}
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} (rest|kafka) \S.*")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project over REST alone, with one connector to be created."""

    async def answer(request: Request) -> JSONResponse:
        match request.method, request.url.path:
            case "GET", "/":
                return JSONResponse(ABOUT)
            case "GET", "/connectors" if request.url.query:
                return JSONResponse({})
            case "GET", "/connectors" | "/connector-plugins":
                return JSONResponse([])
        return JSONResponse({"error_code": 404, "message": f"no hunter2 {CONFIG}"}, 404)

    methods = ["GET", "POST", "PUT"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connectors").mkdir()
    spec = {"name": "a", "config": CONFIG}
    (tmp_path / "connectors" / "a.json").write_text(json.dumps(spec))
    with serving(Starlette(routes=[Route("/{path:path}", answer, methods=methods)])) as address:
        target = f"{{rest: 'http://{address}', user: joe, password: hunter2}}"
        (tmp_path / "connect.yaml").write_text(
            f"project: p\ncluster:\n  group.id: g\n  target: {target}\n"
        )
        yield tmp_path


@pytest.mark.parametrize("after", [False, True], ids=["before the verb", "after it"])
def test_every_exchange_is_told(
    project: Path, capfd: pytest.CaptureFixture[str], after: bool
) -> None:
    """Request, status, duration, sizes and bodies, in lines; stdout stays what it was."""
    log = project / "asked.log"
    log.write_text("")
    log.chmod(0o644)
    given = ["--verbose", "--log-file", "asked.log"]
    words = ["plan", "--json", *given] if after else [*given, "plan", "--json"]
    assert entry.run(words) == 0
    said, told = capfd.readouterr()
    assert json.loads(said)
    assert log.stat().st_mode & 0o777 == 0o600
    lines = log.read_text().splitlines()
    assert all(map(LINE.fullmatch, lines)), lines
    # lines of two requests at once have any order
    assert sorted(filter(LINE.fullmatch, told.splitlines())) == sorted(lines)
    assert "hunter2" not in told
    text = "\n".join(lines)
    assert re.search(r"rest GET http://\S+/: 200 in \d+ ms, sent 0 bytes, got \d+ bytes", text)
    assert re.search(r"rest PUT http://\S+/config/validate: 404 in \d+ ms, sent \d+ bytes", text)
    assert f'got: {{"version":"{KAFKA_VERSION}","commit":"c","kafka_cluster_id":"k"}}' in text
    assert '"connector.class":"FileStreamSource","topic":"(1 characters)"' in text


def test_nothing_is_told_unasked(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["plan", "--verbose"]) == 0
    assert " rest GET " in capfd.readouterr().err
    assert entry.run(["plan"]) == 0
    assert " rest GET " not in capfd.readouterr().err
    logger = logging.getLogger("connect.requests")
    assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True)


def test_what_was_told_before_stays(project: Path) -> None:
    for _ in range(2):
        assert entry.run(["plan", "--log-file", "asked.log"]) == 0
    assert (project / "asked.log").read_text().count("/connectors?expand=info&expand=status: ") == 2


def test_a_full_disk_ends_what_is_told_and_no_verb(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["plan", "--log-file", "/dev/full"]) == 0
    told = capfd.readouterr().err
    assert told.count("--log-file can no longer be written: No space left on device") == 1
    assert "Traceback" not in told


def test_a_request_without_an_answer_is_told(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "connect.yaml").write_text(
        "project: p\ncluster: {group.id: g, target: {rest: 'http://joe:hunter2@127.0.0.1:1'}}\n"
    )
    assert entry.run(["plan", "--verbose"]) == 3
    told = capfd.readouterr().err
    assert re.search(r"rest GET http://127.0.0.1:1/: no answer after \d+ ms: ConnectError", told)
    assert "hunter2" not in told


def test_every_call_to_kafka_is_told(
    broker: BrokerAddress,
    unique: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connectors").mkdir()
    config = {"connector.class": "FileStreamSink", "topics": "t", "file": "/dev/null"}
    spec = {"name": "a", "config": config, "state": "stopped"}
    (tmp_path / "connectors" / "a.json").write_text(json.dumps(spec))
    kafka = f"{{bootstrap.servers: '{broker.bootstrap_servers}', ssl.key.password: hunter2}}"
    (tmp_path / "connect.yaml").write_text(
        f"project: p\ncluster:\n  group.id: {unique}\n  kafka: {kafka}\n"
    )
    assert entry.run(["apply", "--yes", "--verbose"]) == 0
    assert entry.run(["plan", "--verbose"]) == 0
    told = capfd.readouterr().err
    took = r"in \d+ ms"
    for line in (
        rf"kafka get the cluster id of Kafka at {re.escape(broker.bootstrap_servers)}: done {took}",
        rf"kafka create topic \S+: done {took}",
        rf"kafka read what there is of topic \S+, \S+, \S+, \S+: \d+ found {took}",
        rf"kafka write to topic \S+: \d+ found {took}",
        rf"kafka find the leader of group {unique}: ",
        rf"kafka get the offsets of group connect-a: \d+ found {took}",
    ):
        assert re.search(line, told), line
    assert "hunter2" not in told
