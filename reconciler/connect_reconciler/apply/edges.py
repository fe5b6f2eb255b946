"""What an apply acts through: cluster, ledger, lease, clock and settings; and what ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect_reconciler.actions import AlterOffsets
from connect_reconciler.apply.evidence import Evidence, lags_of
from connect_reconciler.apply.health import Lags
from connect_reconciler.apply.report import Progress
from connect_reconciler.backend.backend import Connection
from connect_reconciler.backend.lease import LeaseLost
from connect_reconciler.backend.ledger import NotRecorded
from connect_reconciler.backend.observe.kafka_view import View
from connect_reconciler.backend.port import Cluster, Holding, LedgerWriter, ReadBack
from connect_runtime.storage.log import LogBlocked
from connect_specs.diagnostics import Diagnostic, Failed, Unreachable

# After one of these an apply can do nothing more on any connector
FATAL = (LeaseLost, NotRecorded, Unreachable, LogBlocked)


class MoveRefused(Failed):
    """The offsets of a connector that was stopped for it may not be moved, and were not."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All in seconds. `stop_again_s`: how often a stop that has not ended is asked for again.
    `healthy_s`: how long a connector must stay healthy; `unproven_s`: how long one must run whose
    tasks are not known to have polled since the change. `settle_s`: how long after a change a
    status may still be from before it, where nothing tells. `commits_s`: how often a sink commits
    its offsets. `group_s`: how long a stopped sink's consumer group may still have members.
    `unknown_s`: how long the effect of an unanswered request is looked for."""

    health_s: float = 60.0
    stop_s: float = 60.0
    stop_again_s: float = 15.0
    group_s: float = 30.0
    unknown_s: float = 10.0
    healthy_s: float = 2.0
    unproven_s: float = 10.0
    settle_s: float = 10.0
    commits_s: float = 60.0
    every_s: float = 0.25

    def healthy_for(self, seconds: float) -> Limits:
        """The same, where all connectors must stay healthy for so long."""
        return replace(self, healthy_s=seconds, unproven_s=seconds)


@dataclass(frozen=True, slots=True)
class Clock:
    """A monotonic clock, and time in epoch milliseconds for what people read."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits until a condition holds, it times out or `stop` says so."""

    clock: Clock
    limits: Limits
    stop: Callable[[], bool]

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether the condition came true in time; it is checked at least once."""
        deadline = self.clock.now() + timeout_s
        while not condition():
            if self.stop() or self.clock.now() >= deadline:
                return False
            self.clock.sleep(self.limits.every_s)
        return True


@dataclass(frozen=True, slots=True)
class Settings:
    """`by` is who applies, for the journal. `stop` says that the user pressed Ctrl-C: the apply
    then ends between two actions. `parallelism` is how many connectors may be in progress at a
    time; with `fail_fast` none starts after one has failed. `require_running`: it fails if no
    runtime is up.
    """

    by: str
    progress: Progress = lambda event: None
    stop: Callable[[], bool] = lambda: False
    parallelism: int = 1
    fail_fast: bool = False
    require_running: bool = False
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True, slots=True)
class Edges:
    """Everything of an apply that is not a value.

    `read_back` reads one connector's current config and target state, `lags` a sink's lags,
    `evidence` observes a connector since it was changed, and `view_of_sink` shows the Kafka cluster
    that a sink of some config reads. These three are None without Kafka. `worker` holds the
    worker's properties. `denials` is what policies say against offsets that are about to be set.
    """

    cluster: Cluster
    ledger: LedgerWriter
    lease: Holding
    read_back: ReadBack
    settings: Settings
    lags: Callable[[str], Lags] | None = None
    evidence: Evidence | None = None
    view_of_sink: Callable[[str, Mapping[str, str]], View] | None = None
    worker: Mapping[str, str] = field(default_factory=dict)
    denials: Callable[[AlterOffsets], Sequence[Diagnostic]] = lambda action: ()

    @property
    def patience(self) -> Patience:
        """Waiting, which Ctrl-C ends."""
        return Patience(self.settings.clock, self.settings.limits, self.settings.stop)

    @property
    def patience_in_action(self) -> Patience:
        """Waiting within an action, which Ctrl-C lets finish, and only a lost lease ends."""
        return Patience(self.settings.clock, self.settings.limits, self._lost)

    def _lost(self) -> bool:
        try:
            self.lease.keep()
        except LeaseLost:
            return True
        return False


def edges_over(connection: Connection, settings: Settings, worker: Mapping[str, str]) -> Edges:
    """The edges over a connection; `worker` holds the worker's properties."""
    cluster, read_back = connection.cluster, connection.read_back
    clusters, followed = connection.clusters, connection.followed
    return Edges(
        cluster,
        connection.ledger,
        connection.lease,
        read_back,
        settings,
        None if clusters is None else lags_of(cluster, clusters.view_of_sink, read_back, worker),
        None if followed is None else Evidence(followed),
        None if clusters is None else clusters.view_of_sink,
        worker,
    )
