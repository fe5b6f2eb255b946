"""A JVM that many callers share: made when it is first needed, and again after it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import JvmEnded


class RenewedJvm:
    """Keeps the JVM that `make` makes, which may take seconds: not under a lock. Thread-safe."""

    def __init__(self, make: Callable[[], PluginJvm]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._future: Future[PluginJvm] | None = None
        self._since = 0.0
        self._closed = False

    def get(self) -> PluginJvm:
        """Returns the JVM, and makes it first if there is none. Raises JvmEnded after `close`, and
        what making it raises; the next call tries again."""
        with self._lock:
            if self._closed:
                raise JvmEnded("The process that this JVM works for is ending")
            future, is_first = self._future, self._future is None
            if future is None:
                future = self._future = Future()
                self._since = time.monotonic()
        if is_first:
            try:
                future.set_result(self._make())
            except BaseException as error:
                with self._lock:
                    self._future = None
                future.set_exception(error)
        return future.result()

    @property
    def current(self) -> PluginJvm | None:
        """Returns the JVM, if there is one."""
        future = self._future
        if future is None or not future.done() or future.exception() is not None:
            return None
        return future.result()

    def forget(self, jvm: PluginJvm) -> float | None:
        """Has the next call make another one. Returns how long, in seconds, this one was kept; None
        if it was forgotten before."""
        with self._lock:
            if self.current is not jvm:
                return None
            self._future = None
            return time.monotonic() - self._since

    def close(self) -> None:
        """Ends the JVM, also one that is being made, and makes no other."""
        with self._lock:
            self._closed = True
            future, self._future = self._future, None
        if future is not None:
            future.add_done_callback(_end)


def _end(future: Future[PluginJvm]) -> None:
    if future.exception() is None:
        future.result().end()
