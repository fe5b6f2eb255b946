"""Defines connectors, which turn a config into task configs (manual 8.3, "Connector Example").

A connector moves no data. The runtime's leader asks it for task configs, validates configs with it,
and asks it before offsets are altered; most of this without `start`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import Protocol, TypeVar

from connect_runtime.api.configdef import ConfigDef, ConfigValue
from connect_runtime.api.records import SourceOffset, SourcePartition, TopicPartition
from connect_runtime.api.tasks import OffsetStorageReader, SinkTask, SourceTask

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
