"""What an apply reaches the world through, and what ends it when it breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from connect_reconciler.apply.progress import Progress
from connect_reconciler.apply.readback import ReadBack
from connect_reconciler.apply.waiting import Clock, Limits, Patience
from connect_reconciler.cluster.port import Cluster
from connect_reconciler.ledger.lease import Lease, LeaseLost
from connect_reconciler.ledger.ledger import Ledger, NotRecorded
from connect_runtime.storage.log import LogBlocked
from connect_specs.diagnostics import Unreachable

# After one of these no connector can be brought any further.
FATAL = (LeaseLost, NotRecorded, Unreachable, LogBlocked)


@dataclass(frozen=True, slots=True)
class Settings:
    """How an apply waits and tells. `by` is who applies, for the journal. `stop` says that the user
    wants it to end: it then ends between two actions."""

    by: str
    progress: Progress = lambda event: None
    stop: Callable[[], bool] = lambda: False
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)

    @property
    def patience(self) -> Patience:
        """Waiting, by these settings."""
        return Patience(self.clock, self.limits, self.stop)


@dataclass(frozen=True, slots=True)
class Edges:
    """Everything that is not a value: the cluster, the ledger's pen, the lease and a way to look.

    `read_back` tells config and target state of one connector as they are now.
    """

    cluster: Cluster
    ledger: Ledger
    lease: Lease
    read_back: ReadBack
    settings: Settings
