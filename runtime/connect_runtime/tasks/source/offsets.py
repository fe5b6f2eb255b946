"""Reads a source task's offsets at its start, and tracks those of records that it sends.

Most connectors keep their offsets in the worker's topic. The others have a topic of their own
layered over it (KIP-618): created here if it does not exist, read with the connector's clients, and
copied to the worker's topic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError, KafkaException

from connect_runtime.api import (
    ConnectorError,
    SourceBatch,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    SourceTask,
)
from connect_runtime.java.offset_bytes import offset_key_bytes, offset_value_bytes
from connect_runtime.kafka import clients as kafka_clients
from connect_runtime.kafka.errors import reason
from connect_runtime.kafka.log import KafkaLogs, connector_logs
from connect_runtime.kafka.topics import NewTopics
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage.log import NewRecord, ensure_own_offsets_topic
from connect_runtime.storage.offsets_topic import (
    LayeredOffsets,
    check_map,
    offset_of,
    partition_keys,
    reduce_all,
    source_partition_key,
    subject,
)
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_runtime.tasks.kafka_failures import kafka_may_interrupt
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.desired import PartitionKey, partition_key

_log = logging.getLogger(__name__)

_READ_S: Final = 60.0
_REMOVED_S: Final = 30.0
_CLOSE_S: Final = 2.0
_COPY_SETTINGS: Final = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    # undelivered copies must not pile up
    "queue.buffering.max.messages": 10_000,
    "message.timeout.ms": 25_000,
}


def read_layers(
    clients: ConnectorClients, read_worker_topic: Callable[[], OffsetSnapshot]
) -> LayeredOffsets:
    """Returns all committed offsets of the task's connector, up to its topics' current ends.

    Raises ConnectError; LogBlocked if an open transaction hides the end.
    """
    place, name = clients.place, clients.name
    if place.underneath is None and not clients.own_offsets_login:
        return LayeredOffsets(name, place.topic, read_worker_topic())
    logs = connector_logs(clients)
    try:
        if place.underneath is not None:
            ensure_own_offsets_topic(logs, clients)
        own = _read(logs, place.topic)
        if place.underneath is None or _is_workers_topic(logs, clients):
            return LayeredOffsets(name, place.topic, own)
    finally:
        logs.close()
    return LayeredOffsets(name, place.topic, own, place.underneath, read_worker_topic())


def _read(logs: KafkaLogs, topic: str) -> OffsetSnapshot:
    reader = logs.reader(topic)
    try:
        return reduce_all(OffsetSnapshot(), reader.read_to_end(_READ_S))
    finally:
        reader.close()


def has_own_offsets_topic(clients: ConnectorClients) -> bool:
    """Returns whether a topic of offsets lies over the worker's. Raises ConnectError."""
    if clients.place.underneath is None:
        return False
    logs = connector_logs(clients)
    try:
        return not _is_workers_topic(logs, clients)
    finally:
        logs.close()


def _is_workers_topic(logs: KafkaLogs, clients: ConnectorClients) -> bool:
    """Returns True if another address is the worker's own topic."""
    place = clients.place
    if not place.elsewhere or place.topic != place.underneath:
        return False
    worker = KafkaLogs(clients.worker_client())
    try:
        return logs.cluster_id() == worker.cluster_id()
    finally:
        worker.close()


