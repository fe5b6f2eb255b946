"""The ports of an apply: the cluster, reading a connector back, the ledger and the lease.

Two adapters of `Cluster` pass one contract suite: `runtime.InProcessCluster` asks the herder that
this process leads with, `http.HttpCluster` a Connect REST API. Neither decides anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_reconciler.ledger.journal import Ending, Journal, JournalEntry
from connect_reconciler.model.ledger import LedgerState
from connect_runtime.herder.verbs import ConnectorStatus
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Failed
from connect_specs.states import TargetState


class OutcomeUnknown(Failed):
    """A change was asked for and no answer came: it may have taken place, or may still."""


class Cluster(Protocol):
    """The cluster as an apply changes it. All raise RequestError with Connect's status and text.

    An HTTP call whose answer never came raises `OutcomeUnknown`; one that was never sent, and a
    read without an answer, raises `Unreachable`.
    """

    @property
    def runs_tasks(self) -> bool:
        """Returns True if tasks run while this cluster is used; if not, waits for health are
        skipped."""
        ...

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None: ...
    def update_config(self, name: str, config: Mapping[str, str]) -> None: ...
    def config(self, name: str) -> Mapping[str, str] | None: ...
    def status(self, name: str) -> ConnectorStatus | None: ...
    def set_target(self, name: str, target: TargetState) -> None: ...
    def restart(self, name: str, *, only_failed: bool) -> None:
        """Restarts the connector and its tasks, or those of them that failed."""
        ...

    def delete(self, name: str) -> None: ...
    def offsets(self, name: str) -> Sequence[OffsetEntry]: ...
    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str: ...
    def reset_offsets(self, name: str) -> str: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredConnector:
    """A connector that is there. `tasks_current`: its tasks were made from this very config. Each
    set of task configs has its own `generation`, and each write of the config its own `written_at`;
    over REST alone neither is known."""

    config: Mapping[str, str]
    target: TargetState
    tasks: int = 0
    tasks_current: bool = True
    generation: int = 0
    written_at: int = -1


class ReadConnector(Protocol):
    """Reads one connector; None where there is none. Raises ConnectError."""

    def __call__(self, name: str) -> StoredConnector | None: ...


class LedgerWriter(Protocol):
    """The ledger as an apply writes it; `backend.ledger.Ledger` is the one in a topic.

    `records` are the ledger topic's, made for `topic`. Raises LeaseLost, NotRecorded. Called from
    several threads at a time, from one for each connector.
    """

    @property
    def topic(self) -> str: ...
    @property
    def state(self) -> LedgerState:
        """Returns the ledger's state, with all that was written here."""
        ...

    def begin(self, journal: Journal, *, new_fingerprint_key: bytes | None) -> None: ...
    def started(
        self,
        step: JournalEntry,
        records: Sequence[NewRecord] = (),
        *,
        upcoming: Sequence[NewRecord] = (),
    ) -> None:
        """Records that an action starts. Returns once the entry and `records` are durable.

        `upcoming` are the records of `done`: a ledger in the connectors' configs is written with
        them, or before they run.
        """
        ...

    def done(self, step: JournalEntry, records: Sequence[NewRecord] = ()) -> None: ...
    def correct(self, records: Sequence[NewRecord]) -> None: ...
    def failed(self, step: JournalEntry) -> None:
        """Records that the action was not done, or that its outcome is unknown."""
        ...

    def finish(
        self, ending: Ending, *, exit_code: int, now_ms: int, proven: Collection[str] = ()
    ) -> None:
        """Closes the journal. `proven` are the connectors that were seen healthy."""
        ...

    def prove(self, project: str, proven: Collection[str]) -> None:
        """Records that connectors which earlier applies of the project changed are healthy."""
        ...


class LeaseHandle(Protocol):
    """The right to be the only apply; `backend.lease.Lease` is the one that Kafka grants."""

    def keep(self) -> None:
        """Raises LeaseLost if the right is gone. Asked between actions and while waiting."""
        ...
