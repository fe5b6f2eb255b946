"""Where does a source task's transaction end (`transaction.boundary`)?

`poll`: what one poll returned is committed together with its offset, and never split. While data
keeps coming, several whole polls share a transaction, for a tenth of a second at most; an idle
source's records are committed at once. `interval`: after a time. `connector`: the task says.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Final, Protocol

from connect_runtime.api import ConnectorError, SourceRecord
from connect_runtime.tasks import client_properties
from connect_runtime.tasks.launch import TaskLaunch
from connect_runtime.tasks.transactions import Transactions

_SHARED_S: Final = 0.1
_SHARED_BYTES: Final = 32 << 20
_QUICK_POLL_S: Final = 0.01  # a poll that took longer waited for its data


class Boundary(Protocol):
    """Decides after each poll."""

    def due(self, transactions: Transactions, poll_s: float, *, empty: bool) -> bool:
        """Whether to commit now, after a poll that took `poll_s`; `empty` if it found nothing."""
        ...


class PollBoundary:
    """Whole polls."""

    def due(self, transactions: Transactions, poll_s: float, *, empty: bool) -> bool:
        return (
            empty
            or poll_s > _QUICK_POLL_S
            or transactions.bytes >= _SHARED_BYTES
            or time.monotonic() - transactions.opened_at >= _SHARED_S
        )


class IntervalBoundary:
    """A time since the last commit. Unlike Apache's, seen also while the source is idle: an open
    transaction would time out."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last = time.monotonic()

    def due(self, transactions: Transactions, poll_s: float, *, empty: bool) -> bool:
        now = time.monotonic()
        if now - self._last < self._interval_s:
            return False
        self._last = now
        return True


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

    def due(self, transactions: Transactions, poll_s: float, *, empty: bool) -> bool:
        return False


def boundary_of(launch: TaskLaunch) -> PollBoundary | IntervalBoundary | ConnectorBoundary:
    """The boundary that the connector's config asks for."""
    match launch.connector_config.get("transaction.boundary", "poll").strip().lower():
        case "connector":
            return ConnectorBoundary()
        case "interval":
            return IntervalBoundary(client_properties.boundary_interval_ms(launch) / 1000)
        case _:
            return PollBoundary()
