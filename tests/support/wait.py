"""Waiting for a condition: the only place where tests sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# What takes longer than this is a process or a round of requests, which is not to keep a core busy:
# it gets a fifth of one
_EXPENSIVE_S = 0.01
_PAUSES = 4
_LONGEST_PAUSE_S = 1.0


def wait_until(
    condition: Callable[[], T], *, what: str, timeout_s: float = 60, every_s: float = 0.05
) -> T:
    """The first true value of `condition`, asked every `every_s` seconds; an expensive one after
    four times the time that it took.

    Raises AssertionError that names `what` when there was none for `timeout_s` seconds. What the
    condition raises is not caught.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        asked = time.monotonic()
        value = condition()
        now = time.monotonic()
        if value:
            return value
        if now > deadline:
            raise AssertionError(f"waited {timeout_s:g} s for {what}; last answer: {value!r}")
        took_s = now - asked
        pause_s = min(_PAUSES * took_s, _LONGEST_PAUSE_S) if took_s > _EXPENSIVE_S else 0.0
        time.sleep(max(every_s, pause_s))
