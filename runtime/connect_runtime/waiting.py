"""Waits until a condition holds or a call succeeds, by trying again and again; and for calls that
may hang, on threads that do not keep the process from exiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    timeout_s: float,
    *,
    every_s: float,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Returns the first true answer of `condition`, or its last one once `timeout_s` has passed or
    `stop` is true. Asks at least once, and once more after the last pause."""
    deadline = clock() + timeout_s
    while not (answer := condition()):
        if stop() or clock() >= deadline:
            break
        sleep(every_s)
    return answer


def retry_while(
    temporary: Callable[[Exception], bool],
    call: Callable[[], T],
    timeout_s: float,
    *,
    every_s: float,
) -> T:
    """Returns what `call` returns. Calls it again while it raises errors that are `temporary`, and
    raises the last of them once `timeout_s` has passed."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except Exception as error:
            if time.monotonic() >= deadline or not temporary(error):
                raise
        time.sleep(every_s)


class WouldWait(Exception):
    """A call on an event loop's thread would wait there; it is to be made on another."""


def refuse_on_event_loop() -> None:
    """Raises WouldWait on the thread of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WouldWait


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
