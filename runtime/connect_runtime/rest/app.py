"""The REST API as an ASGI application: routes, error bodies, and what Jetty does before Connect.

Resources run on threads, because the herder makes them wait. Every answer but Jetty's own is JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.verbs import Verbs
from connect_runtime.rest import wire
from connect_runtime.rest.connectors import Connectors
from connect_runtime.rest.exchange import NOTHING, Ask, Reply, Resource, error_reply
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

Routes = Mapping[tuple[str, str], Resource]

# The version of Connect whose API this is; clients choose by it what they may ask.
API_VERSION: Final = "4.1.0"

_JSON: Final = "application/json"
_PHRASES: Final = {404: "Not Found", 405: "Method Not Allowed", 415: "Unsupported Media Type"}
_AMBIGUOUS: Final = "<html><body><h2>HTTP ERROR 400 Ambiguous URI path separator</h2></body></html>"
_HEALTHY: Final = "Worker has completed startup and is ready to handle requests."
_STARTING: Final = "Worker is still starting up."


def create_app(
    verbs: Callable[[], Verbs | None],
    plugins: Routes,
    *,
    cluster_id: Callable[[], str],
    commit: str,
) -> ASGIApp:
    """The application. `verbs` gives None until there is a herder to ask; `plugins` are the
    resources below /connector-plugins."""

    def started() -> Verbs:
        found = verbs()
        if found is None:
            raise RequestError(503, "This worker is starting or ending; it answers no requests now")
        return found

    resources: dict[tuple[str, str], Resource] = {
        ("GET", "/"): lambda ask: Reply(
            200, {"version": API_VERSION, "commit": commit, "kafka_cluster_id": cluster_id()}
        ),
        ("GET", "/health"): lambda ask: _health(verbs()),
        ("GET", "/runtime"): lambda ask: Reply(200, wire.runtime_json(started().runtime())),
        **Connectors(started).routes(),
        **plugins,
    }
    starlette = Starlette(
        routes=_routes(resources),
        exception_handlers={HTTPException: _on_http, Exception: _on_bug},
    )
    return _Jetty(starlette)


def _health(verbs: Verbs | None) -> Reply:
    if verbs is None or not verbs.ready():
        return Reply(503, {"status": "starting", "message": _STARTING})
    problem = verbs.problem()
    if problem is not None:
        return Reply(500, {"status": "unhealthy", "message": f"Worker cannot run tasks. {problem}"})
    return Reply(200, {"status": "healthy", "message": _HEALTHY})


def _routes(resources: Routes) -> list[Route]:
    """One route a path, so that a wrong method is told from a wrong path."""
    by_path: dict[str, dict[str, Resource]] = {}
    for (method, path), resource in resources.items():
        by_path.setdefault(path, {})[method] = resource
    return [
        Route(path, _endpoint(methods), methods=[*methods, "OPTIONS"])
        for path, methods in by_path.items()
    ]


def _endpoint(methods: Mapping[str, Resource]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            allowed = ", ".join(sorted({*methods, "OPTIONS"}))
            return Response(allowed, media_type="text/plain", headers={"Allow": allowed})
        body = await request.body()
        if body and request.headers.get("content-type", "").split(";")[0].strip() != _JSON:
            return _response(error_reply(415, "HTTP 415 Unsupported Media Type"), media_type=None)
        ask = Ask(
            path=request.path_params,
            query=request.query_params.multi_items(),
            body=body,
            base=f"{request.url.scheme}://{request.url.netloc}",
        )
        resource = methods["GET" if request.method == "HEAD" else request.method]
        return _response(await run_in_threadpool(_answer, resource, ask))

    return endpoint


def _answer(resource: Resource, ask: Ask) -> Reply:
    """As Connect maps errors: its own to their status, all others to 500."""
    try:
        return resource(ask)
    except RequestError as error:
        return error_reply(error.status, error.message)
    except ConnectError as error:
        return error_reply(500, str(error))
    except Exception as error:
        _log.exception("A request failed")
        return error_reply(500, str(error))


def _response(reply: Reply, media_type: str | None = _JSON) -> Response:
    if reply.json is NOTHING:
        return Response(status_code=reply.status, headers=dict(reply.headers))
    content = orjson.dumps(reply.json)
    return Response(content, reply.status, dict(reply.headers), media_type=media_type)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = _PHRASES.get(error.status_code, error.detail)
    reply = error_reply(error.status_code, f"HTTP {error.status_code} {phrase}")
    # without a content type, as in Connect
    return _response(reply, media_type=None)


async def _on_bug(request: Request, error: Exception) -> Response:
    return _response(error_reply(500, str(error)))


class _Jetty:
    """Before routing: an encoded slash is refused, a slash at the end does not matter."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            if b"%2f" in raw.lower():
                await HTMLResponse(_AMBIGUOUS, 400)(scope, receive, send)
                return
            if scope["path"] != "/":
                scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        await self._app(scope, receive, send)
