"""Defines connectors, which turn a config into task configs, and tasks, which move the data, with
their contexts (manual 8.3, "Connector Example" and "Task Example").

A connector moves no data. The runtime's leader asks it for task configs, validates configs with it,
and asks it before offsets are altered; most of this without `start`.

Each task runs in its own process and is called from one thread only, unlike in Java: `stop` never
overlaps `poll` or `put`. So `poll` and `put` must return within about half a second when there is
nothing to do, or they delay a stop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from enum import Enum
from itertools import pairwise
from typing import ClassVar, Protocol, TypeVar

from connect_runtime.api.configdef import ConfigDef, ConfigValue
from connect_runtime.api.records import (
    SinkBatch,
    SinkRecord,
    SourceBatch,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    TopicPartition,
)


class OffsetStorageReader(Protocol):
    """Reads the offsets that earlier records of this connector committed."""

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Returns where to resume this source partition; None if it was never committed, or
        reset."""
        ...

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """Returns the offsets of several partitions, in their order."""
        ...


class TransactionContext(Protocol):
    """Decides where transactions end, with `transaction.boundary=connector` (KIP-618).

    Without a record, at the end of the batch that the next (or this) `poll` returns; with a
    record, right after that one. After an abort the aborted records' offsets are still committed,
    so they are skipped and not polled again.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None: ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class SourceTaskContext(Protocol):
    """The calls that a source task may make on the runtime."""

    @property
    def configs(self) -> Mapping[str, str]:
        """Returns the task's config."""
        ...

    @property
    def offset_storage_reader(self) -> OffsetStorageReader: ...

    @property
    def transaction_context(self) -> TransactionContext | None:
        """Returns None unless `transaction.boundary` is `connector`."""
        ...


class ErrantRecordReporter(Protocol):
    """Takes records that the task's target refuses, to log them or to keep them in a dead letter
    queue (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Reports a record that `put` got. Offsets wait for the report, the task need not: the
        result is done when the report is kept. Raises ConnectorError with `errors.tolerance=none`,
        and then fails the task after `put`."""
        ...


