"""What a project over REST alone asks its cluster."""

from __future__ import annotations

import json
from pathlib import Path

from starlette.responses import JSONResponse, Response

from connect_specs.desired import TargetState
from support.command import Command
from support.fake_worker import FakeWorker, Stored
from support.served_worker import served_project

CLASS = "FileStreamSinkConnector"
CONFIG = {"connector.class": CLASS, "topics": "t", "file": "/a"}


def plugins(path: str) -> Response:
    sink = {"class": CLASS, "type": "sink", "version": "1"}
    return JSONResponse([sink] if path == "/connector-plugins" else [])


def test_a_plan_of_300_connectors_asks_ten_times_at_most(connect: Command, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(300)]
    worker = FakeWorker(
        connectors={name: Stored({**CONFIG, "name": name}, TargetState.RUNNING) for name in names}
    )
    asked: list[str] = []
    with served_project(worker, tmp_path, plugins, asked=asked):
        for name in names:
            config = {**CONFIG, "topics": "t,u" if name == "c7" else "t"}
            connect.write(f"connectors/{name}.json", json.dumps({"name": name, "config": config}))
        assert connect("plan", "--json", "--take-over", "c7").returncode in (0, 4)
    assert asked.count("GET /connectors/c7/offsets") == 1
    assert asked.count(f"PUT /connector-plugins/{CLASS}/config/validate") == 1
    assert len(asked) <= 10, asked