class TaskOffsets:
    """The offsets of one connector as its task sees them: an `OffsetStorageReader`.

    They are the offsets committed before the task started and by it since; never offsets that are
    only sent. A partition that has a record is written under that record's own key bytes, since
    Connect compares keys byte by byte; a new one under the bytes that Connect would make.
    """

    def __init__(self, connector: str, topic: str, snapshot: OffsetSnapshot) -> None:
        self._connector = connector
        self._topic = topic
        self._snapshot = snapshot
        self._keys = partition_keys(snapshot, connector)
        self._committed: dict[bytes, bytes | None] = {}

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Returns the last committed offset."""
        check_map(partition)
        own = offset_key_bytes(self._connector, partition)
        for key in (own, *self._keys.get(self.key(partition), ())):
            if key in self._committed:
                value = self._committed[key]
                return None if value is None else orjson.loads(value)
        return offset_of(self._snapshot, self._connector, partition)

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """Returns the last committed offsets of several partitions."""
        return [self.offset(partition) for partition in partitions]

    def key(self, partition: SourcePartition) -> PartitionKey:
        """Returns the key that equal partitions share. Raises with Connect's text for invalid
        partitions."""
        check_map(partition)
        return source_partition_key(partition)

    def records(
        self, offsets: Iterable[tuple[SourcePartition, SourceOffset | None]]
    ) -> list[NewRecord]:
        """Returns the records to write; None removes an offset. Raises with Connect's text for
        invalid offset maps."""
        return [
            NewRecord(self._topic, key, offset_value_bytes(offset))
            for partition, offset in offsets
            for key in self._keys_of(partition, offset)
        ]

    def committed(self, records: Iterable[NewRecord]) -> None:
        """Applies records that are now committed."""
        for record in records:
            self._committed[record.key] = record.value

    def _keys_of(self, partition: Any, offset: Any) -> tuple[bytes, ...]:
        check_map(offset)
        key = self.key(partition)
        if key not in self._keys:
            self._keys[key] = (offset_key_bytes(self._connector, partition),)
        return self._keys[key]


class Uncommitted:
    """Collects what a task sent since its last commit, and calls the task's commit hooks.

    It keeps the offsets after the records, their topics, and the records themselves if the task has
    a hook for each. `waiting`: there is something, since `since` (monotonic seconds). `text`
    renders an error without secrets.
    """

    def __init__(
        self,
        name: str,
        task: SourceTask,
        offsets: TaskOffsets,
        text: Callable[[BaseException], str],
    ) -> None:
        self._name = name
        self._text = text
        self._task = task
        self._offsets = offsets
        self._moved: dict[str, tuple[SourcePartition, SourceOffset | None]] = {}
        self._sent: list[SourceRecord] = []
        self._committed: list[SourceRecord] = []  # their hooks are not called yet
        self._has_record_hook = type(task).commit_record is not SourceTask.commit_record
        self._hooks_due = False
        self.topics: set[str] = set()
        self.waiting = False
        self.since = 0.0

    def add(self, polled: Sequence[SourceRecord] | SourceBatch) -> None:
        """Adds what the task returned, after what of it is to be sent was sent."""
        if not polled:
            return
        if not self.waiting:
            self.waiting, self.since = True, time.monotonic()
        if isinstance(polled, SourceBatch):
            self._move(polled.source_partition, polled.last_offset)
        else:
            for partition, run in groupby(polled, attrgetter("source_partition")):
                moves = (r.source_offset for r in reversed(list(run)))
                self._move(partition, next((m for m in moves if m is not None), None))
        if self._has_record_hook:
            self._sent.extend(polled.records() if isinstance(polled, SourceBatch) else polled)

    def _move(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if offset is not None:
            # copies: a commit may come when the task has changed its own maps in its next poll
            self._moved[self._offsets.key(partition)] = (_copy(partition), _copy(offset))

    def aborted(self) -> None:
        """Drops the records of an aborted transaction, without hooks; the offsets after them
        stay."""
        self._sent.clear()
        self.topics.clear()

    def offsets(self, *, ask_task: bool) -> list[NewRecord]:
        """Returns the offsets to commit. With `ask_task` the task may change them first (KIP-910):
        offsets that it returns replace ours, and those that it omits stay. Raises what the task
        raises."""
        offsets = list(self._moved.values())
        changed = self._task.update_offsets(offsets) if ask_task else None
        for partition, offset in changed or ():
            self._moved[self._offsets.key(partition)] = (_copy(partition), _copy(offset))
        return self._offsets.records(self._moved.values())

    def committed(self, records: Sequence[NewRecord]) -> None:
        """Marks everything as committed, with these offsets."""
        self._offsets.committed(records)
        self._moved.clear()
        self.topics.clear()
        self.waiting = False
        self._committed += self._sent
        self._sent = []
        self._hooks_due = True

    def run_commit_hooks(self) -> None:
        """Calls the task's hooks for records committed since the last call. Logs their errors, as
        Connect does: the records are in Kafka regardless."""
        if not self._hooks_due:
            return
        self._hooks_due = False
        committed, self._committed = self._committed, []
        failures: list[Exception] = []
        for record in committed:
            try:
                self._task.commit_record(record)
            except Exception as error:
                failures.append(error)
        if failures:
            _log.error(
                "Task %s: commit_record failed for %d of %d records, first: %s",
                self._name,
                len(failures),
                len(committed),
                self._text(failures[0]),
            )
        try:
            self._task.commit()
        except Exception as error:
            _log.error("Task %s: commit failed: %s", self._name, self._text(error))


def _copy(content: Any) -> Any:
    """Returns a copy of a map; what is none is refused later, with Connect's text."""
    return dict(content) if isinstance(content, Mapping) else content


