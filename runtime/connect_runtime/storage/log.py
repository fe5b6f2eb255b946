"""A Kafka topic as a log: the contract of readers and writers of a cluster's own topics.

Two implementations pass the same contract tests: `connect_runtime.kafka.log` on a real broker and
`connect_runtime.storage.memory` for standalone mode and tests. Readers return committed records
only. Both check the shape of internal topics with the same texts, which are Connect's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from connect_runtime.settings.connector_clients import OFFSETS_TOPIC_KEY, ConnectorClients
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed

# Connect partitions these; every other topic of a cluster needs total order.
_OF_MANY_PARTITIONS = frozenset(
    {"offset.storage.topic", "offsets.storage.topic", "status.storage.topic"}
)
_REPLICATION = {
    "offset.storage.topic": "offset.storage.replication.factor",
    "offsets.storage.topic": "offset.storage.replication.factor",
    "status.storage.topic": "status.storage.replication.factor",
}


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as read. `timestamp_ms` is the broker's or the producer's, epoch milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class MalformedRecord(Exception):
    """A record is ignored for this reason, which never holds a value."""


def json_object(
    value: bytes | None, loads: Callable[[bytes], Any] = orjson.loads
) -> dict[str, Any]:
    """Decodes a record's value. Raises MalformedRecord."""
    if value is None:
        raise MalformedRecord("it has no value")
    try:
        content = loads(value)
    except ValueError:
        # from None: the error's text and its `doc` hold the value
        raise MalformedRecord("its value is not JSON") from None
    if not isinstance(content, dict):
        raise MalformedRecord("its value is not a JSON object")
    return content


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write. `value` None is a tombstone; the partition follows from the key."""

    topic: str
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A compacted topic of a Connect cluster, as it is to be.

    `purpose` is for messages, which are Connect's. `key` is the setting that names the topic.
    `config` holds further settings for a new topic; -1 leaves partitions or replication to the
    broker.
    """

    name: str
    partitions: int
    purpose: str
    key: str = "config.storage.topic"
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def replication_key(self) -> str:
        """Returns the worker's setting for the replicas of the topic."""
        return _REPLICATION.get(self.key, "config.storage.replication.factor")

    def check_partitions(self, partitions: int) -> None:
        """Raises Failed if a topic that needs a single partition has more."""
        if partitions != 1 and self.key not in _OF_MANY_PARTITIONS:
            text = (
                f"Topic '{self.name}' supplied via the '{self.key}' property is required to have a "
                f"single partition in order to guarantee consistency of {self.purpose}, but found "
                f"{partitions} partitions."
            )
            raise Failed(Diagnostic("topic.partitions", text))

    def check_compacted(self, policy: str) -> None:
        """Raises Failed unless the topic's only cleanup policy is compaction."""
        if policy != "compact":
            text = (
                f"Topic '{self.name}' supplied via the '{self.key}' property is required to have "
                "'cleanup.policy=compact' to guarantee consistency and durability of "
                f"{self.purpose}, but found the topic currently has 'cleanup.policy={policy}'. "
                f"Continuing would likely result in eventually losing {self.purpose} and problems "
                f"restarting this Connect cluster in the future. Change the '{self.key}' property "
                "in the Connect worker configurations to use a topic with 'cleanup.policy=compact'."
            )
            raise Failed(Diagnostic("topic.not-compacted", text))


class Fenced(Failed):
    """A newer writer with the same transactional id exists; this one can never write again."""


class WriteFailed(Failed):
    """Nothing was written; the transaction was aborted and the write may be retried."""


class WriteRefused(WriteFailed):
    """Kafka refuses these records, for example for their size: nothing was written, and a retry
    fails too."""


class OffsetsNotWritten(WriteFailed):
    """A standalone worker's offset file cannot be written: it is as before, and the write may be
    retried."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A status that was not written, with the reason. `passing`: the same write may succeed
    later."""

    why: str
    passing: bool


class WriteInDoubt(WriteFailed):
    """Kafka did not report whether the transaction was committed. The next writer of the same
    transactional id settles it: open that writer, then read to the end."""


class LogBlocked(ConnectError):
    """A transaction that stays open hides records that a read to the end must see."""


