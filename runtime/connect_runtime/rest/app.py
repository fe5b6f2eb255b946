"""Builds the REST API as an ASGI application: its routes and error bodies.

Resources that may wait for the herder run on threads; requests that only the leader answers are
then forwarded to it without one. Answers are JSON, but for /metrics and refusals of paths.
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

from connect_runtime import KAFKA_VERSION
from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.verbs import REFUSAL_HEADER, NotLeader, RequestError
from connect_runtime.rest import openapi
from connect_runtime.rest.access import Guard, header_refusal, http_error, options
from connect_runtime.rest.exchange import Call, Reply, Resource, Routes, error_reply, response
from connect_runtime.rest.forwarding import Forwarding
from connect_runtime.rest.http_server import most_connections
from connect_runtime.rest.request_pools import (
    BodyMemory,
    Busy,
    RequestPool,
    RequestPools,
    read_body,
)
from connect_runtime.rest.resources import (
    METRICS,
    ConnectorResources,
    LoggerResources,
    WorkerResources,
)
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.waiting import WouldWait
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

# Resources that Apache's workers answer for any content type of the request
_ANY_CONTENT: Final = ("/", "/health")
_CLIENT_IS_GONE: Final = Response(status_code=400)
_BUSY_S: Final = "1"

_Pooled = tuple[Resource, RequestPool]
T = TypeVar("T")


class Served(Enum):
    """The resources of a listener: admin resources are those below /admin."""

    ALL = "all"
    REGULAR = "all but admin resources"
    ADMIN = "admin resources"


def create_app(
    verbs: Callable[[], ConnectCluster | None],
    plugins: Routes,
    *,
    cluster_id: Callable[[], str],
    commit: str,
    settings: RestSettings | None = None,
    admits: Callable[[str, str], bool] = lambda user, password: False,
    metrics: Callable[[], str] | None = None,
    serves: Served = Served.ALL,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> ASGIApp:
    """Builds the application of one listener. `verbs` returns None until there is a herder;
    `plugins` are the resources below /connector-plugins; `admits` decides about a user and a
    password; `metrics` returns the page for Prometheus, or raises RequestError; `tls` the context
    that verifies an https leader."""
    settings = settings or RestSettings()
    is_admin = serves is Served.ADMIN
    worker = WorkerResources(verbs, cluster_id, commit, metrics if settings.metrics else None)
    resources: dict[tuple[str, str], Resource] = {}
    if not is_admin:
        connectors = ConnectorResources(worker.started).routes()
        resources |= {**worker.routes(), **connectors, **plugins}
    if serves is not Served.REGULAR:
        resources |= LoggerResources(worker.started).routes()
    document = openapi.document([*resources, ("GET", openapi.PATH)], KAFKA_VERSION)
    resources["GET", openapi.PATH] = lambda call: Reply(200, document)
    forwarding = Forwarding(settings.login_hosts, tls, settings.max_body_bytes, admin_only=is_admin)
    starlette = Starlette(
        routes=_routes(resources, settings.max_body_bytes, forwarding),
        exception_handlers={HTTPException: _on_http, Exception: _on_bug},
    )

    def exists(name: str) -> bool:
        herder = verbs()
        return herder is not None and name in herder.connectors()

    return Guard(starlette, settings, admits, exists, cross_origin=not is_admin)


def _routes(resources: Routes, max_body_bytes: int, forwarding: Forwarding) -> list[Route]:
    """Returns one route per path, so that a wrong method differs from a wrong path."""
    pools, memory = RequestPools(most_connections()), BodyMemory(max_body_bytes)
    by_path: dict[str, dict[str, _Pooled]] = {}
    for (method, path), resource in resources.items():
        by_path.setdefault(path, {})[method] = (resource, pools.of(method, path))
    # routes are tried in their order: a dashboard's reads are not to pay for the rest
    quick = [path for path in by_path if pools.of("GET", path) is pools.one_connector]
    return [
        Route(
            path,
            _endpoint(path, methods, max_body_bytes, memory, forwarding),
            methods=[*methods, "OPTIONS"],
        )
        for path, methods in {path: by_path[path] for path in (*quick, *by_path)}.items()
    ]


def _endpoint(
    path: str,
    methods: Mapping[str, _Pooled],
    max_body_bytes: int,
    memory: BodyMemory,
    forwarding: Forwarding,
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return options(methods)
        refused = header_refusal(
            request, any_content=path in _ANY_CONTENT, any_accept=path == METRICS
        )
        if refused is not None:
            return refused
        try:
            with memory.share() as grown_to:
                return await answer(request, await read_body(request, max_body_bytes, grown_to))
        except RequestError as error:
            return response(_refused(error))
        except ClientDisconnect:
            return _CLIENT_IS_GONE

    async def answer(request: Request, body: bytes) -> Response:
        call = _call(request, body)
        resource, pool = methods["GET" if request.method == "HEAD" else request.method]

        async def run() -> Response | NotLeader:
            return await pool.run(lambda: _answer(resource, call))

        # what has begun is not cancelled: only what waits is worth watching its client
        result = await (run() if pool.is_free else _unless_gone(request, run))
        if not isinstance(result, NotLeader):
            return result
        leader = result.leader
        return await _unless_gone(request, lambda: forwarding.send(call, leader))

    return endpoint


def _call(request: Request, body: bytes) -> Call:
    # only answers to writes hold an address, which takes a twentieth of a read's time to make
    is_read = request.method in ("GET", "HEAD")
    return Call(
        path={key: unquote(value) for key, value in request.path_params.items()},
        query=request.query_params.multi_items(),
        body=body,
        base="" if is_read else f"{request.url.scheme}://{request.url.netloc}",
        headers=request.headers,
        method=request.method,
        target=request.scope["path"],
    )


async def _unless_gone(request: Request, answer: Callable[[], Awaitable[T]]) -> T | Response:
    """Returns the answer, or the refusal; if the client disconnects while its request is queued, it
    never starts."""
    result: T | Response = _CLIENT_IS_GONE
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            result = await answer()
        except RequestError as error:
            result = response(_refused(error))
        group.cancel_scope.cancel()
    return result


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
        stack = "".join(traceback.format_tb(error.__traceback__))
        _log.error("A request failed with %s:\n%s", type(error).__name__, stack)
        return response(_unexpected(error))


def _refused(error: RequestError) -> Reply:
    """Returns Connect's body, and in headers our code of the refusal."""
    headers = {}
    if isinstance(error, Busy):
        headers = {"Retry-After": _BUSY_S}
    elif error.refusal is not None:
        headers = {REFUSAL_HEADER: error.refusal.value}
    return error_reply(error.status, error.message, headers)


def _unexpected(error: BaseException) -> Reply:
    """Returns an error without its text, which may hold the values of a config."""
    return error_reply(500, f"Unexpected {type(error).__name__}; the worker's log says where")


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return http_error(error.status_code)


async def _on_bug(request: Request, error: Exception) -> Response:
    return response(_unexpected(error))
