"""How long an apply waits for what, and by which clock.

Passed in, so that tests wait for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """All in seconds. `stop_again_s`: how often a stop that has not ended is asked for again.
    `well_s`: how long what is well must be so. `settle_s`: how long after a change a status is
    taken for one from before it, where nothing tells. `commits_s`: how often a sink's offsets are
    committed. `group_s`: how long a stopped sink's consumer group may still have members."""

    health_s: float = 60.0
    stop_s: float = 60.0
    stop_again_s: float = 15.0
    group_s: float = 30.0
    unknown_s: float = 10.0
    well_s: float = 2.0
    settle_s: float = 10.0
    commits_s: float = 60.0
    every_s: float = 0.25


@dataclass(frozen=True, slots=True)
class Clock:
    """A monotonic clock, and time in epoch milliseconds for what people read."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits by one clock until a condition holds, time is over or `stop` says so."""

    clock: Clock
    limits: Limits
    stop: Callable[[], bool]

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether the condition came true in time; it is asked at least once."""
        deadline = self.clock.now() + timeout_s
        while not condition():
            if self.stop() or self.clock.now() >= deadline:
                return False
            self.clock.sleep(self.limits.every_s)
        return True
