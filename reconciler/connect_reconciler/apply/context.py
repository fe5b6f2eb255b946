"""The context of an apply: its ports, clock and settings; and the errors that end it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect_reconciler.actions import AlterOffsets
from connect_reconciler.apply.health import Lags
from connect_reconciler.apply.report import Progress
from connect_reconciler.apply.status_observer import StatusObserver, lags_of
from connect_reconciler.backend.backend import (
    Cluster,
    Connection,
    LeaseHandle,
    LedgerWriter,
    ReadConnector,
)
from connect_reconciler.backend.lease import LeaseLost
from connect_reconciler.backend.ledger import NotRecorded
from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_runtime.storage.log import LogBlocked
from connect_runtime.waiting import wait_until
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Unreachable

# After one of these an apply can do nothing more on any connector
FATAL = (LeaseLost, NotRecorded, Unreachable, LogBlocked)


class MoveRefused(Failed):
    """The offsets of a connector that was stopped for it may not be moved, and were not."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times of an apply, in seconds.

    `stop_again_s`: how often a stop that has not ended is asked for again. `healthy_s`: how long a
    connector must stay healthy; `unproven_s`: how long a connector must run whose tasks are not
    known to have polled since the change. `settle_s`: how long after a change a status may still be
    from before it, if nothing proves its age. `commits_s`: how often a sink commits its offsets.
    `group_s`: how long a stopped sink's consumer group may still have members. `unknown_s`: how
    long the effect of an unanswered request is looked for.
    """

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
        """Returns the limits with which all connectors must stay healthy for so long."""
        return replace(self, healthy_s=seconds, unproven_s=seconds)


@dataclass(frozen=True, slots=True)
class Clock:
    """A monotonic clock, and time in epoch milliseconds for what people read."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Waiter:
    """Waits until a condition holds, it times out, or `stop` returns True."""

    clock: Clock
    limits: Limits
    stop: Callable[[], bool]

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Returns True if the condition came true in time; it is checked at least once."""
        every_s, clock = self.limits.every_s, self.clock
        return wait_until(
            condition,
            timeout_s,
            every_s=every_s,
            stop=self.stop,
            clock=clock.now,
            sleep=clock.sleep,
        )


class NewStarts:
    """Decides whether anything new may start, on any connector.

    `ended_by` is the error that ended the apply, if one did.
    """

    def __init__(self, stop: Callable[[], bool], *, fail_fast: bool) -> None:
        self._stop = stop
        self._fail_fast = fail_fast
        self._failed = False
        self.ended_by: ConnectError | None = None

    def end(self, error: ConnectError) -> None:
        """Starts nothing new on any connector from now on."""
        if self.ended_by is None:
            self.ended_by = error

    def connector_failed(self) -> None:
        """Starts no new connector from now on, with `fail_fast`."""
        self._failed = True

    def skip_reason(self, *, in_progress: bool) -> str:
        """Returns why the next action must not start; empty if it may. A failure elsewhere is no
        reason to leave a connector in progress half done."""
        if self.ended_by is not None:
            return "the apply ended before"
        if self._stop():
            return "interrupted"
        if self._fail_fast and self._failed and not in_progress:
            return "another connector failed before"
        return ""


@dataclass(frozen=True, slots=True)
class ApplyContext:
    """Everything of an apply that is not a value.

    `by` is who applies, for the journal. `stop` returns True once the user pressed Ctrl-C: the
    apply then ends between two actions. `parallelism` limits the connectors in progress; with
    `fail_fast` none starts after a failure, and with `require_running` the apply fails if no
    runtime is up.

    `lags` reads a sink's lags, `observer` the statuses of changed connectors, and `view_of_sink`
    the Kafka cluster that a sink of some config reads; None without Kafka. `worker` holds the
    worker's properties. `denials` returns the policies' objections to offsets before they are set.
    """

    cluster: Cluster
    ledger: LedgerWriter
    lease: LeaseHandle
    read_connector: ReadConnector
    by: str
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)
    progress: Progress = lambda event: None
    stop: Callable[[], bool] = lambda: False
    parallelism: int = 1
    fail_fast: bool = False
    require_running: bool = False
    lags: Callable[[str], Lags] | None = None
    observer: StatusObserver | None = None
    view_of_sink: Callable[[str, Mapping[str, str]], KafkaPort] | None = None
    worker: Mapping[str, str] = field(default_factory=dict)
    denials: Callable[[AlterOffsets], Sequence[Diagnostic]] = lambda action: ()

    @classmethod
    def over(cls, connection: Connection, by: str, worker: Mapping[str, str]) -> ApplyContext:
        """Returns the context of an apply over this connection."""
        cluster, read_connector = connection.cluster, connection.read_connector
        context = cls(
            cluster, connection.ledger, connection.lease, read_connector, by, worker=worker
        )
        if connection.followed is not None:
            context = replace(context, observer=StatusObserver(connection.followed))
        if connection.clusters is None:
            return context
        view_of_sink = connection.clusters.view_of_sink
        lags = lags_of(cluster, view_of_sink, read_connector, worker)
        return replace(context, lags=lags, view_of_sink=view_of_sink)

    @property
    def waiter(self) -> Waiter:
        """Waits, until Ctrl-C ends the wait."""
        return Waiter(self.clock, self.limits, self.stop)

    @property
    def waiter_in_action(self) -> Waiter:
        """Waits within an action, which Ctrl-C lets finish: only a lost lease ends the wait."""
        return Waiter(self.clock, self.limits, self._lease_is_lost)

    def _lease_is_lost(self) -> bool:
        try:
            self.lease.keep()
        except LeaseLost:
            return True
        return False
