"""Follows in the assignments topic what an attempt must do, with clients of the task's own.

An attempt runs only while the newest record of its task names it. While it runs, one small consumer
tails the topic; before it starts, a short-lived one reads topics to their ends, with short waits:
it sees the end of a topic within milliseconds, which the long-lived one must not do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Final, Protocol

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import END_OF_PARTITION, SILENT, as_failure, error_of
from connect_runtime.kafka.log_reader import record_of
from connect_runtime.kafka.topics import ends_now
from connect_runtime.node.following import SMALL_CONSUMER, UNUSED_GROUP
from connect_runtime.storage import assignments_topic, offsets_topic
from connect_runtime.storage.log import LogBlocked, LogRecord
from connect_runtime.storage.snapshots import AssignmentSnapshot, OffsetSnapshot
from connect_runtime.tasks.kafka_failures import kafka_may_interrupt
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.diagnostics import Diagnostic
from connect_specs.states import TargetState

_FAST_CONSUMER: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 5,
    "fetch.queue.backoff.ms": 5,
    "group.id": UNUSED_GROUP,
}
# Longer than the default transaction timeout, plus the time that Kafka takes to notice.
_SILENCE_S: Final = 75.0
_ASK_S: Final = 5.0
_BATCH: Final = 1_000  # ten times as many cost twice the time: they leave the processor's cache
_WAIT_S: Final = 0.005
# librdkafka looks for the coordinator of the unused group, even if that is not permitted
_PASSING: Final = SILENT | {KafkaError.GROUP_AUTHORIZATION_FAILED}
_STOP_CHECK_S: Final = 0.2


class DesiredTaskState(Enum):
    """The state that an attempt is to have."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"
    SUPERSEDED = "superseded"  # another attempt has the task: do not even clean up in Kafka
    ORPHANED = "orphaned"  # the runtime that launched the attempt is gone

    @property
    def end(self) -> AttemptEnd | None:
        """Returns the end that the attempt must come to; None if it goes on."""
        ends = {
            DesiredTaskState.STOP: AttemptEnd.STOPPED,
            DesiredTaskState.SUPERSEDED: AttemptEnd.SUPERSEDED,
            DesiredTaskState.ORPHANED: AttemptEnd.ORPHANED,
        }
        return ends.get(self)


class AttemptAssignment:
    """Reduces assignment records to the desired state of one attempt, by the newest of them.

    Once `orphaned()`, that is the state. `repeated` is called for each further record that names
    the attempt. `offset` is the next one to read.
    """

    def __init__(
        self,
        setup: TaskSetup,
        orphaned: Callable[[], bool] = lambda: False,
        repeated: Callable[[], None] = lambda: None,
    ) -> None:
        self._id = setup.id
        self._attempt = setup.attempt
        self._key = str(setup.id).encode()
        self._snapshot = AssignmentSnapshot()
        self._was_named = False
        self._orphaned = orphaned
        self._repeated = repeated
        self._newest = DesiredTaskState.SUPERSEDED
        self.offset = setup.assignments_offset

    @property
    def desired(self) -> DesiredTaskState:
        """Returns the state that the attempt is to have now."""
        return DesiredTaskState.ORPHANED if self._orphaned() else self._newest

    def apply(self, records: Iterable[LogRecord]) -> DesiredTaskState:
        """Applies further records of the assignments topic."""
        for record in records:
            self.offset = record.offset + 1
            if record.key != self._key:
                continue
            self._snapshot = assignments_topic.reduce_all(self._snapshot, (record,))
            was_named, self._was_named = self._was_named, True
            self._newest = self._wanted_by_leader()
            if was_named and self._newest.end is None:
                self._repeated()
        return self.desired

    def apply_unread(self, records: Iterable[LogRecord]) -> DesiredTaskState:
        """Applies those of these records that are at or after `offset`."""
        return self.apply(record for record in records if record.offset >= self.offset)

    def _wanted_by_leader(self) -> DesiredTaskState:
        assignment = self._snapshot.tasks.get(self._id)
        if assignment is None:
            return DesiredTaskState.STOP
        if assignment.attempt != self._attempt:
            return DesiredTaskState.SUPERSEDED
        match assignment.state:
            case TargetState.RUNNING:
                return DesiredTaskState.RUN
            case TargetState.PAUSED:
                return DesiredTaskState.PAUSE
            case TargetState.STOPPED:
                return DesiredTaskState.STOP


class AssignmentFollower(Protocol):
    """Follows the desired state of an attempt. Raises Interrupted."""

    def desired(self, wait_s: float = 0.0) -> DesiredTaskState:
        """Returns the newest state; waits up to `wait_s` for records if there are none."""
        ...

    def close(self) -> None: ...