class SourceTopics:
    """Prepares a task's topics: creates those that it writes to with the connector's settings
    (KIP-158), and copies the offsets of a connector's own topic to the worker's.

    All methods raise Interrupted if Kafka is silent for too long.
    """

    def __init__(self, setup: TaskSetup, layers: LayeredOffsets) -> None:
        clients, creation = setup.source_clients, setup.topic_creation
        self._new = None if creation is None else NewTopics(clients.admin(), creation)
        worker_topic = layers.underneath
        self._copies = None
        if worker_topic is not None:
            self._copies = WorkerCopies(clients, layers, worker_topic)
        self._offsets = layers.topic if setup.exactly_once else None

    def prepare(self, topic: str) -> None:
        """Creates the topic if it is to be created here; call before sending records to it. Raises
        ConnectorError for a topic that records must not go to, or that cannot be created."""
        if topic == self._offsets:
            raise ConnectorError(
                "Source tasks may not produce to their own offsets topics when exactly-once"
                " support is enabled"
            )
        if self._new is not None:
            with kafka_may_interrupt():
                self._new.ensure(topic)

    def before_commit(self, offsets: Sequence[NewRecord]) -> None:
        """Removes offsets from the worker's topic that are about to be removed."""
        if self._copies is not None:
            with kafka_may_interrupt():
                self._copies.remove(offsets)

    def after_commit(self, offsets: Sequence[NewRecord]) -> None:
        """Copies offsets that were committed."""
        if self._copies is not None:
            self._copies.copy(offsets)

    def close(self) -> None:
        """Waits a moment for copies in progress."""
        if self._copies is not None:
            self._copies.close()


class WorkerCopies:
    """Copies the records of a connector's own offsets topic to the worker's topic (KIP-618).

    A removal is written there before the task commits it: otherwise the worker's topic would still
    show the offset. Everything else is copied after the commit and may get lost, since the
    connector's own topic wins. Written with the worker's login, by a producer without transactions.
    """

    def __init__(self, clients: ConnectorClients, layers: LayeredOffsets, topic: str) -> None:
        self._topic = topic
        self._connector = clients.name
        # a partition that is in the worker's topic has its key bytes there
        self._keys = partition_keys(layers.copied, clients.name)
        self._producer = kafka_clients.producer(clients.worker_client(), _COPY_SETTINGS)
        self._failure_logged = False

    def remove(self, records: Iterable[NewRecord]) -> None:
        """Writes the tombstones among these; call before they are committed.

        Raises KafkaException unless all are in Kafka.
        """
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failed.append(error)

        tombstones = [record for record in records if record.value is None]
        for record in tombstones:
            self._produce(record, delivered)
        if tombstones and self._producer.flush(_REMOVED_S):
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))
        if failed:
            raise KafkaException(failed[0])

    def copy(self, records: Iterable[NewRecord]) -> None:
        """Copies all but tombstones; call after they were committed. Never waits, and never raises
        for Kafka."""
        self._producer.poll(0)
        for record in records:
            if record.value is None:
                continue
            try:
                self._produce(record, self._delivered)
            except (BufferError, KafkaException) as error:
                self._log_first(str(error))

    def close(self) -> None:
        """Waits a moment for copies in progress, and drops the others."""
        self._producer.flush(_CLOSE_S)
        # its own close() would wait for as long as a message may take
        del self._producer

    def _produce(self, record: NewRecord, delivered: Any) -> None:
        key_parts = subject(record.key)
        keys = () if key_parts is None else self._keys.get(partition_key(key_parts[1]), ())
        for key in keys or (record.key,):
            self._producer.produce(self._topic, record.value, key, on_delivery=delivered)

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._log_first(reason(error))

    def _log_first(self, text: str) -> None:
        if not self._failure_logged:
            self._failure_logged = True
            _log.warning("Offsets of %s are not copied to the worker's: %s", self._connector, text)
