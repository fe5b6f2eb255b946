"""Builds the REST API as an ASGI application: routes, error bodies, and Jetty's own checks.

Resources that may wait for the herder run on threads; what only the leader answers is then
forwarded to it without one. Every answer but Jetty's own and /metrics is JSON.
"""

from __future__ import annotations

import logging
import ssl
import traceback
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Final, TypeVar
from urllib.parse import unquote

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from connect_runtime.herder.verbs import REFUSAL_HEADER, NotLeader, RequestError, Verbs, WouldWait
from connect_runtime.kafka_version import KAFKA_VERSION
from connect_runtime.metrics.exposition import CONTENT_TYPE
from connect_runtime.rest import jetty, openapi, wire
from connect_runtime.rest.access import guarded
from connect_runtime.rest.body_limit import HeldBytes, read_body
from connect_runtime.rest.connectors import Connectors
from connect_runtime.rest.exchange import Call, Reply, Resource, Text, error_reply
from connect_runtime.rest.forwarding import AdminForwarding, Forwarding
from connect_runtime.rest.lanes import Busy, Lane, Lanes
from connect_runtime.rest.limits import most_connections
from connect_runtime.rest.loggers import Loggers
from connect_runtime.rest.negotiation import accepts_json, allowed, is_json, is_media_type
from connect_runtime.rest.response_headers import ResponseHeaders
from connect_runtime.rest.responses import response
from connect_runtime.rest.settings import RestSettings
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

Routes = Mapping[tuple[str, str], Resource]

_PHRASES: Final = {
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    415: "Unsupported Media Type",
}
_HEALTHY: Final = "Worker has completed startup and is ready to handle requests."
_STARTING: Final = "Worker is still starting up."
_METRICS: Final = "/metrics"
# Resources that Apache's workers answer whatever the request's content type
_TAKE_ANYTHING: Final = ("/", "/health")
# The client is gone.
_NOBODY: Final = Response(status_code=400)
_BUSY_S: Final = "1"

_Laned = tuple[Resource, Lane]
T = TypeVar("T")


class Served(Enum):
    """What a listener serves: admin resources are those below /admin."""

    ALL = "all"
    REGULAR = "all but admin resources"
    ADMIN = "admin resources"


def create_app(
    verbs: Callable[[], Verbs | None],
    plugins: Routes,
    *,
    cluster_id: Callable[[], str],
    commit: str,
    settings: RestSettings | None = None,
    password: Callable[[], str | None] = lambda: None,
    metrics: Callable[[], str] | None = None,
    serves: Served = Served.ALL,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> ASGIApp:
    """Builds the application of one listener. `verbs` returns None until there is a herder;
    `plugins` are the resources below /connector-plugins; `password` returns the current one, if
    any; `metrics` the page for Prometheus, or raises RequestError; `tls` how an https leader is
    verified."""
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
            200, {"version": KAFKA_VERSION, "commit": commit, "kafka_cluster_id": cluster_id()}
        ),
        ("GET", "/health"): lambda call: _health(verbs()),
        ("GET", "/runtime"): lambda call: Reply(200, wire.runtime_json(started().runtime())),
        **Connectors(started).routes(),
        **plugins,
    }
    if metrics is not None and settings.metrics:
        resources["GET", _METRICS] = lambda call: Reply(200, text=Text(metrics(), CONTENT_TYPE))
    admin = Loggers(started).routes()
    if serves is Served.ADMIN:
        resources = {**admin}
    elif serves is Served.ALL:
        resources |= admin
    described = openapi.document([*resources, ("GET", openapi.PATH)], KAFKA_VERSION)
    resources["GET", openapi.PATH] = lambda call: Reply(200, described)
    is_regular = serves is not Served.ADMIN
    forwards = Forwarding if is_regular else AdminForwarding
    forwarding = forwards(settings.login_hosts, tls, settings.max_body_bytes)
    starlette = Starlette(
        routes=_routes(resources, settings.max_body_bytes, forwarding),
        exception_handlers={HTTPException: _on_http, Exception: _on_bug},
    )
    app = guarded(jetty.Jetty(starlette, exists), settings, password, cross_origin=is_regular)
    if settings.headers:
        app = ResponseHeaders(app, settings.headers)
    return app


def _health(verbs: Verbs | None) -> Reply:
    if verbs is None or not verbs.ready():
        return Reply(503, {"status": "starting", "message": _STARTING})
    problem = verbs.problem()
    if problem is not None:
        return Reply(500, {"status": "unhealthy", "message": problem})
    # a restart, which an orchestrator may order, would not help
    degraded = verbs.degraded()
    message = _HEALTHY if degraded is None else f"{_HEALTHY} {degraded}"
    return Reply(200, {"status": "healthy", "message": message})


