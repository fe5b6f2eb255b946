"""A JVM that answers questions: it starts with the first, and ends when no more come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import SLOW_S, JvmEnded
from connect_runtime.engine.renewed_jvm import RenewedJvm
from connect_runtime.waiting import TakesTooLong

T = TypeVar("T")

# A JVM notices itself that a plugin takes too long, and can tell what it does
SLACK_S: Final = 2.0
_IDLE_S: Final = 60.0


class JvmOnDemand:
    """Asks a JVM that `start` starts. Thread-safe."""

    def __init__(self, start: Callable[[], PluginJvm], idle_s: float = _IDLE_S) -> None:
        self._start = start
        self._idle_s = idle_s
        self._jvm = RenewedJvm(self._make)
        self._lock = threading.Lock()
        self._asking = 0
        self._asked_at = 0.0
        self._closed = threading.Event()

    def ask(self, ask: Callable[[PluginJvm, float], T]) -> T:
        """Returns the result of `ask`, which gets a JVM and its time in seconds. If the JVM ends,
        which another question may have caused, that of a JVM that no other question can end. One
        that hangs gets no further questions. Raises what `ask` raises."""
        deadline = time.monotonic() + SLOW_S + SLACK_S
        with self._lock:
            self._asking += 1
        try:
            jvm = self._jvm.get()
            try:
                return ask(jvm, deadline - time.monotonic())
            except JvmEnded:
                self.retire(jvm)
            except TakesTooLong:
                self.retire(jvm)
                raise
        finally:
            with self._lock:
                self._asking -= 1
                self._asked_at = time.monotonic()
        own = self._start()
        try:
            return ask(own, deadline - time.monotonic())
        finally:
            own.end()

    def retire(self, jvm: PluginJvm) -> None:
        """Asks another JVM from now on. This one ends when its questions must be over."""
        self._jvm.forget(jvm)

    def close(self) -> None:
        """Ends the JVM."""
        self._closed.set()
        self._jvm.close()

    def _make(self) -> PluginJvm:
        jvm = self._start()
        threading.Thread(target=self._end, args=(jvm,), name="jvm-end", daemon=True).start()
        return jvm

    def _end(self, jvm: PluginJvm) -> None:
        while not self._closed.wait(self._idle_s / 4):
            if self._jvm.current is not jvm:
                # a question that takes too long may still do something
                self._closed.wait(SLOW_S + SLACK_S)
                break
            with self._lock:  # a question that comes now gets another JVM
                is_idle = not self._asking and time.monotonic() - self._asked_at > self._idle_s
                if is_idle:
                    self.retire(jvm)
            if is_idle:
                break
        jvm.end()
