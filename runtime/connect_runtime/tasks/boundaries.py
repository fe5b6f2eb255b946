"""Where does a source task's transaction end (`transaction.boundary`)?

`poll`: what one poll returned is committed together with its offset, and never split. While data
keeps coming, several whole polls share a transaction, for a tenth of a second at most; an idle
source's records are committed at once. `interval`: after a time. `connector`: the task says.

Without transactions, commits are a matter of time alone: of `offset.flush.interval.ms`.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Final, Protocol

from connect_runtime.api import ConnectorError, SourceRecord
from connect_runtime.tasks import client_properties
from connect_runtime.tasks.launch import TaskLaunch, exactly_once
from connect_runtime.tasks.source_writer import SourceWriter

_SHARED_S: Final = 0.1
_SHARED_BYTES: Final = 32 << 20
_QUICK_POLL_S: Final = 0.01  # a poll that took longer waited for its data
_LONGEST_SHARED_S: Final = 0.25  # a poll that takes long does not hold up what came before it


class Boundary(Protocol):
    """Decides after each poll, and during polls that take long."""

    def due(self, writer: SourceWriter, poll_s: float, *, empty: bool) -> bool:
        """Whether to commit now, after a poll that took `poll_s`; `empty` if it found nothing."""
        ...

    def commit_at(self, writer: SourceWriter) -> float | None:
        """When (monotonic seconds) to commit what is open if the next poll has not returned by
        then; None to wait for it however long it takes."""
        ...

    def restart(self) -> None:
        """A commit was made just now, or tried."""
        ...


class PollBoundary:
    """Whole polls. With `shared` False each has a transaction of its own."""

    def __init__(self, *, shared: bool) -> None:
        self._shared_s = _SHARED_S if shared else 0.0

    def due(self, writer: SourceWriter, poll_s: float, *, empty: bool) -> bool:
        return (
            empty
            or poll_s > _QUICK_POLL_S
            or writer.bytes >= _SHARED_BYTES
            or time.monotonic() - writer.opened_at >= self._shared_s
        )

    def commit_at(self, writer: SourceWriter) -> float | None:
        return writer.opened_at + _LONGEST_SHARED_S

    def restart(self) -> None:
        pass


class IntervalBoundary:
    """A time since the last commit. Unlike Apache's, seen also while the source is idle: an open
    transaction would time out. With `always` True also while it polls."""

    def __init__(self, interval_s: float, *, always: bool) -> None:
        self._interval_s = interval_s
        self._always = always
        self._last = time.monotonic()

    def due(self, writer: SourceWriter, poll_s: float, *, empty: bool) -> bool:
        return time.monotonic() >= self._last + self._interval_s

    def commit_at(self, writer: SourceWriter) -> float | None:
        return self._last + self._interval_s if self._always else None

    def restart(self) -> None:
        self._last = time.monotonic()


class Ending(Enum):
    """How a task wants its transaction to end."""

    COMMIT = "commit"
    ABORT = "abort"


class ConnectorBoundary:
    """What the task asked for: a `TransactionContext`."""

    def __init__(self) -> None:
        self._batch: Ending | None = None
        self._records: dict[int, tuple[SourceRecord, Ending]] = {}

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """At the end of the batch, or right after `record`."""
        self._ask(record, Ending.COMMIT)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """The same, dropping the records and keeping their offsets."""
        self._ask(record, Ending.ABORT)

    def _ask(self, record: SourceRecord | None, ending: Ending) -> None:
        if record is None:
            if self._batch not in (None, ending):
                raise ConnectorError(
                    "Connector requested both commit and abort of same transaction"
                )
            self._batch = ending
            return
        # kept with its record: an id alone could come back for another one
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
        """What to do right after `record`."""
        _, ending = self._records.pop(id(record), (record, None))
        return ending

    def after_batch(self) -> Ending | None:
        """What to do after the batch."""
        ending, self._batch = self._batch, None
        return ending

    def due(self, writer: SourceWriter, poll_s: float, *, empty: bool) -> bool:
        return False

    def commit_at(self, writer: SourceWriter) -> float | None:
        return None

    def restart(self) -> None:
        pass


def boundary_of(
    launch: TaskLaunch, *, asked: bool
) -> PollBoundary | IntervalBoundary | ConnectorBoundary:
    """The boundary that the connector's config asks for; the flush interval where there are no
    transactions.

    `asked`: the task wants to be asked before each commit (KIP-910), so none may happen during a
    poll, and no poll may begin with records that wait for theirs.
    """
    if not exactly_once(launch.worker):
        return IntervalBoundary(client_properties.flush_interval_ms(launch) / 1000, always=False)
    match launch.connector_config.get("transaction.boundary", "poll").strip().lower():
        case "connector":
            return ConnectorBoundary()
        case "interval":
            interval_s = client_properties.boundary_interval_ms(launch) / 1000
            return IntervalBoundary(interval_s, always=not asked)
        case _:
            return PollBoundary(shared=not asked)
