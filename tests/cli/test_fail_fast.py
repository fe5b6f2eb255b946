"""`connect apply --fail-fast` starts no connector after the first failure."""

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
from support.fake_worker import FakeWorker
from support.serving import serving

CLASS = "org.example.LinesSink"


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker()


@pytest.fixture
def url(worker: FakeWorker) -> Iterator[str]:
    """The URL of a worker that refuses to create `b`."""

    async def answer(request: Request) -> Response:
        path, body = request.url.path, await request.body()
        if path == "/connector-plugins":
            return JSONResponse([{"class": CLASS, "type": "sink", "version": "1"}])
        if path.endswith("/validate"):
            return JSONResponse({"name": CLASS, "error_count": 0, "groups": [], "configs": []})
        if request.method == "POST" and json.loads(body).get("name") == "b":
            return JSONResponse({"error_code": 400, "message": "no"}, 400)
        raw = f"{path}?{request.url.query}".encode()
        asked = httpx.Request(
            request.method, httpx.URL("http://worker", raw_path=raw), content=body
        )
        found = worker.transport.handle_request(asked)
        return Response(found.read(), found.status_code, media_type="application/json")

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    with serving(Starlette(routes=[Route("/{path:path}", answer, methods=methods)])) as address:
        yield f"http://{address}"


@pytest.mark.parametrize(("options", "created"), [((), ["a", "c"]), (("--fail-fast",), ["a"])])
def test_no_connector_is_started_after_the_first_failure(
    options: tuple[str, ...],
    created: list[str],
    worker: FakeWorker,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connect.yaml").write_text(
        f"project: p\ncluster:\n  group.id: g\n  target: {{rest: '{url}'}}\n"
    )
    for name in "abc":
        config = {"connector.class": CLASS, "topics": "t"}
        spec = {"name": name, "config": config, "state": "stopped"}
        (tmp_path / "connectors" / f"{name}.json").write_text(json.dumps(spec))
    words = ("apply", "--yes", "--parallelism", "1", "--settle", "0", "--healthy-for", "0")
    assert entry.run((*words, *options)) == 1
    assert sorted(worker.connectors) == created
