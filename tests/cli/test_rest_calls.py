"""How many requests one `connect plan` of a large project makes, over REST alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from connect_reconciler.cli import entry
from connect_specs.states import TargetState
from support.fake_worker import FakeWorker, Stored
from support.serving import serving

CLASS = "org.example.LinesSink"
CONFIG = {"connector.class": CLASS, "topics": "t", "file": "x"}


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker(
        connectors={
            name: Stored({**CONFIG, "name": name}, TargetState.RUNNING)
            for name in (f"c{number}" for number in range(300))
        }
    )


@pytest.fixture
def requests(worker: FakeWorker) -> Iterator[tuple[str, list[str]]]:
    """The worker's URL with plugins that it knows, and what it is asked."""
    asked: list[str] = []

    async def answer(request: Request) -> Response:
        path, body = request.url.path, await request.body()
        asked.append(f"{request.method} {path}")
        if path == "/connector-plugins":
            return JSONResponse([{"class": CLASS, "type": "sink", "version": "1"}])
        if path.endswith("/validate"):
            return JSONResponse({"name": CLASS, "error_count": 0, "groups": [], "configs": []})
        if path.startswith("/connector-plugins"):
            return JSONResponse([])
        url = httpx.URL("http://worker", raw_path=f"{path}?{request.url.query}".encode())
        found = worker.transport.handle_request(httpx.Request(request.method, url, content=body))
        return Response(found.read(), found.status_code, media_type="application/json")

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    with serving(Starlette(routes=[Route("/{path:path}", answer, methods=methods)])) as address:
        yield f"http://{address}", asked


def test_a_plan_of_300_connectors_asks_ten_times_at_most(
    requests: tuple[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url, asked = requests
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connect.yaml").write_text(
        f"project: p\ncluster:\n  group.id: g\n  target: {{rest: '{url}'}}\n"
    )
    for number in range(300):
        spec = {"name": f"c{number}", "config": dict(CONFIG)}
        if number == 7:
            spec["config"]["topics"] = "t,u"
        (tmp_path / "connectors" / f"c{number}.json").write_text(json.dumps(spec))
    assert entry.run(("plan", "--json", "--take-over", "c7")) in (0, 4), capfd.readouterr()
    assert asked.count("GET /connectors/c7/offsets") == 1
    assert asked.count(f"PUT /connector-plugins/{CLASS}/config/validate") == 1
    assert len(asked) <= 10, asked
