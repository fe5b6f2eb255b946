"""Decides how long a source task waits before it polls again after an empty poll.

The wait grows with the silence: a record is delayed by at most a quarter of the silence before it,
and an idle task polls once a second; the time of the poll is part of the wait. A poll that waited
itself for about as long as it may is repeated at once. One that is only slow is not: it may have
queued at a database behind other tasks, which would then all ask without a pause, for ever.

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
# Less than the half second that a poll may wait (`SourceTask.poll`), as clocks differ. Tasks that
# queue for longer than this ask 2.5 times a second at most.
_WAITED_S: Final = 0.4


class IdleWait:
    """Follows the polls of one task."""

    def __init__(self) -> None:
        self._found_at = time.monotonic()
        self._wait_s = 0.0

    def polled(self, *, found: bool, took_s: float) -> None:
        """Notes a poll that has just ended, and whether it found records."""
        now = time.monotonic()
        began = now - took_s
        if found:
            self._found_at = now
        if found or took_s >= _WAITED_S:
            self._wait_s = 0.0
        else:
            self._wait_s = max(0.0, wait_s(began - self._found_at, began) - took_s)

    @property
    def seconds(self) -> float:
        """Returns how long to wait before the next poll."""
        return self._wait_s


def wait_s(silence_s: float, now: float) -> float:
    """Returns the wait after an empty poll that began `now`, `silence_s` after the last records.

    The longest one ends at a full tenth of a second of that clock."""
    wait_s = max(silence_s * _SHARE, _SHORTEST_S)
    if wait_s < _LONGEST_S:
        return wait_s
    return math.ceil((now + _LONGEST_S) / _TOGETHER_S) * _TOGETHER_S - now
