"""When is a connector restarted that failed, and failed again? Pure.

What fails at once again is not helped by a restart every few seconds, so pauses double, from a
minute to an hour. One that has stayed up for its last pause starts from new.
"""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.herder.values import ConnectorStatus
from connect_runtime.storage.snapshots import State

_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Tried:
    """Restarts in a row, one at least, and when the last one was (monotonic, seconds)."""

    times: int
    at: float

    @property
    def pause_s(self) -> float:
        """How long after the last restart another one may follow."""
        doubled: float = _FIRST_PAUSE_S * 2 ** min(self.times - 1, 10)
        return min(doubled, _LONGEST_PAUSE_S)


def failed_parts(status: ConnectorStatus | None) -> tuple[str, ...]:
    """`connector` and `task N`, as far as they failed and were to run.

    A paused connector is left alone: nobody asked it to run.
    """
    if status is None or status.connector.state in (State.PAUSED, State.STOPPED):
        return ()
    parts = [("connector", status.connector)]
    parts += [(f"task {number}", part) for number, part in sorted(status.tasks.items())]
    return tuple(who for who, part in parts if part.state is State.FAILED)


def look(tried: Tried | None, *, failed: bool, now: float) -> tuple[Tried | None, bool]:
    """What is remembered after one more look, and whether to restart now."""
    over = tried is None or now - tried.at >= tried.pause_s
    if not over:
        return tried, False
    if not failed:
        return None, False
    return Tried(tried.times + 1 if tried else 1, now), True
