"""Waiting for a condition: the only place where tests sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], *, what: str, timeout_s: float = 30, every_s: float = 0.05
) -> T:
    """The first true value of `condition`, asked every `every_s` seconds.

    Raises AssertionError that names `what` when there was none for `timeout_s` seconds. What the
    condition raises is not caught.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s for {what}; last answer: {value!r}")
        time.sleep(every_s)