class KafkaFollower:
    """Tails the assignments topic from the position of `assignment`: an AssignmentFollower."""

    def __init__(self, setup: TaskSetup, assignment: AttemptAssignment) -> None:
        self._assignment = assignment
        properties = setup.worker_client(f"assignments-{setup.id}")
        self._consumer = clients.consumer(properties, SMALL_CONSUMER)
        self._consumer.assign([TopicPartition(setup.topics.assignments, 0, assignment.offset)])

    def desired(self, wait_s: float = 0.0) -> DesiredTaskState:
        message = self._consumer.poll(wait_s)
        while message is not None:
            error = message.error()
            if error is None:
                self._assignment.apply([record_of(message)])
            elif error.fatal():  # does not pass by itself, such as a deleted topic
                raise KafkaException(error)
            message = self._consumer.poll(0)
        return self._assignment.desired

    def close(self) -> None:
        self._consumer.close()


class RetryWait:
    """Waits before retries of a record, and notices when the attempt is to end.

    `follow` sets where that is seen; before, nothing waits.
    """

    def __init__(self) -> None:
        self._ends: Callable[[float], bool] | None = None

    def follow(self, follower: AssignmentFollower) -> None:
        """Notices from now on that the attempt is to end."""
        self._ends = lambda wait_s: follower.desired(wait_s).end is not None

    def __call__(self, seconds: float) -> bool:
        """Waits. Returns False at once if the task is to end."""
        assert self._ends is not None
        deadline = time.monotonic() + seconds
        while True:
            left_s = deadline - time.monotonic()
            if self._ends(max(0.0, min(left_s, _STOP_CHECK_S))):
                return False
            if left_s <= 0:
                return True


class StartReader:
    """Reads the cluster's topics to their ends, committed records only: a TopicsReader.

    Raises Interrupted if Kafka is silent or an open transaction hides the end.
    """

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        properties = setup.worker_client("start")
        self._consumer = clients.consumer(properties, _FAST_CONSUMER)
        self._admin = clients.admin(properties)
        self._closed = False

    def read_assignment(self, assignment: AttemptAssignment) -> DesiredTaskState:
        """Reads the assignments up to the current end."""
        topic = self._setup.topics.assignments
        with kafka_may_interrupt():
            messages = self._to_end([TopicPartition(topic, 0, assignment.offset)])
            return assignment.apply(map(record_of, messages))

    def source_offsets(self) -> OffsetSnapshot:
        """Returns the offsets of this task's connector, up to the current end."""
        with kafka_may_interrupt():
            return self._source_offsets()

    def _source_offsets(self) -> OffsetSnapshot:
        topic = self._setup.topics.offsets
        metadata = self._consumer.list_topics(topic, timeout=_SILENCE_S).topics[topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        own_prefix = f'["{self._setup.id.connector}",'.encode()
        starts = [TopicPartition(topic, number, 0) for number in metadata.partitions]
        # A record of another connector costs one look at its key. The codec decides keys with
        # spaces or escapes.
        records = [
            record_of(message)
            for message in self._to_end(starts)
            if (key := message.key()) is not None
            and (key.startswith(own_prefix) or b"\\" in key or not key.startswith(b'["'))
        ]
        return offsets_topic.reduce_all(OffsetSnapshot(), records)

    def _to_end(self, starts: list[TopicPartition]) -> Iterator[Any]:
        """Yields all messages up to the current ends, as long as there is progress.

        The ends count records of open transactions: one that is still open hides what was committed
        after it. They are asked for, and not taken from the answers to fetches: a new leader sends
        records before it knows how far they were committed (KIP-207).
        """
        ends = ends_now(self._admin, starts, IsolationLevel.READ_UNCOMMITTED)
        self._consumer.assign(starts)
        reached = {(start.topic, start.partition): start.offset for start in starts}
        deadline = time.monotonic() + _SILENCE_S
        while behind := [at for at, end in ends.items() if reached[at] < end.offset]:
            if time.monotonic() > deadline:
                raise self._stuck(*behind[0], reached[behind[0]])
            messages = self._consumer.consume(_BATCH, _WAIT_S)
            if messages:
                deadline = time.monotonic() + _SILENCE_S
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == END_OF_PARTITION:
                    reached[message.topic(), message.partition()] = message.offset()
                elif error.code() not in _PASSING:
                    raise as_failure(error, "The topic cannot be read", message.topic())
        self._consumer.unassign()

    def _stuck(self, topic: str, partition: int, offset: int) -> Exception:
        """Returns the reason that nothing arrives: Kafka is silent, or a transaction is open."""
        try:
            self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ASK_S)
        except KafkaException as error:
            return as_failure(error_of(error), "The topic cannot be read", topic)
        return LogBlocked(
            Diagnostic(
                code="log.blocked",
                what=f"an open transaction at offset {offset} hides what follows it",
                where=f"{topic}-{partition}",
                hint="its writer was killed or hangs; it times out by itself",
            )
        )

    def close(self) -> None:
        """Closes the consumer; may be called repeatedly."""
        if not self._closed:
            self._closed = True
            self._consumer.close()
