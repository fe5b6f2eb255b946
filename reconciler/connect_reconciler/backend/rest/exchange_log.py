"""Every exchange with a REST API, for the log: request, status, duration, sizes, bodies. Whoever
waits is told of one that takes some seconds.

A body may hold a connector's config, and which of its values are secret is not known here. So of a
body only names, states, versions and numbers are shown; of any other text how long it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final

import httpx
import orjson

from connect_reconciler.backend.rest.answers import Asked, decoded

_log = logging.getLogger("connect.requests.rest")
_waits = logging.getLogger("connect.waits")
_SLOW_S: Final = 5.0

# Fields of Connect's own whose texts are no secrets, outside configs and in them
_SHOWN: Final = frozenset(
    {
        "class",
        "commit",
        "connector",
        "initial_state",
        "kafka_cluster_id",
        "name",
        "state",
        "type",
        "version",
        "worker_id",
    }
)
_SHOWN_OF_CONFIGS: Final = frozenset({"connector.class", "name", "tasks.max"})
_CONFIG_PATHS: Final = ("/config", "/config/validate")
_MOST = 1000


def exchanged(request: Asked, send: Callable[[], httpx.Response]) -> httpx.Response:
    """What `send` returns or raises, which the log is told."""
    with _waiting(request):
        return _logged(request, send)


@contextmanager
def _waiting(request: Asked) -> Iterator[None]:
    """Tells that nobody has answered, once it takes long."""
    slow = Timer(_SLOW_S, _waits.warning, ("waiting for the answer to %s", request))
    slow.daemon = True
    slow.start()
    try:
        yield
    finally:
        slow.cancel()


def _logged(request: Asked, send: Callable[[], httpx.Response]) -> httpx.Response:
    if not _log.isEnabledFor(logging.DEBUG):
        return send()
    begun = time.monotonic()
    sent = len(request.content or b"")
    try:
        response = send()
    except httpx.RequestError as error:
        took = _ms(begun)
        _log.debug("%s: no answer after %s: %s", request, took, type(error).__name__)
        raise
    _log.debug(
        "%s: %d in %s, sent %d bytes, got %d bytes",
        request,
        response.status_code,
        _ms(begun),
        sent,
        len(response.content),
    )
    for way, body in (("sent", _given(request)), ("got", _got(request, response))):
        if body:
            _log.debug("%s %s: %s", request, way, body)
    return response


def covered(body: object, *, config: bool = False) -> object:
    """A decoded body as the log may show it; of a `config` only what never is a secret."""
    match body:
        case dict():
            return {key: _field(str(key), each, config=config) for key, each in body.items()}
        case list():
            return [covered(each, config=config) for each in body]
        case str():
            return f"({len(body)} characters)"
        case _:
            return body


def _field(key: str, value: object, *, config: bool) -> object:
    shown = _SHOWN_OF_CONFIGS if config else _SHOWN
    if isinstance(value, str) and key in shown:
        return value
    return covered(value, config=config or key == "config")


def _given(request: Asked) -> str:
    if request.content is None:
        return ""
    config = request.path.endswith(_CONFIG_PATHS)
    return _text(covered(orjson.loads(request.content), config=config))


def _got(request: Asked, response: httpx.Response) -> str:
    body = decoded(response)
    if request.path == "/connectors" and isinstance(body, list):
        return _text([each if isinstance(each, str) else covered(each) for each in body])
    config = request.method == "GET" and request.path.endswith("/config")
    return "" if body is None else _text(covered(body, config=config))


def _text(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text)} characters)"


def _ms(begun: float) -> str:
    return f"{(time.monotonic() - begun) * 1000:.0f} ms"
