"""Decides when a source task's transaction ends (`transaction.boundary`).

`poll`: the records of one poll are committed together with its offset, and never split. Under load,
several whole polls share a transaction, for a tenth of a second at most; once a source has nothing
more at hand, its records are committed. `interval`: commits after a time. `connector`: the task
decides. Without transactions, only `offset.flush.interval.ms` decides when to commit.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Final, Protocol

from connect_runtime.api import ConnectorError, SourceRecord
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.source_writer import SourceWriter

_SHARED_S: Final = 0.1
_SHARED_BYTES: Final = 32 << 20
_QUICK_POLL_S: Final = 0.01  # a poll that took longer waited for its data


class Boundary(Protocol):
    """Decides when to commit: after each poll, and between. `during_polls`: also while the task is
    busy."""

    @property
    def during_polls(self) -> bool: ...

    def due(self, writer: SourceWriter, since: float, poll_s: float, *, empty: bool) -> bool:
        """Whether to commit now what waits since `since` (monotonic seconds), after a poll that
        took `poll_s`; `empty` if it found nothing."""
        ...

    def commit_at(self, quiet_at: float) -> float | None:
        """Returns when to commit open records if no more follow until then; None if that is not for
        us to decide. From `quiet_at` on, the task has nothing at hand (both monotonic seconds)."""
        ...

    def restart(self) -> None:
        """Restarts the timer after a commit or an attempted commit."""
        ...


class PollBoundary:
    """Commits whole polls. With `shared` False each has its own transaction."""

    during_polls = True

    def __init__(self, *, shared: bool) -> None:
        self._shared_s = _SHARED_S if shared else 0.0

    def due(self, writer: SourceWriter, since: float, poll_s: float, *, empty: bool) -> bool:
        return (
            empty
            or poll_s > _QUICK_POLL_S
            or writer.bytes >= _SHARED_BYTES
            or time.monotonic() - since >= self._shared_s
        )

    def commit_at(self, quiet_at: float) -> float | None:
        return quiet_at

    def restart(self) -> None:
        pass


class IntervalBoundary:
    """Commits after a time since the last commit. Unlike Apache's, also while the source is idle:
    an open transaction would time out."""

    def __init__(self, interval_s: float, *, during_polls: bool) -> None:
        self.during_polls = during_polls
        self._interval_s = interval_s
        self._last = time.monotonic()

    def due(self, writer: SourceWriter, since: float, poll_s: float, *, empty: bool) -> bool:
        return time.monotonic() >= self._last + self._interval_s

    def commit_at(self, quiet_at: float) -> float | None:
        return self._last + self._interval_s

    def restart(self) -> None:
        self._last = time.monotonic()


class Ending(Enum):
    """How a task wants its transaction to end."""

    COMMIT = "commit"
    ABORT = "abort"


class ConnectorBoundary:
    """Commits when the task requests it: a `TransactionContext`."""

    during_polls = False

    def __init__(self) -> None:
        self._batch: Ending | None = None
        self._records: dict[int, tuple[SourceRecord, Ending]] = {}

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commits at the end of the batch, or right after `record`."""
        self._ask(record, Ending.COMMIT)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Aborts at the same points, dropping the records and keeping their offsets."""
        self._ask(record, Ending.ABORT)

    def _ask(self, record: SourceRecord | None, ending: Ending) -> None:
        if record is None:
            if self._batch not in (None, ending):
                raise ConnectorError(
                    "Connector requested both commit and abort of same transaction"
                )
            self._batch = ending
            return
        # kept with its record: an id alone could be reused for another record
        _, asked = self._records.setdefault(id(record), (record, ending))
        if asked is not ending:
            raise ConnectorError(
                "Connector requested both commit and abort of same record against topic/partition"
                f" {record.topic}/{'null' if record.partition is None else record.partition}"
            )

    @property
    def asks_for_records(self) -> bool:
        """Whether the next batch ends transactions within itself."""
        return bool(self._records)

    def after(self, record: SourceRecord) -> Ending | None:
        """Returns what to do right after `record`."""
        _, ending = self._records.pop(id(record), (record, None))
        return ending

    def after_batch(self) -> Ending | None:
        """Returns what to do after the batch."""
        ending, self._batch = self._batch, None
        return ending

    def due(self, writer: SourceWriter, since: float, poll_s: float, *, empty: bool) -> bool:
        return False

    def commit_at(self, quiet_at: float) -> float | None:
        return None

    def restart(self) -> None:
        pass


def boundary_of(
    setup: TaskSetup, *, asked: bool
) -> PollBoundary | IntervalBoundary | ConnectorBoundary:
    """Returns the boundary that the connector's config requests; without transactions, the flush
    interval.

    `asked`: the task wants to be asked before each commit (KIP-910), so no commit may happen during
    a poll, and no poll may start while records wait for a commit.
    """
    if not setup.exactly_once:
        return IntervalBoundary(setup.flush_interval_s, during_polls=False)
    match setup.transaction_boundary:
        case "connector":
            return ConnectorBoundary()
        case "interval":
            return IntervalBoundary(setup.boundary_interval_s, during_polls=not asked)
        case _:
            return PollBoundary(shared=not asked)
