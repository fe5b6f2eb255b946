"""Decides how long a source task waits before it polls again after an empty poll.

The wait grows with the silence: a record is delayed by at most a quarter of the silence before it,
and an idle task wakes once a second. A poll that waited itself is repeated at once.

Idle tasks of a machine wake up together: it costs far more to take the processor from its rest for
each of a thousand tasks.
"""

from __future__ import annotations

import math
import time
from typing import Final

_SHARE: Final = 1 / 4
_SHORTEST_S: Final = 0.01
_LONGEST_S: Final = 1.0  # as Connect's file source
_TOGETHER_S: Final = 0.1  # of the clock that all processes share
_WAITED_S: Final = 0.005  # a poll that took longer waited itself


class IdleWait:
    """Follows the polls of one task."""

    def __init__(self) -> None:
        self._found_at = time.monotonic()
        self._wait_s = 0.0

    def polled(self, *, found: bool, took_s: float) -> None:
        """Notes a poll that has just ended, and whether it found records."""
        now = time.monotonic()
        if found:
            self._found_at = now
        if found or took_s > _WAITED_S:
            self._wait_s = 0.0
        else:
            self._wait_s = wait_s(now - self._found_at, now)

    @property
    def seconds(self) -> float:
        """Returns how long to wait before the next poll."""
        return self._wait_s


def wait_s(silence_s: float, now: float) -> float:
    """Returns the wait after an empty poll, `silence_s` after the last records. The longest one
    ends at a full tenth of a second of the clock that shows `now`."""
    wait_s = max(silence_s * _SHARE, _SHORTEST_S)
    if wait_s < _LONGEST_S:
        return wait_s
    return math.ceil((now + _LONGEST_S) / _TOGETHER_S) * _TOGETHER_S - now