def _routes(resources: Routes, max_body_bytes: int, forwarding: Forwarding) -> list[Route]:
    """Returns one route per path, so that a wrong method differs from a wrong path."""
    lanes, held = Lanes(most_connections()), HeldBytes(max_body_bytes)
    by_path: dict[str, dict[str, _Laned]] = {}
    for (method, path), resource in resources.items():
        by_path.setdefault(path, {})[method] = (resource, lanes.of(method, path))
    # routes are tried in their order: a dashboard's reads are not to pay for the rest
    quick = [path for path in by_path if lanes.of("GET", path) is lanes.one_connector]
    return [
        Route(
            path,
            _endpoint(path, methods, max_body_bytes, held, forwarding),
            methods=[*methods, "OPTIONS"],
        )
        for path, methods in {path: by_path[path] for path in (*quick, *by_path)}.items()
    ]


def _endpoint(
    path: str,
    methods: Mapping[str, _Laned],
    max_body_bytes: int,
    held: HeldBytes,
    forwarding: Forwarding,
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return _options(methods)
        refused = _not_negotiable(request, path)
        if refused is not None:
            return refused
        try:
            with held.share() as grown_to:
                return await answer(request, await read_body(request, max_body_bytes, grown_to))
        except RequestError as error:
            return response(_refused(error))
        except ClientDisconnect:
            return _NOBODY

    async def answer(request: Request, body: bytes) -> Response:
        call = Call(
            path={key: unquote(value) for key, value in request.path_params.items()},
            query=request.query_params.multi_items(),
            body=body,
            base=_base(request),
            headers=request.headers,
            method=request.method,
            target=request.scope["path"],
        )
        resource, lane = methods["GET" if request.method == "HEAD" else request.method]

        async def asked() -> Response | NotLeader:
            return await lane.run(lambda: _answer(resource, call))

        # what has begun is not cancelled: only what waits is worth watching its client
        found = await (asked() if lane.is_free else _unless_gone(request, asked))
        if not isinstance(found, NotLeader):
            return found
        leader = found.leader
        return await _unless_gone(request, lambda: forwarding.send(call, leader))

    return endpoint


def _base(request: Request) -> str:
    """Only answers to writes tell an address, which takes a twentieth of a read's time to make."""
    is_read = request.method in ("GET", "HEAD")
    return "" if is_read else f"{request.url.scheme}://{request.url.netloc}"


def _options(methods: Mapping[str, _Laned]) -> Response:
    found = allowed(methods)
    response = Response(", ".join(found), headers={"Allow": ",".join(found)})
    response.headers["content-type"] = "text/plain"
    return response


def _not_negotiable(request: Request, path: str) -> Response | None:
    """Returns the answer to a request whose headers already refuse it."""
    sent = request.headers.get("content-type")
    if sent is not None and not is_media_type(sent):
        return jetty.page("Bad Request")
    if sent is not None and not is_json(sent) and path not in _TAKE_ANYTHING:
        return _http_error(415)
    # a client may send the header several times
    if path != _METRICS and not accepts_json(",".join(request.headers.getlist("accept"))):
        return _http_error(406)
    return None


async def _unless_gone(request: Request, answer: Callable[[], Awaitable[T]]) -> T | Response:
    """Returns the answer, or the refusal; if the client disconnects while its request is queued, it
    never starts."""
    found: T | Response = _NOBODY
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            found = await answer()
        except RequestError as error:
            found = response(_refused(error))
        group.cancel_scope.cancel()
    return found


def _answer(resource: Resource, call: Call) -> Response | NotLeader:
    """Maps errors as Connect does: its own to their status, all others to 500. Raises WouldWait."""
    try:
        return response(resource(call))
    except NotLeader as error:
        return error
    except WouldWait:
        raise
    except RequestError as error:
        return response(_refused(error))
    except ConnectError as error:
        return response(error_reply(500, str(error)))
    except BaseException as error:  # a plugin may also call sys.exit
        where = "".join(traceback.format_tb(error.__traceback__))
        _log.error("A request failed with %s:\n%s", type(error).__name__, where)
        return response(_unexpected(error))


def _refused(error: RequestError) -> Reply:
    """Returns Connect's body, and in headers what Connect says nowhere."""
    found = error_reply(error.status, error.message)
    if isinstance(error, Busy):
        return Reply(found.status, found.json, {"Retry-After": _BUSY_S})
    if error.refusal is None:
        return found
    return Reply(found.status, found.json, {REFUSAL_HEADER: error.refusal.value})


def _unexpected(error: BaseException) -> Reply:
    """Returns an error without its text, which may hold the values of a config."""
    return error_reply(500, f"Unexpected {type(error).__name__}; the worker's log says where")


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _http_error(error.status_code)


def _http_error(status: int) -> Response:
    reply = error_reply(status, f"HTTP {status} {_PHRASES[status]}")
    # without a content type, as in Connect
    return response(reply, media_type=None)


async def _on_bug(request: Request, error: Exception) -> Response:
    return response(_unexpected(error))
