"""What a source's writers make of errors that Kafka's client tells while nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from connect_runtime.api import ConnectorError
from connect_runtime.errors.handler import ErrorHandler
from connect_runtime.kafka import clients
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import Fenced, NewRecord
from connect_runtime.tasks.kafka_failures import Interrupted, SendFailures
from connect_runtime.tasks.source import transactions
from connect_runtime.tasks.source.plain_writer import PlainWriter, RefusedRecords
from connect_runtime.tasks.source.transactions import Transactions
from connect_runtime.tasks.source.writer import Messages, SourceWriter
from support.task_setups import task_setup

SETUP = task_setup("src", worker={"bootstrap.servers": "127.0.0.1:1"})


class Replaced:
    """A producer that is told that it was replaced when it is served."""

    def poll(self, timeout_s: float) -> int:
        raise KafkaException(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, "old", fatal=True))

    def flush(self, timeout_s: float) -> int:
        return 0

    def list_topics(self, topic: str, timeout: float) -> None: ...
    def init_transactions(self, timeout_s: float) -> None: ...


def in_transactions() -> SourceWriter:
    return Transactions(SETUP, TaskMetrics())


def plain() -> SourceWriter:
    return PlainWriter(SETUP, ErrorHandler(), TaskMetrics())


@pytest.mark.parametrize("make", [in_transactions, plain])
def test_a_producer_that_was_replaced_is_fenced(
    make: Callable[[], SourceWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a failure it would leave the task FAILED, where the leader starts a fenced one again."""
    monkeypatch.setattr(clients, "producer", lambda *_: Replaced())
    writer = make()
    with pytest.raises(Fenced):
        writer.serve()


class InDoubt(Replaced):
    """A producer whose commit gets no answer."""

    def __init__(self) -> None:
        self.aborts = 0

    def poll(self, timeout_s: float) -> int:
        return 0

    def begin_transaction(self) -> None: ...
    def produce(self, topic: str, value: bytes | None, key: bytes) -> None: ...

    def commit_transaction(self, timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "silent", retriable=True))

    def abort_transaction(self, timeout_s: float) -> None:
        self.aborts += 1


def test_nothing_is_asked_of_kafka_after_a_commit_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka may have committed: an abort would ask it for the opposite."""
    producer = InDoubt()
    monkeypatch.setattr(clients, "producer", lambda *_: producer)
    writer = in_transactions()
    with pytest.raises(Interrupted):
        writer.commit([NewRecord("t", b"k", b"v")], 0.01)
    writer.close()
    assert producer.aborts == 0


def test_the_record_that_kafka_refuses_is_the_reason_not_the_others_of_its_batch() -> None:
    failures = SendFailures()
    message: Any = SimpleNamespace(topic=lambda: "t")
    other = KafkaError(KafkaError._INVALID_DIFFERENT_RECORD)
    for error in (*[other] * 50, KafkaError(KafkaError.INVALID_RECORD, "no key"), other):
        failures.delivered(error, message)
    producer: Any = Replaced()
    producer.poll = lambda timeout_s: 0

    assert str(failures.failure(None, producer)) == (
        "Unrecoverable exception trying to send: no key"
    )


class Slow:
    """A producer of a Kafka that acknowledges nothing and answers every question. `now` is the
    time, in which it is asked for topics at `asked`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[float] = []

    def flush(self, timeout_s: float) -> int:
        self.now += timeout_s
        return 1

    def poll(self, timeout_s: float) -> int:
        return 0

    def produce_batch(self, topic: str, messages: list[Any], *_: int) -> int:
        return len(messages)

    def list_topics(self, topic: str | None = None, timeout: float = 0.0) -> Any:
        if topic is None:
            self.asked.append(self.now)
        found = SimpleNamespace(partitions={0: SimpleNamespace(leader=1)})
        return SimpleNamespace(topics={"t": found})

    def init_transactions(self, timeout_s: float) -> None: ...
    def begin_transaction(self) -> None: ...
    def abort_transaction(self, timeout_s: float) -> None: ...


def test_a_slow_kafka_is_asked_less_and_less_often_for_its_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trap: each of a thousand tasks that wait asks for all topics every two seconds."""
    slow = Slow()
    monkeypatch.setattr(clients, "producer", lambda *_: slow)
    monkeypatch.setattr(clients, "meet_broker", lambda *_: None)
    monkeypatch.setattr(
        transactions, "time", SimpleNamespace(monotonic=lambda: slow.now, sleep=lambda _: None)
    )
    writer = in_transactions()
    writer.send("t", Messages([{"value": b"v"}], 1, False, False, lambda: iter(())), None)
    with pytest.raises(Interrupted):
        writer.commit([NewRecord("offsets", b"v", b"k")], 60.0)
    assert slow.asked == [2.0, 4.0, 8.0, 16.0, 32.0]


class Refused(Slow):
    """A producer of a Kafka that refuses each record, and would take offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: SendFailures | None = None
        self.offsets: list[bytes] = []

    def flush(self, timeout_s: float) -> int:
        assert self.failures is not None
        message: Any = SimpleNamespace(topic=lambda: "t")
        self.failures.delivered(KafkaError(KafkaError.INVALID_RECORD, "no key"), message)
        return 0

    def produce(self, topic: str, value: bytes | None, key: bytes) -> None:
        self.offsets.append(key)

    def commit_transaction(self, timeout_s: float) -> None: ...


def test_offsets_of_records_that_kafka_refused_are_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The failure names the record's error, not the end of the transaction that follows from it."""
    producer = Refused()
    monkeypatch.setattr(clients, "producer", lambda *_: producer)
    monkeypatch.setattr(clients, "meet_broker", lambda *_: None)
    writer = Transactions(SETUP, TaskMetrics())
    producer.failures = writer._failures
    writer.send("t", Messages([{"value": b"v"}], 1, False, False, lambda: iter(())), None)
    with pytest.raises(ConnectorError, match="no key"):
        writer.commit([NewRecord("offsets", b"k", b"v")], 5.0)
    assert producer.offsets == []


class Unwilling:
    """A producer that takes no records, as when the topic was made anew with fewer partitions."""

    def produce(self, *_: Any, **more: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

    def poll(self, timeout_s: float) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        return 0


def test_records_that_cannot_be_sent_again_are_not_taken_for_sent() -> None:
    """A task that fails writes the offsets of what Kafka has; these records are not among it."""
    producer: Any = Unwilling()
    refused = RefusedRecords(SendFailures(), lambda: producer)
    message: Any = SimpleNamespace(
        topic=lambda: "t", partition=lambda: 3, key=lambda: None, value=lambda: b"v"
    )
    refused.delivered(KafkaError(KafkaError._INVALID_DIFFERENT_RECORD), message)
    for _ in range(2):
        with pytest.raises(KafkaException):
            refused.flush(1.0)