class LogReader(Protocol):
    """Reads one topic, from its beginning, in offset order within each partition."""

    def poll(self) -> Sequence[LogRecord]:
        """Returns records that arrived since the last call, without waiting. May be empty."""
        ...

    def read_to_end(self, timeout_s: float) -> Sequence[LogRecord]:
        """Returns all records since the last call, up to the current end.

        Waits for transactions that are open now to end. Raises LogBlocked naming topic, partition
        and offset after `timeout_s`.
        """
        ...

    @property
    def positions(self) -> Mapping[int, int]:
        """Returns of each partition the offset of the next record to read, of a reader of one
        topic: of committed records, so never one behind an open transaction."""
        ...

    @property
    def led_anew(self) -> bool:
        """Returns whether a partition has another leader than at the first read to the end, or ends
        before what was read. It may lack records that were read, or be that of a recreated
        topic, and this reader misses others in their place."""
        ...

    def read_available(self, timeout_s: float) -> Sequence[LogRecord]:
        """Reads as read_to_end does, but leaves out partitions that have no leader, whose end is
        hidden by an open transaction, or that send nothing for a few seconds. `left_out` then has
        them."""
        ...

    @property
    def left_out(self) -> Mapping[tuple[str, int], str]:
        """Returns the partitions that `read_available` left out and that were not read since, and
        why."""
        ...

    def read_through(self, partition: int, offset: int, timeout_s: float) -> Sequence[LogRecord]:
        """Returns all records since the last call until `offset` of `partition` has been read."""
        ...

    def close(self) -> None: ...


class LogWriter(Protocol):
    """Writes in transactions, under one transactional id, over any topics of the cluster."""

    @property
    def usable(self) -> bool: ...

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        """Writes all of `records` or none, and returns them with partitions and offsets.

        Raises Fenced, or WriteFailed. `usable` is False when only a new writer can continue.
        """
        ...

    def close(self) -> None: ...


def unread_text(left_out: Mapping[tuple[str, int], str]) -> str | None:
    """Says which partitions a reader left out; None if there are none."""
    if not left_out:
        return None
    (topic, number), reason = next(iter(left_out.items()))
    count = len(left_out) - 1
    return f"{topic}-{number}: {reason}" + (f", and {count} more partitions" if count else "")


class BackgroundWriter(Protocol):
    """Writes records outside of transactions, each key's newest, and retries until Kafka has them.
    Nothing waits for it, and a partition that cannot be written holds up no other."""

    @property
    def problem(self) -> str | None:
        """Returns which partition cannot be written now, and why."""
        ...

    def write(self, records: Sequence[NewRecord]) -> None:
        """Takes records, to be written soon. Neither waits nor fails. A removal and the value that
        follows it are both written."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Returns whether everything is written, once each record was or has failed; after the
        timeout at the latest."""
        ...

    def drop(self) -> None:
        """Gives up what is not written yet."""
        ...

    def close(self) -> None:
        """Ends the writer, with what is not written."""
        ...


class Logs(Protocol):
    """Opens readers and writers on one Kafka cluster, and creates topics."""

    def cluster_id(self) -> str:
        """Returns the Kafka cluster's id. Raises Unreachable."""
        ...

    def reader(self, topic: str) -> LogReader: ...

    def writer(self, transactional_id: str) -> LogWriter:
        """Opens a writer and fences every earlier writer of `transactional_id`."""
        ...

    def background_writer(self) -> BackgroundWriter: ...

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fences every earlier writer of these ids and aborts its open transactions."""
        ...

    def ensure_compacted(self, topic: InternalTopic) -> None:
        """Creates the topic, compacted, or checks that it is. Raises Failed with Connect's text."""
        ...

    def close(self) -> None: ...


def ensure_own_offsets_topic(logs: Logs, clients: ConnectorClients) -> None:
    """Creates a source's own offsets topic with the same shape as the worker's (KIP-618). Raises
    ConnectError."""
    shape = clients.new_offsets_topic
    logs.ensure_compacted(
        InternalTopic(
            clients.place.topic,
            shape.partitions,
            "source connector offsets",
            OFFSETS_TOPIC_KEY,
            shape.replication_factor,
            shape.config,
        )
    )
