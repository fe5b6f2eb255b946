"""The logs of topics that sinks read, as far as planning needs to know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_reconciler.model.offsets import TopicPartition


class RecordAt(NamedTuple):
    """A record's place in a topic; at the log's end, the place of the next record."""

    topic: str
    partition: int
    offset: int


class TimeAt(NamedTuple):
    """A time, in ms since 1970, in a partition of a topic."""

    topic: str
    partition: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class LogRange:
    """A partition's log: `earliest` is the first offset still there, `latest` the next to come."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class TopicLogs:
    """The logs on one Kafka cluster.

    `ranges` covers every topic partition that a sink or a pin names. `topics` holds how many
    partitions the topics have that a new, changed or pinned sink reads, without those that do not
    exist. `timestamps` are those of records, to tell durations; at the log's end that of the newest
    record. `first_since` holds the offset of the first record from a time on, or the log's end.
    Unless `complete`, there may be logs that are not in it.
    """

    ranges: Mapping[TopicPartition, LogRange] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    timestamps: Mapping[RecordAt, int] = field(default_factory=dict)
    first_since: Mapping[TimeAt, int] = field(default_factory=dict)
    complete: bool = True
