"""An election that the test decides: candidates of one group, and who of them has won."""

from __future__ import annotations

from collections.abc import Callable


class Ballot:
    """One group's candidates. A leader that was replaced notices it when its `lag_s` is over, as a
    real one does with its next heartbeat."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.leader: SwitchedCandidate | None = None

    def candidate(self) -> SwitchedCandidate:
        return SwitchedCandidate(self)

    def elect(self, winner: SwitchedCandidate | None, *, lag_s: float = 0.0) -> None:
        """Makes `winner` the leader; the one before it goes on for `lag_s` as if nothing were."""
        before, self.leader = self.leader, winner
        if before is not None and before is not winner:
            before.until = self.clock() + lag_s
        if winner is not None:
            winner.until = None
            winner.term += 1


class SwitchedCandidate:
    """Implements `Candidate`."""

    def __init__(self, ballot: Ballot) -> None:
        self._ballot = ballot
        self.term = 0
        self.until: float | None = 0.0

    @property
    def leading(self) -> bool:
        return self.until is None or self._ballot.clock() < self.until

    def poll(self, timeout_s: float = 0.0) -> None:
        """Nothing happens that the test did not say."""

    def close(self) -> None:
        self.until = 0.0
        if self._ballot.leader is self:
            self._ballot.leader = None
