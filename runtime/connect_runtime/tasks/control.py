"""Follows what the leader wants of this attempt, in the assignments topic.

With one small consumer, where no process does so for all tasks of a node (`node_topics.py`). An
attempt runs only while the newest record of its task names it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from connect_runtime.kafka import clients
from connect_runtime.kafka.log_reader import record_of
from connect_runtime.storage.assignments_topic import reduce
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import AssignmentSnapshot
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.states import TargetState


class Wanted(Enum):
    """What an attempt must do. The last two end it."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"
    NOTHING = "nothing"  # another attempt has the task: do not even clean up in Kafka


class Orders:
    """Reduces assignment records to what one attempt must do: `wanted`, by the newest of them.
    `repeated` is called for each further record that names the attempt."""

    def __init__(self, setup: TaskSetup, repeated: Callable[[], None] = lambda: None) -> None:
        self._id = setup.id
        self._attempt = setup.attempt
        self._key = str(setup.id).encode()
        self._snapshot = AssignmentSnapshot()
        self._told = False
        self._repeated = repeated
        self.offset = setup.assignments_offset
        self.wanted = Wanted.NOTHING

    def take(self, record: LogRecord) -> None:
        """Applies one more record of the assignments topic."""
        self.offset = record.offset + 1
        if record.key != self._key:
            return
        self._snapshot = reduce(self._snapshot, record)
        was_told, self._told = self._told, True
        self.wanted = self._newest()
        if was_told and self.wanted not in (Wanted.STOP, Wanted.NOTHING):
            self._repeated()

    def _newest(self) -> Wanted:
        assignment = self._snapshot.tasks.get(self._id)
        if assignment is None:
            return Wanted.STOP
        if assignment.attempt != self._attempt:
            return Wanted.NOTHING
        match assignment.state:
            case TargetState.RUNNING:
                return Wanted.RUN
            case TargetState.PAUSED:
                return Wanted.PAUSE
            case TargetState.STOPPED:
                return Wanted.STOP


# librdkafka requires a group; with manual assignment and no commits it is never used
UNUSED_GROUP: Final = "connect-log-reader"
SMALL: Final = {
    "group.id": UNUSED_GROUP,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    # the broker answers at once when it has records: this only bounds idle requests
    "fetch.wait.max.ms": 2_000,
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 256,
    "fetch.message.max.bytes": 65_536,
}


class Control:
    """Tails the assignments topic from the position of `orders`."""

    def __init__(self, setup: TaskSetup, orders: Orders) -> None:
        self._orders = orders
        properties = setup.worker_client(f"assignments-{setup.id}")
        self._consumer = clients.consumer(properties, SMALL)
        self._consumer.assign([TopicPartition(setup.topics.assignments, 0, orders.offset)])

    def wanted(self, wait_s: float = 0.0) -> Wanted:
        """Returns what to do now; waits up to `wait_s` for records if there are none."""
        message = self._consumer.poll(wait_s)
        while message is not None:
            _check(message.error())
            if message.error() is None:
                self._orders.take(record_of(message))
            message = self._consumer.poll(0)
        return self._orders.wanted

    def close(self) -> None:
        self._consumer.close()


def _check(error: KafkaError | None) -> None:
    """Raises errors that do not pass by themselves, such as a deleted topic; they end the
    attempt."""
    if error is not None and error.fatal():
        raise KafkaException(error)
