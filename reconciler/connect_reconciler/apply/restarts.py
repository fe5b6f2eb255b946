"""When to restart a connector that fails again and again. Pure.

Pauses between restarts double, from a minute to an hour. A connector that stayed up for its last
pause starts again with the shortest one.
"""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.herder.values import ConnectorStatus
from connect_runtime.storage.snapshots import State

_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Tried:
    """The number of consecutive restarts, and the time of the last one (monotonic, seconds)."""

    times: int
    at: float

    @property
    def pause_s(self) -> float:
        """How long to wait after the last restart before another one."""
        doubled: float = _FIRST_PAUSE_S * 2 ** min(self.times - 1, 10)
        return min(doubled, _LONGEST_PAUSE_S)


def failed_parts(status: ConnectorStatus | None) -> tuple[str, ...]:
    """`connector` and `task N` for each that failed although it is to run."""
    if status is None or status.connector.state in (State.PAUSED, State.STOPPED):
        return ()
    parts = [("connector", status.connector)]
    parts += [(f"task {number}", part) for number, part in sorted(status.tasks.items())]
    return tuple(who for who, part in parts if part.state is State.FAILED)


def look(tried: Tried | None, *, failed: bool, now: float) -> tuple[Tried | None, bool]:
    """What to remember after one more look at the status, and whether to restart now."""
    over = tried is None or now - tried.at >= tried.pause_s
    if not over:
        return tried, False
    if not failed:
        return None, False
    return Tried(tried.times + 1 if tried else 1, now), True
