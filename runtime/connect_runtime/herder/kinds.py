"""Tells sources from sinks by their class, for those who ask about connectors.

Finding a class may import third-party code, which may hang. So it happens on a thread of its own,
for which everyone waits only for a moment.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from connect_runtime.api import ConnectorError
from connect_runtime.herder.errors import WouldWait
from connect_runtime.plugins import registry

_WAIT_S: Final = 10.0
_UNKNOWN: Final = "unknown"


class Kinds:
    """Remembers the kinds of classes. Used from any thread."""

    def __init__(self, wait_s: float = _WAIT_S) -> None:
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._asked: dict[str, tuple[Future[str], float]] = {}

    def of(self, class_name: str) -> str:
        """Returns "source" or "sink"; "unknown" for a class that cannot be used, or not yet.
        Raises WouldWait on the thread of an event loop instead of waiting."""
        asked, until = self._asked_for(class_name)
        left = max(0.0, until - time.monotonic())
        if left and not asked.done() and _runs_loop():
            raise WouldWait
        try:
            return asked.result(left)
        except TimeoutError:
            return _UNKNOWN

    def _asked_for(self, class_name: str) -> tuple[Future[str], float]:
        """Returns the answer to come, and until when to wait for it (monotonic seconds). What could
        not be used is asked again after that."""
        now = time.monotonic()
        with self._lock:
            found = self._asked.get(class_name)
            if found is not None:
                asked, until = found
                if now < until or not asked.done() or asked.result() != _UNKNOWN:
                    return found
            found = Future(), now + self._wait_s
            # raises where there are no more threads: then nothing is to come
            threading.Thread(target=_find, args=(class_name, found[0]), daemon=True).start()
            self._asked[class_name] = found
            return found


def _runs_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _find(class_name: str, asked: Future[str]) -> None:
    kind = _UNKNOWN
    try:
        with suppress(ConnectorError):
            kind = registry.connector(class_name).kind
    finally:
        asked.set_result(kind)
