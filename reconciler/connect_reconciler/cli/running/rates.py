"""How fast does a connector move? Computed from positions seen, never asked of a task.

Pure: times and positions come from outside. Unknown stays unknown: with one sight, or after a
rewind, there is no rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

_WINDOW_S = 5.0


class Rates:
    """The last seconds of each connector's position: offsets that it has passed, all together."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def see(self, now: float, positions: Mapping[str, int]) -> None:
        """Takes note of where the connectors are; who is not named any more is forgotten."""
        for gone in self._seen.keys() - positions.keys():
            del self._seen[gone]
        for name, position in positions.items():
            seen = self._seen.setdefault(name, deque())
            if seen and position < seen[-1][1]:
                seen.clear()
            seen.append((now, position))
            while len(seen) > 2 and now - seen[1][0] >= _WINDOW_S:
                seen.popleft()

    def per_second(self, name: str) -> float | None:
        """Records a second over the last seconds, None where that is not known."""
        seen = self._seen.get(name)
        if not seen or seen[-1][0] <= seen[0][0]:
            return None
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])

    def known(self, name: str) -> bool:
        """Whether there is a rate to tell."""
        return self.per_second(name) is not None

    def text(self, name: str) -> str:
        """The rate for a table."""
        rate = self.per_second(name)
        return "unknown" if rate is None else f"{rate:,.0f}/s"
