"""A JVM that many callers share: made when it is first needed, and again after it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from connect_runtime.engine.jvm import PluginJvm


class RenewedJvm:
    """Keeps the JVM that `make` makes, which may take seconds: not under a lock. Thread-safe."""

    def __init__(self, make: Callable[[], PluginJvm]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Future[PluginJvm] | None = None
        self._made_at = 0.0

    def get(self) -> PluginJvm:
        """Returns the JVM, and makes it first if there is none. Raises what making it raises; the
        next call tries again."""
        with self._lock:
            made, is_first = self._made, self._made is None
            if made is None:
                made = self._made = Future()
                self._made_at = time.monotonic()
        if is_first:
            try:
                made.set_result(self._make())
            except BaseException as error:
                with self._lock:
                    self._made = None
                made.set_exception(error)
        return made.result()

    @property
    def current(self) -> PluginJvm | None:
        """Returns the JVM, if there is one."""
        made = self._made
        return None if made is None or not made.done() or made.exception() else made.result()

    def forget(self, jvm: PluginJvm) -> float | None:
        """Has the next call make another one. Returns how long, in seconds, this one was kept; None
        if it was forgotten before."""
        with self._lock:
            if self.current is not jvm:
                return None
            self._made = None
            return time.monotonic() - self._made_at

    def close(self) -> None:
        """Ends the JVM, also one that is being made."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.add_done_callback(_end)


def _end(made: Future[PluginJvm]) -> None:
    if made.exception() is None:
        made.result().end()
