"""Defines connectors, which turn a config into task configs (manual 8.3, "Connector Example").

A connector moves no data. The runtime's leader asks it for task configs, validates configs with it,
and asks it before offsets are altered; most of this without `start`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from connect_runtime.api.configdef import ConfigDef, ConfigValue
from connect_runtime.api.records import SourceOffset, SourcePartition, TopicPartition
from connect_runtime.api.tasks import OffsetStorageReader, SinkTask, SourceTask


class ConnectorContext(Protocol):
    """What a connector may call on the runtime, from any thread."""

    def request_task_reconfiguration(self) -> None:
        """Requests `task_configs` again, because the source or sink has changed."""
        ...

    def raise_error(self, error: Exception) -> None:
        """Fails the connector."""
        ...


class SourceConnectorContext(ConnectorContext, Protocol):
    """What a source connector may call in addition."""

    @property
    def offset_storage_reader(self) -> OffsetStorageReader: ...


class ExactlyOnceSupport(Enum):
    """Whether a source can resume exactly after any record that it returned (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class TransactionBoundaries(Enum):
    """Whether a source's tasks can end transactions themselves (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(ABC):
    """The base of `SourceConnector` and `SinkConnector`; derive from one of them.

    A pause stops the connector. A resume, like a new config, starts another object of the class.
    """

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        """Called once, before `start`. Keep `context` if you override this."""
        self.context = context

    def version(self) -> str:
        """The version to show in listings and in the connector's status."""
        return "undefined"

    @abstractmethod
    def config(self) -> ConfigDef:
        """The keys that this connector knows. May be called without `start`."""

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Receives the config. Raising fails the connector."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """One config for each task, at most `max_tasks`."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what `start` started."""

    def validate(self, props: Mapping[str, str | None]) -> list[ConfigValue]:
        """Returns all errors of a config. May be called without `start`."""
        return self.config().validate(props)


class SourceConnector(Connector):
    """A connector that reads from another system into Kafka."""

    @abstractmethod
    def task_class(self) -> type[SourceTask]:
        """The class of its tasks."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Whether this config allows exactly once. None: the connector does not say."""
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> TransactionBoundaries:
        """Whether tasks use `context.transaction_context`."""
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
        """The class of its tasks."""

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Checks consumer offsets that a user requests (KIP-875); None resets a partition.

        Returns True if the connector has checked them. Raise `ConnectorError` to refuse them, or
        `NotImplementedError` if offsets of this connector can never be changed from outside.
        """
        return False
