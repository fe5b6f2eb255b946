"""A `FakeWorker` behind a socket, for the command in a project over REST alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from support.fake_worker import FakeWorker
from support.serving import serving

_REFUSED = {"error_code": 500, "message": "no"}
_VALID = {"name": "C", "error_count": 0, "groups": [], "configs": []}


def no_plugins(path: str) -> Response:
    """Answers that there are none."""
    return JSONResponse([])


@contextmanager
def served_project(
    worker: FakeWorker,
    folder: Path,
    plugins: Callable[[str], Response] = no_plugins,
    seen: Callable[[str, Any], Any] = lambda path, body: body,
    asked: list[str] | None = None,
) -> Iterator[Path]:
    """A project in `folder`. `plugins` answers what is asked of plugins, `seen` gets a path and an
    answer's body, and returns the body that is sent. `asked` gets each request; only where it is
    wanted configs are validated, and well."""

    async def answer(request: Request) -> Response:
        path, body = request.url.path, await request.body()
        if asked is not None:
            asked.append(f"{request.method} {path}")
        if path.startswith("/connector-plugins"):
            if request.method != "GET":
                return JSONResponse(*((_REFUSED, 500) if asked is None else (_VALID, 200)))
            return await run_in_threadpool(plugins, path)
        url = httpx.URL("http://worker", raw_path=f"{path}?{request.url.query}".encode())
        found = worker.transport.handle_request(httpx.Request(request.method, url, content=body))
        if not found.content:
            return Response(b"", found.status_code)
        return Response(
            json.dumps(seen(path, found.json())), found.status_code, media_type="application/json"
        )

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    (folder / "connectors").mkdir()
    with serving(Starlette(routes=[Route("/{path:path}", answer, methods=methods)])) as address:
        target = f"target: {{rest: 'http://{address}'}}"
        (folder / "connect.yaml").write_text(f"project: p\ncluster:\n  group.id: g\n  {target}\n")
        yield folder
