"""What the doctor looks at: both sides of a cluster as plain values, and where records lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from connect_reconciler.model.offsets import Offsets
from connect_runtime.herder.values import ConnectorInfo, ConnectorStatus
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import ConfigSnapshot, StatusSnapshot
from connect_specs.diagnostics import Diagnostic
from connect_specs.partitions import PartitionKey, partition_key

Level: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or that may become so."""

    level: Level
    diagnostic: Diagnostic


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the brokers describe it. `policy` None: we may not ask."""

    name: str
    partitions: int
    replication: int
    policy: str | None


@dataclass(frozen=True, slots=True)
class Places:
    """Where the newest record about something lies: `topic-partition, offset n`."""

    of: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    @classmethod
    def index(cls, config: Iterable[LogRecord], offsets: Iterable[LogRecord]) -> Places:
        """Of the records of both topics."""
        found: dict[tuple[str, ...], str] = {}
        for record in config:
            subject = config_topic.subject(record.key)
            if subject is not None:
                found[subject] = _place(record)
        for record in offsets:
            told = offsets_topic.subject(record.key)
            if told is not None:
                found["offset", told[0], partition_key(told[1])] = _place(record)
        return cls(found)

    def config(self, name: str) -> str:
        return self.of.get(("config", name), name)

    def target(self, name: str) -> str:
        return self.of.get(("target-state", name), name)

    def offset(self, name: str, partition: PartitionKey) -> str:
        return self.of.get(("offset", name, partition), name)


@dataclass(frozen=True, slots=True)
class TopicsSide:
    """What Kafka holds. `offsets` are those of connectors that are stopped; `unknown` says why
    those of others could not be read."""

    cluster_id: str
    brokers: int
    topics: Mapping[str, TopicFacts]
    config: ConfigSnapshot
    status: StatusSnapshot
    offsets: Mapping[str, Offsets]
    places: Places
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RestSide:
    """What the REST API tells. `offsets` are those of connectors that are stopped."""

    version: str
    cluster_id: str
    infos: Mapping[str, ConnectorInfo]
    statuses: Mapping[str, ConnectorStatus]
    offsets: Mapping[str, Offsets]


def _place(record: LogRecord) -> str:
    return f"{record.topic}-{record.partition}, offset {record.offset}"
