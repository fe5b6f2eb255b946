"""Offsets topics that are read again and again by readers that are idle between."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from connect_runtime.herder.source_offsets import OffsetsReader
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import DENIED, UNREACHABLE
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.log import InternalTopic, LogRecord, NewRecord
from connect_runtime.storage.memory import MemoryLogs
from connect_specs.diagnostics import ConnectError, Diagnostic, Unreachable
from support.broker import BrokerAddress, create_topic
from support.wait import wait_until

KEY = b'["c",{"p":1}]'


class Readers(MemoryLogs):
    """Its readers fail as `failures` say, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[ConnectError] = []

    def reader(self, topic: str) -> Reader:
        return Reader(self, topic)


class Reader:
    led_anew = False

    def __init__(self, logs: Readers, topic: str) -> None:
        self._logs, self._reader = logs, MemoryLogs.reader(logs, topic)

    def poll(self) -> Sequence[LogRecord]:
        return self._reader.poll()

    def read_to_end(self, timeout_s: float) -> Sequence[LogRecord]:
        if self._logs.failures:
            raise self._logs.failures.pop()
        return self._reader.read_to_end(timeout_s)

    def read_through(self, partition: int, offset: int, timeout_s: float) -> Sequence[LogRecord]:
        return self._reader.read_through(partition, offset, timeout_s)

    def close(self) -> None:
        self._reader.close()


@pytest.fixture
def logs() -> Readers:
    logs = Readers()
    logs.ensure_compacted(InternalTopic("offsets", 1, "source connector offsets"))
    return logs


def write(logs: Readers, position: int) -> None:
    logs.writer("w").write([NewRecord("offsets", KEY, b'{"n":%d}' % position)])


def position(reader: OffsetsReader) -> object:
    (found,) = reader.read().connectors["c"].values()
    return found.offset


def denied() -> ConnectError:
    return Unreachable(Diagnostic(DENIED, "The topic cannot be read", "offsets"))


def test_a_refusal_of_an_earlier_moment_is_no_answer(logs: Readers) -> None:
    """A right was taken, and given again, while nobody read."""
    reader = OffsetsReader(logs, "offsets")
    write(logs, 1)
    assert position(reader) == {"n": 1}
    write(logs, 2)
    logs.failures = [denied()]
    assert position(reader) == {"n": 2}
    # a second one is the answer
    logs.failures = [denied(), denied()]
    with pytest.raises(Unreachable):
        reader.read()
    assert position(reader) == {"n": 2}


def test_a_kafka_that_does_not_answer_is_waited_for_once(logs: Readers) -> None:
    reader = OffsetsReader(logs, "offsets")
    write(logs, 1)
    assert position(reader) == {"n": 1}
    logs.failures = [Unreachable(Diagnostic(UNREACHABLE, "Kafka does not answer"))]
    with pytest.raises(Unreachable):
        reader.read()
    assert position(reader) == {"n": 1}


def test_offsets_of_a_topic_that_was_made_anew_are_not_shown(
    broker: BrokerAddress, unique: str
) -> None:
    """The trap: a reader that is further than the new topic's end reads nothing, or adds to what it
    had."""
    kafka = broker.bootstrap_servers
    logs = KafkaLogs({"bootstrap.servers": kafka})
    admin = clients.admin({"bootstrap.servers": kafka})
    reader = OffsetsReader(logs, unique)
    for name, count in ((b"old", 5), (b"new", 1)):
        create_topic(kafka, unique, config={"cleanup.policy": "compact"})
        writer = logs.writer(f"{unique}-writer")
        for number in range(count):
            key = b'["%s",{"p":%d}]' % (name, number)
            writer.write([NewRecord(unique, key, b'{"n":1}')])
        assert reader.read().connectors.keys() == {name.decode()}
        admin.delete_topics([unique])[unique].result(timeout=30)
        wait_until(
            lambda: unique not in admin.list_topics(timeout=10).topics, what="the topic to be gone"
        )
    reader.close()
    logs.close()
