"""Logs on a real Kafka cluster over librdkafka: implements `storage.log.Logs`.

Opens readers and writers, fences, and creates topics. Thread-safe, but a reader or writer that it
opened belongs to one thread at a time. Closing it closes what it opened.

A writer writes in transactions, as the newest one of a transactional id: opening it fences every
earlier one. A write is one transaction: committed as a whole, or aborted. A writer that was fenced,
or whose transaction's result is unknown, never writes again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, NoReturn
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from connect_runtime.kafka.background_writer import KafkaBackgroundWriter
from connect_runtime.kafka.clients import admin, check_login, check_reachable, meet_broker, producer
from connect_runtime.kafka.errors import (
    FENCED,
    NO_SUCH_TOPIC,
    RECORD_REFUSED,
    REFUSED,
    SILENT,
    as_failure,
    error_of,
    reason,
)
from connect_runtime.kafka.kafka_logging import logged
from connect_runtime.kafka.librdkafka import MARGIN_S, gather_answers
from connect_runtime.kafka.log_reader import KafkaLogReader
from connect_runtime.kafka.topics import create_topic, describe_topics
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage.log import (
    Fenced,
    InternalTopic,
    LogRecord,
    NewRecord,
    WriteFailed,
    WriteInDoubt,
    WriteRefused,
    unread_text,
)
from connect_runtime.waiting import wait_until
from connect_specs.diagnostics import Diagnostic, Failed, Unreachable

# Codes of errors of a Kafka that is starting
TOPIC_NOT_READY: Final = "topic.not-ready"
TOO_FEW_BROKERS: Final = "topic.too-few-brokers"
_FENCED_AT_ONCE = 8
_REQUEST_S = 10.0
# Brokers of a busy cluster learn of a new topic late
_NEW_TOPIC_S = 60.0
_POLL_S = 0.02


def connector_logs(clients: ConnectorClients) -> KafkaLogs:
    """Returns logs on a connector's cluster, through the connector's clients."""
    return KafkaLogs(
        clients.admin(), consumer=clients.offsets_consumer(), producer=clients.offsets_producer()
    )


class ReadTopics(NamedTuple):
    """Records by topic, and by topic why some of its partitions were not read."""

    records: dict[str, list[LogRecord]]
    unread: dict[str, str]


class KafkaLogs:
    """Logs on the cluster of `properties`, under Java's names. Readers and writers may have their
    own properties."""

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        consumer: Mapping[str, str] | None = None,
        producer: Mapping[str, str] | None = None,
    ) -> None:
        self._properties = dict(properties)
        self._consumer = self._properties if consumer is None else dict(consumer)
        self._producer = self._properties if producer is None else dict(producer)
        self._admin: AdminClient = admin(self._properties)
        self._opened: WeakSet[KafkaLogReader | KafkaLogWriter | KafkaBackgroundWriter] = WeakSet()

    def cluster_id(self) -> str:
        return check_reachable(self._properties)

    @logged("describe topic", "topic")
    def identity(self, topic: str) -> tuple[str, int]:
        """Returns the topic's id, another one once it is recreated, and its number of partitions.
        Raises ConnectError if it cannot be read or does not exist."""
        answer = describe_topics(self._admin, [topic], _REQUEST_S)[topic]
        if isinstance(answer, KafkaError):
            raise as_failure(answer, "The topic cannot be read", topic)
        return str(answer.topic_id), len(answer.partitions)

    def reader(self, topic: str) -> KafkaLogReader:
        """Opens a reader at the topic's beginning. Raises Failed if the topic does not exist."""
        partitions = self._partitions(topic)
        if not partitions:
            raise Failed(Diagnostic("topic.missing", "There is no such topic", topic))
        reader = KafkaLogReader(self._consumer, {topic: partitions}, self._admin)
        self._opened.add(reader)
        return reader

    def read_to_ends(
        self, topics: Sequence[str], timeout_s: float, as_available: Collection[str] = ()
    ) -> ReadTopics:
        """Reads these topics from their beginnings to their ends, with one consumer. Topics that do
        not exist are left out, and so are partitions of those of `as_available` that cannot be
        read. Raises as a reader's read_to_end does for others."""
        partitions = self._partitions_of(topics)
        result = ReadTopics({topic: [] for topic in partitions}, {})
        if not partitions:
            return result
        reader = KafkaLogReader(self._consumer, partitions, self._admin)
        try:
            records = reader.read_available(timeout_s)
            required = [topic for topic, _ in reader.left_out if topic not in as_available]
            if required:
                records = [*records, *reader.read_to_end(timeout_s, required)]
            for record in records:
                result.records[record.topic].append(record)
            for topic in as_available:
                left_out = {at: reason for at, reason in reader.left_out.items() if at[0] == topic}
                if (reason := unread_text(left_out)) is not None:
                    result.unread[topic] = reason
        finally:
            reader.close()
        return result

    def writer(self, transactional_id: str) -> KafkaLogWriter:
        writer = KafkaLogWriter(self._producer, transactional_id)
        self._opened.add(writer)
        return writer

    def background_writer(self) -> KafkaBackgroundWriter:
        writer = KafkaBackgroundWriter(self._producer)
        self._opened.add(writer)
        return writer

    def fence(self, transactional_ids: Sequence[str]) -> None:
        def end_earlier_writers(transactional_id: str) -> None:
            KafkaLogWriter(self._producer, transactional_id).close()

        if len(transactional_ids) == 1:
            end_earlier_writers(transactional_ids[0])
        elif transactional_ids:
            threads = min(_FENCED_AT_ONCE, len(transactional_ids))
            with ThreadPoolExecutor(threads, thread_name_prefix="fence") as pool:
                # the list raises the first error
                list(pool.map(end_earlier_writers, transactional_ids))

    def ensure_compacted(self, topic: InternalTopic) -> None:
        """Creates the topic, compacted, or checks that it is. Raises Failed with Connect's text."""
        numbers = self._partitions(topic.name)
        if not numbers and self._create(topic):
            return
        numbers = numbers or self._wait_for_partitions(topic.name)
        topic.check_partitions(len(numbers))
        policy = self.cleanup_policy(topic.name)
        if policy is not None:
            topic.check_compacted(policy)

    def close(self) -> None:
        for opened in list(self._opened):
            opened.close()
        self._opened.clear()

    def _partitions(self, topic: str) -> tuple[int, ...]:
        """Returns the topic's partitions, none if it does not exist."""
        return self._partitions_of([topic]).get(topic, ())

    @logged("describe topic", "topics")
    def _partitions_of(self, topics: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Returns the partitions of those topics that exist."""
        partitions: dict[str, tuple[int, ...]] = {}
        for topic, answer in describe_topics(self._admin, topics, _REQUEST_S).items():
            if not isinstance(answer, KafkaError):
                partitions[topic] = tuple(sorted(partition.id for partition in answer.partitions))
            elif answer.code() not in NO_SUCH_TOPIC:
                raise as_failure(answer, "The topic's partitions cannot be read", topic)
        return partitions

    @logged("create topic", "topic")
    def _create(self, topic: InternalTopic) -> bool:
        """Creates the topic. Returns False if it already exists."""
        request = NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config={**topic.config, "cleanup.policy": "compact"},
        )
        error = create_topic(self._admin, request, _REQUEST_S)
        if error is None:
            self._wait_for_partitions(topic.name)
            return True
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        problem = "The topic cannot be created"
        if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
            hint = f"Start the other brokers, or set {topic.replication_key} to a smaller number."
            raise Failed(Diagnostic(TOO_FEW_BROKERS, problem, topic.name, reason(error), hint))
        raise as_failure(error, problem, topic.name)

    def _wait_for_partitions(self, topic: str) -> tuple[int, ...]:
        """Waits for the new topic's partitions: other brokers learn of it a moment later."""
        partitions = wait_until(lambda: self._partitions(topic), _NEW_TOPIC_S, every_s=_POLL_S)
        if not partitions:
            problem = "The topic's partitions are not available"
            raise Unreachable(Diagnostic(TOPIC_NOT_READY, problem, topic))
        return partitions

    @logged("describe the settings of topic", "topic")
    def cleanup_policy(self, topic: str) -> str | None:
        """Returns the topic's cleanup policy; None if this login may not read it: like Connect, we
        then trust the topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        futures = self._admin.describe_configs([resource], request_timeout=_REQUEST_S)
        answer = gather_answers(futures, _REQUEST_S + MARGIN_S, self._admin)[resource]
        if not isinstance(answer, KafkaError):
            return str(answer["cleanup.policy"].value)
        if answer.code() in REFUSED:
            return None
        raise as_failure(answer, "The topic's settings cannot be read", topic)


_log = logging.getLogger(__name__)

_TRANSACTION_TIMEOUT_MS = 10_000
_INIT_S = 30.0
_WRITE_S = 30.0
_ABORT_S = 10.0
_METADATA_S = 10.0
_LOGIN_S = 3.0
_SETTINGS = {
    # A killed writer's open transaction hides later records for so long.
    "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "reconnect.backoff.ms": 1,
}


class KafkaLogWriter:
    """Implements LogWriter. Belongs to one thread at a time."""

    @logged("start to write as", "transactional_id")
    def __init__(self, properties: Mapping[str, str], transactional_id: str) -> None:
        self._id = transactional_id
        self._usable = True
        self._fenced = False
        # Records of the last write that were not delivered, with errors
        self._undelivered: list[tuple[KafkaError, Message]] = []
        self._producer: Producer = producer(
            properties, {**_SETTINGS, "transactional.id": transactional_id}
        )
        try:
            meet_broker(self._producer, _METADATA_S)
            self._producer.init_transactions(_INIT_S)
        except KafkaException as exception:
            self._usable = False
            error = error_of(exception)
            if error.code() in SILENT:
                # a refused login makes calls time out without a reason
                check_login(properties, _LOGIN_S)
            raise as_failure(error, "Earlier writers cannot be fenced", transactional_id) from None

    @property
    def usable(self) -> bool:
        """Returns False once it cannot write any more; a new writer of the same id may be able
        to."""
        return self._usable

    @logged("write to topic", "records")
    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        if self._fenced:
            raise self._fenced_error()
        if not self._usable:
            raise WriteFailed(Diagnostic("write.writer-ended", "This writer has ended", self._id))
        if not records:
            return ()
        deadline = time.monotonic() + _WRITE_S
        delivered: dict[int, Message] = {}
        self._undelivered = []
        try:
            self._producer.begin_transaction()
            for number, record in enumerate(records):
                self._produce(number, record, delivered, deadline)
            self._producer.flush(_remaining_s(deadline))
        except KafkaException as error:
            self._abort(error_of(error))
        except SystemError:
            # The client library lost a fatal error: the commit raises it again
            _log.debug("An error of %s was lost", self._id)
        except BaseException:
            # interrupted: open records must not be committed with the next write
            self._usable = False
            raise
        self._commit(deadline)
        # reports that the flush had no time for
        self._producer.poll(0)
        return [_as_read(record, delivered[number]) for number, record in enumerate(records)]

    def close(self) -> None:
        # An unusable producer is only dropped: closing it would try to abort, and log errors.
        if self._usable:
            self._usable = False
            self._producer.close()
        # At once, even if a traceback still has this writer: tasks/source/transactions.py says why
        self.__dict__.pop("_producer", None)

    def _produce(
        self, number: int, record: NewRecord, delivered: dict[int, Message], deadline: float
    ) -> None:
        undelivered = self._undelivered

        def note(error: KafkaError | None, message: Message) -> None:
            # An error is raised again when the transaction is committed. Its methods must not be
            # called here: a fatal one may be set already
            if error is None:
                delivered[number] = message
            else:
                undelivered.append((error, message))

        while True:
            try:
                self._producer.produce(
                    record.topic, key=record.key, value=record.value, on_delivery=note
                )
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)) from None
                self._producer.poll(0.05)

    def _commit(self, deadline: float) -> None:
        while True:
            try:
                self._producer.commit_transaction(_remaining_s(deadline))
                return
            except SystemError:
                if time.monotonic() > deadline:
                    self._usable = False
                    raise
            except KafkaException as exception:
                error = error_of(exception)
                if error.retriable() and time.monotonic() < deadline:
                    continue
                if error.code() in FENCED or error.txn_requires_abort():
                    self._abort(error)
                self._usable = False
                raise WriteInDoubt(
                    Diagnostic(
                        "write.in-doubt",
                        "Kafka did not report whether the write was committed",
                        self._id,
                        self._why(error),
                    )
                ) from None

    def _abort(self, error: KafkaError) -> NoReturn:
        """Aborts the transaction."""
        if error.code() not in FENCED and not error.fatal():
            try:
                self._producer.abort_transaction(_ABORT_S)
            except KafkaException as exception:
                # the broker aborts it after its timeout
                self._usable = False
                error = error_of(exception) if error_of(exception).code() in FENCED else error
        if error.code() in FENCED:
            self._usable, self._fenced = False, True
            raise self._fenced_error() from None
        refused = error.code() in RECORD_REFUSED
        # a refused record leaves a gap in the producer's sequence, and its next write fails
        left_a_gap = refused and error.txn_requires_abort()
        self._usable = self._usable and not error.fatal() and not left_a_gap
        if refused:
            problem = "Kafka refuses this record"
            raise WriteRefused(
                Diagnostic("write.refused", problem, self._id, reason(error))
            ) from None
        raise WriteFailed(
            Diagnostic("write.failed", "Nothing was written", self._id, self._why(error))
        ) from None

    def _why(self, error: KafkaError) -> str:
        """Returns the reason; the transaction's own is often only that a record failed."""
        if not self._undelivered:
            return reason(error)
        failed, message = self._undelivered[0]
        return f"{message.topic()}-{message.partition()}: {reason(failed)}"

    def _fenced_error(self) -> Fenced:
        return Fenced(Diagnostic("write.fenced", "A newer writer has taken over", self._id))


def _remaining_s(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _as_read(record: NewRecord, message: Message) -> LogRecord:
    return LogRecord(
        topic=record.topic,
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=record.key,
        value=record.value,
    )
