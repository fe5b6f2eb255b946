"""Every exchange with a REST API, for the log: request, status, duration, sizes, bodies.

A body may hold a connector's config, and which of its values are secret is not known here. So of a
body only names, states, versions and numbers are shown; of any other text how long it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import httpx
import orjson

from connect_reconciler.cluster.answers import Asked, decoded

_log = logging.getLogger("connect.asked.rest")

# Fields of Connect's own whose texts are no secrets
_SHOWN: Final = frozenset(
    {
        "class",
        "commit",
        "connector",
        "connector.class",
        "group",
        "initial_state",
        "kafka_cluster_id",
        "name",
        "state",
        "status",
        "tasks.max",
        "topics",
        "type",
        "version",
        "worker_id",
    }
)
_MOST = 1000


def exchanged(request: Asked, send: Callable[[], httpx.Response]) -> httpx.Response:
    """What `send` returns or raises, which the log is told."""
    if not _log.isEnabledFor(logging.DEBUG):
        return send()
    begun = time.monotonic()
    sent = len(request.content or b"")
    try:
        response = send()
    except httpx.TransportError as error:
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
    for way, body in (("sent", _given(request.content)), ("got", _got(response))):
        if body:
            _log.debug("%s %s: %s", request, way, body)
    return response


def covered(body: object) -> object:
    """A decoded body as the log may show it."""
    match body:
        case dict():
            return {key: _field(str(key), each) for key, each in body.items()}
        case list():
            return [covered(each) for each in body]
        case str():
            return f"({len(body)} characters)"
        case _:
            return body


def _field(key: str, value: object) -> object:
    shown = isinstance(value, str) and key in _SHOWN
    return value if shown else covered(value)


def _given(content: bytes | None) -> str:
    return "" if content is None else _text(covered(orjson.loads(content)))


def _got(response: httpx.Response) -> str:
    body = decoded(response)
    # A list of names, which is what Connect answers with plain texts
    if isinstance(body, list) and all(isinstance(each, str) for each in body):
        return _text(body)
    return "" if body is None else _text(covered(body))


def _text(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text)} characters)"


def _ms(begun: float) -> str:
    return f"{(time.monotonic() - begun) * 1000:.0f} ms"
