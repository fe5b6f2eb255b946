"""Runs calls into plugins in threads, so that one that hangs does not block the others.

A call that takes long is not counted, so another one may start. No thread keeps the process
from exiting. To find a connector's type its class is imported, which runs a plugin's code, too.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from connect_runtime.api import ConnectorError
from connect_runtime.herder.verbs import WouldWait
from connect_runtime.plugins import registry

T = TypeVar("T")

_AT_ONCE = 16
_LONG_S = 5.0
_LOOK_S = 0.5
_WAIT_S: Final = 10.0
_UNKNOWN: Final = "unknown"


class PluginCalls(Executor):
    """An executor that runs `at_once` calls at a time, not counting those that have run for
    `long_s` seconds."""

    def __init__(self, at_once: int = _AT_ONCE, long_s: float = _LONG_S) -> None:
        self._at_once = at_once
        self._long_s = long_s
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        # Start time of each counted call; long-running calls are removed.
        self._counted: dict[Future[Any], float] = {}
        self._closed = False
        self._watching = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append((future, lambda: fn(*args, **kwargs)))
            self._begin()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls. Never waits, because a call may hang."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                while self._waiting:
                    self._waiting.popleft()[0].cancel()

    def _begin(self) -> None:
        """Starts queued calls up to the limit. The caller holds the lock."""
        while self._waiting and len(self._counted) < self._at_once:
            future, call = self._waiting.popleft()
            self._counted[future] = time.monotonic()
            threading.Thread(
                target=self._run, args=(future, call), name="plugin-call", daemon=True
            ).start()
        if self._waiting and not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, name="plugin-calls", daemon=True).start()

    def _run(self, future: Future[Any], call: Callable[[], Any]) -> None:
        try:
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # the future's owner handles it
                    future.set_exception(error)
                else:
                    future.set_result(result)
        finally:
            with self._lock:
                self._counted.pop(future, None)
                self._begin()

    def _watch(self) -> None:
        """Starts queued calls beside calls that take long, until none is queued."""
        while True:
            time.sleep(min(_LOOK_S, self._long_s))
            with self._lock:
                now_s = time.monotonic()
                for future, began in list(self._counted.items()):
                    if now_s - began >= self._long_s:
                        del self._counted[future]
                self._begin()
                if not self._waiting:
                    self._watching = False
                    return


class SharedCalls(Generic[T]):
    """Runs one call at a time for each key, for at most `patience_s`. Later callers wait
    for the same call, so one that hangs has one thread, and is waited for once."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._running: dict[object, tuple[Future[T], float]] = {}

    def result(self, key: object, call: Callable[[], T]) -> T:
        """Returns or raises the call's result. Raises TakesTooLong, and Exits as `within` does."""
        future, began = self._running_of(key, call)
        if not wait([future], began + self._patience_s - time.monotonic()).done:
            raise TakesTooLong
        return future.result()

    def _running_of(self, key: object, call: Callable[[], T]) -> tuple[Future[T], float]:
        with self._lock:
            if key not in self._running:
                future: Future[T] = Future()
                # may fail, where there is no thread left
                _start(future, call, lambda: self._forget(key))
                self._running[key] = future, time.monotonic()
            return self._running[key]

    def _forget(self, key: object) -> None:
        with self._lock:
            del self._running[key]


class Exits(Exception):
    """A plugin called `sys.exit` or the like. The text, which may be secret, is not shown."""


class TakesTooLong(Exception):
    """A plugin has not returned in time. A TimeoutError may be one that it raised itself."""


def within(timeout_s: float, call: Callable[[], T]) -> T:
    """Runs `call` on its own thread and returns or raises its result. Raises TakesTooLong after
    `timeout_s` and abandons the call, and Exits for what would end this process."""
    future: Future[T] = Future()
    _start(future, call, lambda: None)
    if not wait([future], timeout_s).done:
        raise TakesTooLong
    return future.result()


def _start(future: Future[T], call: Callable[[], T], on_end: Callable[[], None]) -> None:
    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            on_end()
            future.set_exception(
                error if isinstance(error, Exception) else Exits(type(error).__name__)
            )
        else:
            on_end()
            future.set_result(result)

    threading.Thread(target=run, name="bounded-call", daemon=True).start()


class ConnectorTypes:
    """Remembers the kinds of classes. Used from any thread."""

    def __init__(self, wait_s: float = _WAIT_S) -> None:
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._asked: dict[str, tuple[Future[str], float]] = {}

    def of(self, class_name: str) -> str:
        """Returns "source" or "sink"; "unknown" for a class that cannot be used, or not yet.
        Raises WouldWait on the thread of an event loop instead of waiting."""
        answer, deadline = self._asked_for(class_name)
        left_s = max(0.0, deadline - time.monotonic())
        if left_s and not answer.done() and _runs_loop():
            raise WouldWait
        try:
            return answer.result(left_s)
        except TimeoutError:
            return _UNKNOWN

    def _asked_for(self, class_name: str) -> tuple[Future[str], float]:
        """Returns the answer to come, and until when to wait for it (monotonic seconds). A class
        that could not be used is looked up again after that."""
        now_s = time.monotonic()
        with self._lock:
            lookup = self._asked.get(class_name)
            if lookup is not None:
                answer, deadline = lookup
                if now_s < deadline or not answer.done() or answer.result() != _UNKNOWN:
                    return lookup
            lookup = Future(), now_s + self._wait_s
            # raises where there are no more threads: then nothing is to come
            threading.Thread(target=_find_type, args=(class_name, lookup[0]), daemon=True).start()
            self._asked[class_name] = lookup
            return lookup


def _runs_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _find_type(class_name: str, answer: Future[str]) -> None:
    kind = _UNKNOWN
    try:
        with suppress(ConnectorError):
            kind = registry.connector(class_name).kind
    finally:
        answer.set_result(kind)
