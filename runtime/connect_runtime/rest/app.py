"""Builds the REST API as an ASGI application: routes, error bodies, and Jetty's own checks.

Resources run on threads, because the herder makes them wait. Every answer but Jetty's own is JSON.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote, unquote

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from connect_runtime.herder.errors import REFUSAL_HEADER, RequestError
from connect_runtime.herder.verbs import Verbs
from connect_runtime.rest import wire
from connect_runtime.rest.access import guarded
from connect_runtime.rest.body_limit import read_body
from connect_runtime.rest.connectors import Connectors
from connect_runtime.rest.exchange import Call, Reply, Resource, error_reply
from connect_runtime.rest.lanes import Busy, Lane, Lanes
from connect_runtime.rest.responses import JSON, response
from connect_runtime.rest.settings import RestSettings
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

Routes = Mapping[tuple[str, str], Resource]

# The version of Connect whose API this is; clients use it to choose requests.
API_VERSION: Final = "4.1.0"

_PHRASES: Final = {404: "Not Found", 405: "Method Not Allowed", 415: "Unsupported Media Type"}
_AMBIGUOUS: Final = "<html><body><h2>HTTP ERROR 400 Ambiguous URI path separator</h2></body></html>"
_HEALTHY: Final = "Worker has completed startup and is ready to handle requests."
_STARTING: Final = "Worker is still starting up."
# In a path, /connectors/<name>
_NAME_AT: Final = 2
# The client is gone.
_NOBODY: Final = Response(status_code=400)
_BUSY_S: Final = "1"

_Laned = tuple[Resource, Lane]


def create_app(
    verbs: Callable[[], Verbs | None],
    plugins: Routes,
    *,
    cluster_id: Callable[[], str],
    commit: str,
    settings: RestSettings | None = None,
    password: Callable[[], str | None] = lambda: None,
) -> ASGIApp:
    """Builds the application. `verbs` returns None until there is a herder; `plugins` are the
    resources below /connector-plugins; `password` returns the current one, if any."""
    settings = settings or RestSettings()

    def started() -> Verbs:
        found = verbs()
        if found is None:
            raise RequestError(503, "This worker is starting or ending; it answers no requests now")
        return found

    def exists(name: str) -> bool:
        found = verbs()
        return found is not None and name in found.connectors()

    resources: dict[tuple[str, str], Resource] = {
        ("GET", "/"): lambda call: Reply(
            200, {"version": API_VERSION, "commit": commit, "kafka_cluster_id": cluster_id()}
        ),
        ("GET", "/health"): lambda call: _health(verbs()),
        ("GET", "/runtime"): lambda call: Reply(200, wire.runtime_json(started().runtime())),
        **Connectors(started).routes(),
        **plugins,
    }
    starlette = Starlette(
        routes=_routes(resources, settings.max_body_bytes),
        exception_handlers={HTTPException: _on_http, Exception: _on_bug},
    )
    return guarded(_Jetty(starlette, exists), settings, password)


def _health(verbs: Verbs | None) -> Reply:
    if verbs is None or not verbs.ready():
        return Reply(503, {"status": "starting", "message": _STARTING})
    problem = verbs.problem()
    if problem is not None:
        return Reply(500, {"status": "unhealthy", "message": f"Worker cannot run tasks. {problem}"})
    return Reply(200, {"status": "healthy", "message": _HEALTHY})


def _routes(resources: Routes, max_body_bytes: int) -> list[Route]:
    """Returns one route per path, so that a wrong method differs from a wrong path."""
    lanes = Lanes()
    by_path: dict[str, dict[str, _Laned]] = {}
    for (method, path), resource in resources.items():
        by_path.setdefault(path, {})[method] = (resource, lanes.of(method, path))
    return [
        Route(path, _endpoint(methods, max_body_bytes), methods=[*methods, "OPTIONS"])
        for path, methods in by_path.items()
    ]


def _endpoint(
    methods: Mapping[str, _Laned], max_body_bytes: int
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            allowed = ", ".join(sorted({*methods, "OPTIONS"}))
            return Response(allowed, media_type="text/plain", headers={"Allow": allowed})
        try:
            body = await read_body(request, max_body_bytes)
        except RequestError as error:
            return response(error_reply(error.status, error.message))
        except ClientDisconnect:
            return _NOBODY
        if body and request.headers.get("content-type", "").split(";")[0].strip() != JSON:
            return response(error_reply(415, "HTTP 415 Unsupported Media Type"), media_type=None)
        call = Call(
            path={key: unquote(value) for key, value in request.path_params.items()},
            query=request.query_params.multi_items(),
            body=body,
            base=f"{request.url.scheme}://{request.url.netloc}",
        )
        resource, lane = methods["GET" if request.method == "HEAD" else request.method]
        return await _answered(request, lane, lambda: _answer(resource, call))

    return endpoint


async def _answered(request: Request, lane: Lane, answer: Callable[[], Response]) -> Response:
    """Returns the answer; if the client disconnects while its request is queued, it never
    starts."""
    found = _NOBODY
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            found = await lane.run(answer)
        except Busy as error:
            again = error_reply(error.status, error.message)
            found = response(Reply(again.status, again.json, {"Retry-After": _BUSY_S}))
        group.cancel_scope.cancel()
    return found


def _answer(resource: Resource, call: Call) -> Response:
    """Maps errors as Connect does: its own to their status, all others to 500."""
    try:
        return response(resource(call))
    except RequestError as error:
        return response(_refused(error))
    except ConnectError as error:
        return response(error_reply(500, str(error)))
    except Exception as error:
        where = "".join(traceback.format_tb(error.__traceback__))
        _log.error("A request failed with %s:\n%s", type(error).__name__, where)
        return response(_unexpected(error))


def _refused(error: RequestError) -> Reply:
    """Returns Connect's body, and in a header the code that Connect has none for."""
    found = error_reply(error.status, error.message)
    if error.refusal is None:
        return found
    return Reply(found.status, found.json, {REFUSAL_HEADER: error.refusal.value})


def _unexpected(error: Exception) -> Reply:
    """Returns an error without its text, which may hold the values of a config."""
    return error_reply(500, f"Unexpected {type(error).__name__}; the worker's log says where")


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = _PHRASES.get(error.status_code, error.detail)
    reply = error_reply(error.status_code, f"HTTP {error.status_code} {phrase}")
    # without a content type, as in Connect
    return response(reply, media_type=None)


async def _on_bug(request: Request, error: Exception) -> Response:
    return response(_unexpected(error))


class _Jetty:
    """Applies Jetty's rules before routing: refuses an encoded slash, ignores a trailing slash.

    Exception: connectors whose names hold a slash, which Apache's workers create and cannot delete.
    Paths stay encoded until they are routed, so such a name is one part of its path.
    """

    def __init__(self, app: ASGIApp, exists: Callable[[str], bool]) -> None:
        self._app = app
        self._exists = exists

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            parts = [unquote(part) for part in raw.decode("ascii", "replace").split("/")]
            if any("/" in part for part in parts) and not self._is_connector(parts):
                await HTMLResponse(_AMBIGUOUS, 400)(scope, receive, send)
                return
            path = "/".join(quote(part, safe="") for part in parts)
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)

    def _is_connector(self, parts: list[str]) -> bool:
        elsewhere = any("/" in part for at, part in enumerate(parts) if at != _NAME_AT)
        return not elsewhere and parts[1] == "connectors" and self._exists(parts[_NAME_AT])
