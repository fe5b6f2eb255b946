"""Decides how long a source task waits before it polls again after an empty poll.

The wait grows with the silence: a record is delayed by at most a quarter of the silence before it,
and an idle task polls once a second; the time of the poll is part of the wait. A poll that waited
itself is repeated at once: one of a task that says so (`SourceTask.poll_waits`), or one of about
the length that a poll may wait for. Another long one may have queued at a database behind other
tasks, which would then all ask without a pause, for ever.

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
_ROUNDING: Final = 1e-6
# Less than the half second that a poll may wait (`SourceTask.poll`), as clocks differ. Tasks that
# queue for longer than this ask 2.5 times a second at most.
_WAITED_S: Final = 0.4
# A poll that ended sooner neither waited nor did anything
_DID_S: Final = 0.005


class IdleWait:
    """Follows the polls of one task. `poll_waits`: what the task says of itself."""

    def __init__(self, *, poll_waits: bool) -> None:
        self._found_at = time.monotonic()
        self._wait_s = 0.0
        self._waited_s = _DID_S if poll_waits else _WAITED_S

    def polled(self, *, found: bool, took_s: float) -> None:
        """Notes a poll that has just ended, and whether it found records."""
        now = time.monotonic()
        began = now - took_s
        if found:
            self._found_at = now
        if found or took_s >= self._waited_s:
            self._wait_s = 0.0
        else:
            self._wait_s = max(0.0, wait_s(began - self._found_at, began) - took_s)

    @property
    def seconds(self) -> float:
        """Returns how long to wait before the next poll."""
        return self._wait_s


def wait_s(silence_s: float, now: float) -> float:
    """Returns the wait after an empty poll that began `now`, `silence_s` after the last records.

    The longest one ends at a full tenth of a second of that clock, within a second."""
    tenths = math.floor((now + _LONGEST_S) / _TOGETHER_S + _ROUNDING)
    return min(max(silence_s * _SHARE, _SHORTEST_S), tenths * _TOGETHER_S - now)
