"""Waits until a condition holds or a call succeeds, by trying again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

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