class SinkTaskContext(Protocol):
    """The calls that a sink task may make on the runtime, from within its own methods."""

    @property
    def configs(self) -> Mapping[str, str]:
        """Returns the task's config."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Returns the partitions that are assigned to this task now."""
        ...

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Redelivers from these offsets, for a sink that keeps its own (exactly once)."""
        ...

    def timeout(self, timeout_ms: int) -> None:
        """Sets how long to wait before the next `put`, once. Meant for use with
        `RetriableError`."""
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Pauses these partitions until `resume`."""
        ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Returns None unless the connector has a dead letter queue, or logs errors."""
        ...

    def request_commit(self) -> None:
        """Commits offsets soon instead of waiting for the next regular time."""
        ...


class SourceTask(ABC):
    """Reads from a source.

    Life cycle: `initialize`, `start`, then repeated `poll`, `stop`. With exactly-once support the
    records of a poll and its offset are committed in one Kafka transaction, or neither is.
    """

    context: SourceTaskContext
    # True if `poll` itself waits for data, as a Java task's does
    poll_waits: ClassVar[bool] = False

    def initialize(self, context: SourceTaskContext) -> None:
        """Is called once, before `start`. Keep `context` if you override this."""
        self.context = context

    def version(self) -> str:
        """Returns the version for the task's status."""
        return "undefined"

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Opens the task's resources. `context.offset_storage_reader` has the offsets to resume
        from."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | SourceBatch | None:
        """Returns the next records, or None if there are none: at once, or after at most about half
        a second. After None the runtime waits; the longer nothing came, the longer, and up to a
        second. But it polls again at once if the poll itself has waited for 0.4 s or more.

        A task that waits for data in here for less, such as for a queue, or that reads much of
        which it returns nothing, sets `poll_waits`: then it is polled again at once after None,
        unless the poll took less than 5 ms.

        `RetriableError` counts as None; any other error fails the task.
        """

    def commit(self) -> None:  # noqa: B027 -- most tasks need neither hook
        """Is called when the offsets after everything returned by `poll` so far are in Kafka, and
        its records, but those of transactions that the task aborted."""

    def commit_record(self, record: SourceRecord) -> None:  # noqa: B027
        """Is called when `record` is in Kafka, or when the offset after it is because a
        transformation dropped it or `errors.tolerance` let it pass. Not called for records of a
        transaction that the task aborted. Overriding this costs one object per record."""

    def update_offsets(
        self, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> Sequence[tuple[SourcePartition, SourceOffset | None]] | None:
        """Changes offsets that are about to be committed (KIP-910); None changes nothing.

        Not called while a part of what `poll` returned could not be sent.
        """
        return None

    @abstractmethod
    def stop(self) -> None:
        """Closes everything. Also called after a failed `start` or `poll`."""


class SinkTask(ABC):
    """Writes records to another system.

    Life cycle: `initialize`, `start`, `open` for assigned partitions, repeated `put`, `flush`
    before each commit of offsets, `close` for revoked partitions, `stop`. Delivery is at least
    once: records after the last committed offset are redelivered after a failure.
    """

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        """Is called once, before `start`. Keep `context` if you override this."""
        self.context = context

    def version(self) -> str:
        """Returns the version for the task's status."""
        return "undefined"

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Opens the task's resources. No partition is known yet."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027
        """Is called when these partitions are assigned. `context.offset` may move them here."""

    @abstractmethod
    def put(self, records: SinkBatch) -> None:
        """Receives records; they need not be durable until `flush`.

        `RetriableError`: the same batch is put again later. Any other error fails the task.
        """

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:  # noqa: B027
        """Makes put records durable. `offsets` are each partition's next ones to read."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Returns the offsets that may be committed; the default flushes and returns all of them.

        Return fewer, or smaller ones, if not everything is durable. Empty: nothing is committed.
        """
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027
        """Is called when these partitions are revoked, after the last `pre_commit` for them."""

    @abstractmethod
    def stop(self) -> None:
        """Closes everything. Also called after a failed `start` or `put`."""


T = TypeVar("T")


class ConnectorContext(Protocol):
    """The calls that a connector may make on the runtime, from any thread."""

    def request_task_reconfiguration(self) -> None:
        """Requests `task_configs` again, because the source or sink has changed."""
        ...

    def raise_error(self, error: Exception) -> None:
        """Fails the connector."""
        ...


class SourceConnectorContext(ConnectorContext, Protocol):
    """The calls that a source connector may make in addition."""

    @property
    def offset_storage_reader(self) -> OffsetStorageReader: ...


class ExactlyOnceSupport(Enum):
    """A source's ability to resume exactly after any record that it returned (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class TransactionBoundaries(Enum):
    """The ability of a source's tasks to end transactions themselves (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(ABC):
    """The base of `SourceConnector` and `SinkConnector`; derive from one of them.

    A pause stops the connector. A resume, like a new config, starts another object of the class.
    """

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        """Is called once, before `start`. Keep `context` if you override this."""
        self.context = context

    def version(self) -> str:
        """Returns the version for listings and for the connector's status."""
        return "undefined"

    @abstractmethod
    def config(self) -> ConfigDef:
        """Returns the keys of this connector's config. May be called without `start`."""

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Receives the config. Raising fails the connector."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Returns one config for each task, at most `max_tasks`."""

    @abstractmethod
    def stop(self) -> None:
        """Releases everything that `start` acquired."""

    def validate(self, props: Mapping[str, str | None]) -> list[ConfigValue]:
        """Returns all errors of a config. May be called without `start`."""
        return self.config().validate(props)


class SourceConnector(Connector):
    """A connector that reads from another system into Kafka."""

    @abstractmethod
    def task_class(self) -> type[SourceTask]:
        """Returns the class of its tasks."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Returns the support with this config; None if it is unknown."""
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> TransactionBoundaries:
        """Returns SUPPORTED if tasks use `context.transaction_context`."""
        return TransactionBoundaries.UNSUPPORTED

    def alter_offsets(
        self,
        config: Mapping[str, str],
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        """Checks source offsets that a user requests (KIP-875); None as offset resets a partition.

        Returns True if the connector has checked them. Raise `ConnectorError` to refuse them, or
        `NotImplementedError` if offsets of this connector can never be changed from outside.
        """
        return False


class SinkConnector(Connector):
    """A connector that writes from Kafka to another system."""

    @abstractmethod
    def task_class(self) -> type[SinkTask]:
        """Returns the class of its tasks."""

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Checks consumer offsets that a user requests (KIP-875); None resets a partition.

        Returns True if the connector has checked them. Raise `ConnectorError` to refuse them, or
        `NotImplementedError` if offsets of this connector can never be changed from outside.
        """
        return False


def group_partitions(elements: Sequence[T], groups: int) -> list[list[T]]:
    """Distributes elements over tasks (Connect's `ConnectorUtils`).

    Returns `groups` lists of neighbours, whose sizes differ by one at most, longer ones first.
    Raises ValueError unless `groups` is positive."""
    if groups <= 0:
        raise ValueError("Number of groups must be positive.")
    size, longer = divmod(len(elements), groups)
    starts = [i * size + min(i, longer) for i in range(groups + 1)]
    return [list(elements[a:b]) for a, b in pairwise(starts)]
