"""Logs every exchange with a REST API: request, status, duration, sizes, bodies; and warns of one
that takes some seconds.

A body may hold a connector's config, and the secrets among its values are not known here. So of a
body only names, states, versions and numbers are shown; of any other text its length.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Final

import httpx
import orjson

from connect_reconciler.backend.rest.answers import TargetRequest, decoded

_log = logging.getLogger("connect.requests.rest")
_waits = logging.getLogger("connect.waits")
_SLOW_S: Final = 5.0

# Fields of Connect's own whose texts are no secrets, outside configs and in them
_SHOWN: Final = frozenset(
    """
    class commit connector initial_state kafka_cluster_id name state type version worker_id
    """.split()
)
_SHOWN_OF_CONFIGS: Final = frozenset({"connector.class", "name", "tasks.max"})
_CONFIG_PATHS: Final = ("/config", "/config/validate")
_MOST = 1000


class _SlowRequests:
    """Warns of requests without an answer, from one thread for all: a timer for each would cost
    more than most exchanges do."""

    def __init__(self) -> None:
        self._lock = Lock()
        # By start, so that the first is due first
        self._running: dict[object, tuple[float, TargetRequest]] = {}
        self._thread: Thread | None = None

    @contextmanager
    def watched(self, request: TargetRequest) -> Iterator[None]:
        """Warns once if the context takes long."""
        exchange = object()
        with self._lock:
            self._running[exchange] = (time.monotonic() + _SLOW_S, request)
            # a forked process has no thread of its parent's
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._watch, name="waits", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._running.pop(exchange, None)

    def _watch(self) -> None:
        # Requests that start while this sleeps have not taken long when it wakes up
        while (wait_s := self._warn()) is not None:
            time.sleep(wait_s)

    def _warn(self) -> float | None:
        """Warns of requests that have taken long. Returns the seconds until the next may have; None
        ends the thread, because no request runs."""
        with self._lock:
            now_s = time.monotonic()
            slow = [number for number, (due, _) in self._running.items() if due <= now_s]
            requests = [self._running.pop(number)[1] for number in slow]
            if not requests and not self._running:
                self._thread = None
                return None
            next_s = min((due - now_s for due, _ in self._running.values()), default=_SLOW_S)
        for request in requests:
            _waits.warning("waiting for the answer to %s", request)
        return next_s


_slow_requests = _SlowRequests()


def exchanged(request: TargetRequest, send: Callable[[], httpx.Response]) -> httpx.Response:
    """Logs the request and its answer. Returns what `send` returns, or raises its error."""
    with _slow_requests.watched(request):
        return _logged(request, send)


def _logged(request: TargetRequest, send: Callable[[], httpx.Response]) -> httpx.Response:
    if not _log.isEnabledFor(logging.DEBUG):
        return send()
    start_s = time.monotonic()
    sent = len(request.content or b"")
    try:
        response = send()
    except httpx.RequestError as error:
        took = _ms(start_s)
        _log.debug("%s: no answer after %s: %s", request, took, type(error).__name__)
        raise
    _log.debug(
        "%s: %d in %s, sent %d bytes, got %d bytes",
        request,
        response.status_code,
        _ms(start_s),
        sent,
        len(response.content),
    )
    for direction, body in (
        ("sent", _request_text(request)),
        ("got", _response_text(request, response)),
    ):
        if body:
            _log.debug("%s %s: %s", request, direction, body)
    return response


def redacted(body: object, *, config: bool = False) -> object:
    """Returns a decoded body as the log may show it; of a `config` only values that are never
    secret."""
    match body:
        case dict():
            return {key: _field(str(key), item, config=config) for key, item in body.items()}
        case list():
            return [redacted(item, config=config) for item in body]
        case str():
            return f"({len(body)} characters)"
        case _:
            return body


def _field(key: str, value: object, *, config: bool) -> object:
    plain_fields = _SHOWN_OF_CONFIGS if config else _SHOWN
    if isinstance(value, str) and key in plain_fields:
        return value
    return redacted(value, config=config or key == "config")


def _request_text(request: TargetRequest) -> str:
    if request.content is None:
        return ""
    config = request.path.endswith(_CONFIG_PATHS)
    return _text(redacted(orjson.loads(request.content), config=config))


def _response_text(request: TargetRequest, response: httpx.Response) -> str:
    body = decoded(response)
    if request.path == "/connectors" and isinstance(body, list):
        return _text([item if isinstance(item, str) else redacted(item) for item in body])
    config = request.method == "GET" and request.path.endswith("/config")
    return "" if body is None else _text(redacted(body, config=config))


def _text(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text)} characters)"


def _ms(start_s: float) -> str:
    return f"{(time.monotonic() - start_s) * 1000:.0f} ms"
