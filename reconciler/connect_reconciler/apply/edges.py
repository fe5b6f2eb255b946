"""What an apply reaches the world through, and what ends it when it breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connect_reconciler.apply.evidence import Evidence
from connect_reconciler.apply.lag import Standings
from connect_reconciler.apply.progress import Progress
from connect_reconciler.apply.waiting import Clock, Limits, Patience
from connect_reconciler.cluster.port import Cluster
from connect_reconciler.cluster.readback import ReadBack
from connect_reconciler.ledger.journal import Ending, Journal, Step
from connect_reconciler.ledger.lease import LeaseLost
from connect_reconciler.ledger.ledger import NotRecorded
from connect_reconciler.plan.live import LedgerState
from connect_runtime.storage.log import LogBlocked, NewRecord
from connect_specs.diagnostics import Unreachable

# After one of these no connector can be brought any further.
FATAL = (LeaseLost, NotRecorded, Unreachable, LogBlocked)


@dataclass(frozen=True, slots=True)
class Settings:
    """How an apply goes on, waits and tells. `by` is who applies, for the journal. `stop` says that
    the user wants it to end: it then ends between two actions. `parallelism` is how many connectors
    may be under way at a time; with `fail_fast` none begins after one has failed.
    """

    by: str
    progress: Progress = lambda event: None
    stop: Callable[[], bool] = lambda: False
    parallelism: int = 1
    fail_fast: bool = False
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)


class LedgerWriter(Protocol):
    """Where an apply records what it does; `ledger.Ledger` is the one in a topic.

    `records` are the ledger topic's, made for `topic`. Raises LeaseLost, NotRecorded. Called from
    several threads at a time, from one for each connector.
    """

    @property
    def topic(self) -> str: ...
    @property
    def state(self) -> LedgerState:
        """What the ledger says, with all that was written here."""
        ...

    def begin(self, journal: Journal, *, new_fingerprint_key: bytes | None) -> None: ...
    def started(
        self, step: Step, records: Sequence[NewRecord] = (), *, then: Sequence[NewRecord] = ()
    ) -> None:
        """Returns when it is certain that whoever comes next finds the step and `records`.

        `then` is what `done` is going to record: a ledger that lies in the connectors' configs is
        written with them, or before they run.
        """
        ...

    def done(self, step: Step, records: Sequence[NewRecord] = ()) -> None: ...
    def correct(self, records: Sequence[NewRecord]) -> None: ...
    def failed(self, step: Step) -> None:
        """The action was not done, or nobody knows: `step` says which, and why."""
        ...

    def finish(self, ending: Ending, *, exit_code: int, now_ms: int) -> None: ...


class Holding(Protocol):
    """The right to be the only apply; `ledger.Lease` is the one that Kafka grants."""

    def keep(self) -> None:
        """Raises LeaseLost if the right is gone. Asked between actions and while waiting."""
        ...


@dataclass(frozen=True, slots=True)
class Edges:
    """Everything that is not a value: the cluster, the ledger's pen, the lease and a way to look.

    `read_back` tells config and target state of one connector as they are now, `standings` how far
    a sink is, `evidence` what is known of a connector since it was changed. Those two are None
    where there is no Kafka to ask.
    """

    cluster: Cluster
    ledger: LedgerWriter
    lease: Holding
    read_back: ReadBack
    settings: Settings
    standings: Callable[[str], Standings] | None = None
    evidence: Evidence | None = None

    @property
    def patience(self) -> Patience:
        """Waiting, which is over when the user wants to stop or another apply has taken over."""
        settings = self.settings
        return Patience(settings.clock, settings.limits, lambda: settings.stop() or self._lost())

    @property
    def patience_in_action(self) -> Patience:
        """Waiting in the middle of an action, which comes to its end also if the user wants to
        stop."""
        return Patience(self.settings.clock, self.settings.limits, self._lost)

    def _lost(self) -> bool:
        try:
            self.lease.keep()
        except LeaseLost:
            return True
        return False
