"""What readers and writers of a log promise, held to by Kafka and by its twin in memory alike."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pytest
from confluent_kafka import Producer

from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.log import (
    Fenced,
    InternalTopic,
    LogBlocked,
    LogReader,
    LogRecord,
    Logs,
    NewRecord,
    WriteFailed,
    unread_text,
)
from connect_runtime.storage.memory import MemoryLogs
from connect_specs.diagnostics import Failed
from support.broker import BrokerAddress, create_topic
from support.wait import wait_until

READ_S = 15.0


@dataclass(frozen=True, slots=True)
class Held:
    """A transaction that somebody else left open: how to end it."""

    commit: Callable[[], object]
    abort: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Cluster:
    """One implementation, and what its tests need from outside of it."""

    logs: Logs
    create_topic: Callable[[str, int, str], object]
    hold_open: Callable[[str, list[NewRecord]], Held]


def _memory() -> Cluster:
    logs = MemoryLogs()

    def hold_open(transactional_id: str, records: list[NewRecord]) -> Held:
        def end(commit: bool) -> None:
            with logs.changed:
                logs.end(transaction, commit=commit)

        with logs.changed:
            logs.take_over(transactional_id)
            transaction, _ = logs.append(transactional_id, records)
        return Held(partial(end, True), partial(end, False))

    return Cluster(logs, logs.create_topic, hold_open)


def _kafka(broker: BrokerAddress) -> Cluster:
    properties = {"bootstrap.servers": broker.bootstrap_servers}

    def create(topic: str, partitions: int, policy: str) -> None:
        settings: Mapping[str, str] = {"cleanup.policy": policy}
        create_topic(broker.bootstrap_servers, topic, partitions=partitions, config=settings)

    def hold_open(transactional_id: str, records: list[NewRecord]) -> Held:
        producer = Producer(
            {
                **properties,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(READ_S)
        producer.begin_transaction()
        for record in records:
            producer.produce(record.topic, key=record.key, value=record.value)
        assert producer.flush(READ_S) == 0
        return Held(producer.commit_transaction, producer.abort_transaction)

    return Cluster(KafkaLogs(properties), create, hold_open)


@pytest.fixture(params=["memory", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "memory":
        made = _memory()
    else:
        made = _kafka(request.getfixturevalue("broker"))
    yield made
    made.logs.close()


@pytest.fixture
def topic(cluster: Cluster, unique: str) -> str:
    """A compacted topic of one partition."""
    cluster.logs.ensure_compacted(InternalTopic(unique, 1, "connector configurations"))
    return unique


def values(records: object) -> list[tuple[bytes | None, bytes | None]]:
    assert isinstance(records, list | tuple)
    return [(record.key, record.value) for record in records]


def some(topic: str, *keys: str) -> list[NewRecord]:
    return [NewRecord(topic, key.encode(), b"v") for key in keys]


def test_an_empty_topic_ends_at_once(cluster: Cluster, topic: str) -> None:
    reader = cluster.logs.reader(topic)
    assert list(reader.read_to_end(READ_S)) == []
    assert list(reader.poll()) == []


def test_a_write_is_read_as_it_was_returned(cluster: Cluster, topic: str) -> None:
    reader = cluster.logs.reader(topic)
    writer = cluster.logs.writer(topic)
    written = list(writer.write([*some(topic, "a", "b"), NewRecord(topic, b"a", None)]))
    assert values(written) == [(b"a", b"v"), (b"b", b"v"), (b"a", None)]
    assert [(record.topic, record.partition) for record in written] == [(topic, 0)] * 3
    assert list(reader.read_to_end(READ_S)) == written
    assert list(reader.read_to_end(READ_S)) == []


def test_every_reader_starts_at_the_beginning(cluster: Cluster, topic: str) -> None:
    writer = cluster.logs.writer(topic)
    first = writer.write(some(topic, "a"))
    cluster.logs.reader(topic).read_to_end(READ_S)
    second = writer.write(some(topic, "b"))
    assert list(cluster.logs.reader(topic).read_to_end(READ_S)) == [*first, *second]


def test_nothing_to_write_is_no_transaction(cluster: Cluster, topic: str) -> None:
    assert list(cluster.logs.writer(topic).write([])) == []


def test_a_key_stays_in_its_partition(cluster: Cluster, unique: str) -> None:
    cluster.create_topic(unique, 4, "compact")
    writer = cluster.logs.writer(unique)
    keys = [f"k{number}" for number in range(40)]
    first = writer.write(some(unique, *keys))
    second = writer.write(some(unique, *keys))
    assert [record.partition for record in first] == [record.partition for record in second]
    assert len({record.partition for record in first}) == 4
    found = cluster.logs.reader(unique).read_to_end(READ_S)
    for number in range(4):
        offsets = [record.offset for record in found if record.partition == number]
        assert offsets == sorted(offsets)
    assert len(found) == 80


def test_one_transaction_spans_topics(cluster: Cluster, topic: str) -> None:
    other = f"{topic}-other"
    cluster.logs.ensure_compacted(InternalTopic(other, 1, "assignments"))
    cluster.logs.writer(topic).write([*some(topic, "a"), *some(other, "b")])
    assert values(cluster.logs.reader(topic).read_to_end(READ_S)) == [(b"a", b"v")]
    assert values(cluster.logs.reader(other).read_to_end(READ_S)) == [(b"b", b"v")]


def test_poll_shows_what_arrives(cluster: Cluster, topic: str) -> None:
    reader = cluster.logs.reader(topic)
    written = cluster.logs.writer(topic).write(some(topic, "a", "b"))
    found: list[LogRecord] = []

    def all_arrived() -> bool:
        found.extend(reader.poll())
        return found == list(written)

    wait_until(all_arrived, what="both records")


def test_read_through_reads_up_to_one_record(cluster: Cluster, topic: str) -> None:
    reader = cluster.logs.reader(topic)
    writer = cluster.logs.writer(topic)
    for key in "abc":
        written = writer.write(some(topic, key))
        read = reader.read_through(written[-1].partition, written[-1].offset, READ_S)
        assert list(read) == list(written)


def test_a_newer_writer_fences_the_one_before(cluster: Cluster, topic: str) -> None:
    old = cluster.logs.writer(topic)
    old.write(some(topic, "old"))
    new = cluster.logs.writer(topic)
    for _ in range(2):
        with pytest.raises(Fenced):
            old.write(some(topic, "late"))
    assert not old.usable
    new.write(some(topic, "new"))
    assert new.usable
    found = cluster.logs.reader(topic).read_to_end(READ_S)
    assert values(found) == [(b"old", b"v"), (b"new", b"v")]


def test_another_transactional_id_fences_nobody(cluster: Cluster, topic: str) -> None:
    one = cluster.logs.writer(topic)
    cluster.logs.writer(f"{topic}-other")
    one.write(some(topic, "a"))


def test_fence_ends_writers_and_what_they_left_open(cluster: Cluster, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(10)]
    opened = {name: cluster.logs.writer(name) for name in names}
    cluster.hold_open(f"{topic}-held", some(topic, "hidden"))
    cluster.logs.fence([*opened, f"{topic}-held"])
    for writer in opened.values():
        with pytest.raises(Fenced):
            writer.write(some(topic, "late"))
    assert list(cluster.logs.reader(topic).read_to_end(READ_S)) == []
    cluster.logs.fence([])


def test_a_closed_writer_writes_no_more(cluster: Cluster, topic: str) -> None:
    writer = cluster.logs.writer(topic)
    writer.close()
    writer.close()
    assert not writer.usable
    with pytest.raises(WriteFailed):
        writer.write(some(topic, "a"))


def test_an_aborted_transaction_at_the_end_is_passed(cluster: Cluster, topic: str) -> None:
    written = cluster.logs.writer(topic).write(some(topic, "a"))
    reader = cluster.logs.reader(topic)
    cluster.hold_open(f"{topic}-other", some(topic, "x", "y")).abort()
    assert list(reader.read_to_end(READ_S)) == list(written)
    assert list(cluster.logs.reader(topic).read_to_end(READ_S)) == list(written)


def test_a_topic_of_nothing_but_aborted_records_is_empty(cluster: Cluster, topic: str) -> None:
    cluster.hold_open(f"{topic}-other", some(topic, "x", "y")).abort()
    assert list(cluster.logs.reader(topic).read_to_end(READ_S)) == []


def test_an_open_transaction_blocks_a_read_to_the_end(cluster: Cluster, topic: str) -> None:
    writer = cluster.logs.writer(topic)
    before = writer.write(some(topic, "before"))
    held = cluster.hold_open(f"{topic}-other", some(topic, "held"))
    after = writer.write(some(topic, "after"))
    reader = cluster.logs.reader(topic)
    with pytest.raises(LogBlocked) as caught:
        reader.read_to_end(0.5)
    assert f"{topic}-0" in str(caught.value)
    assert f"offset {after[0].offset - 1}" in str(caught.value)
    with pytest.raises(LogBlocked):
        reader.read_through(0, after[0].offset, 0.1)
    held.abort()
    assert list(reader.read_to_end(READ_S)) == [*before, *after]


def test_what_was_read_before_an_obstacle_is_not_lost(cluster: Cluster, topic: str) -> None:
    before = cluster.logs.writer(topic).write(some(topic, "before"))
    held = cluster.hold_open(f"{topic}-other", some(topic, "held"))
    reader = cluster.logs.reader(topic)
    with pytest.raises(LogBlocked):
        reader.read_to_end(0.5)
    assert list(reader.poll()) == list(before)
    held.commit()
    assert values(reader.read_to_end(READ_S)) == [(b"held", b"v")]


def test_a_read_to_the_end_waits_for_a_transaction_to_end(cluster: Cluster, topic: str) -> None:
    held = cluster.hold_open(f"{topic}-other", some(topic, "held"))
    ending = threading.Timer(0.3, held.commit)
    reader = cluster.logs.reader(topic)
    ending.start()
    try:
        assert values(reader.read_to_end(READ_S)) == [(b"held", b"v")]
    finally:
        ending.join()


def test_readers_of_two_threads_see_every_write(cluster: Cluster, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(3)]

    def write_twenty(name: str) -> None:
        writer = cluster.logs.writer(name)
        for number in range(20):
            writer.write(some(topic, f"{name}/{number}/a", f"{name}/{number}/b"))

    threads = [threading.Thread(target=write_twenty, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    reader = cluster.logs.reader(topic)
    found: list[LogRecord] = []
    while any(thread.is_alive() for thread in threads):
        found += reader.read_to_end(READ_S)
    for thread in threads:
        thread.join()
    found += reader.read_to_end(READ_S)
    assert len({record.key for record in found}) == len(found) == 120
    assert_transactions_are_whole(found)


def assert_transactions_are_whole(found: list[LogRecord]) -> None:
    """Each pair was written at once, so its second record follows with nothing of its writer's
    in between."""
    last: dict[bytes, bytes] = {}
    for record in found:
        assert record.key is not None
        writer, number, half = record.key.split(b"/")
        if half == b"b":
            assert last[writer] == number
        last[writer] = number


# --- what is written in the background ---


def test_what_is_written_in_the_background_is_read(cluster: Cluster, topic: str) -> None:
    writer = cluster.logs.background_writer()
    writer.write(some(topic, "a", "b"))
    writer.write([NewRecord(topic, b"a", None)])
    writer.write([])
    writer.flush(READ_S)
    found = values(cluster.logs.reader(topic).read_to_end(READ_S))
    # keys have no order among them
    assert [value for key, value in found if key == b"a"][-1] is None
    assert (b"b", b"v") in found
    assert writer.problem is None
    writer.close()
    writer.close()


def test_the_newest_value_of_a_key_is_written_last(cluster: Cluster, topic: str) -> None:
    writer = cluster.logs.background_writer()
    for number in range(100):
        writer.write([NewRecord(topic, b"a", b"%d" % number)])
    writer.flush(READ_S)
    numbers = [int(v or b"") for _, v in values(cluster.logs.reader(topic).read_to_end(READ_S))]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 99
    writer.close()


def test_a_removal_is_written_before_the_value_that_follows_it(
    cluster: Cluster, topic: str
) -> None:
    """Readers ignore some values unless the one before them is removed."""
    writer = cluster.logs.background_writer()
    writer.write([NewRecord(topic, b"a", b"1")])
    writer.write([NewRecord(topic, b"a", None), NewRecord(topic, b"a", b"2")])
    writer.flush(READ_S)
    found = [value for _, value in values(cluster.logs.reader(topic).read_to_end(READ_S))]
    assert found[-2:] == [None, b"2"]
    writer.close()


def test_reading_what_is_available_leaves_out_what_an_open_transaction_hides(
    cluster: Cluster, topic: str
) -> None:
    before = cluster.logs.writer(topic).write(some(topic, "before"))
    held = cluster.hold_open(f"{topic}-other", some(topic, "held"))
    reader = cluster.logs.reader(topic)
    assert list(reader.read_available(READ_S)) == list(before)
    assert f"{topic}-0" in str(unread_text(reader.left_out))
    held.commit()
    found: list[LogRecord] = []

    def all_arrived() -> bool:
        found.extend(reader.poll())
        return bool(found)

    wait_until(all_arrived, what="what was hidden")
    assert list(reader.read_available(READ_S)) == []
    assert not reader.left_out


def test_there_is_no_reader_of_no_topic(cluster: Cluster, unique: str) -> None:
    with pytest.raises(Failed, match="There is no such topic"):
        cluster.logs.reader(unique)


def test_ensuring_a_topic_twice_changes_nothing(cluster: Cluster, unique: str) -> None:
    for _ in range(2):
        cluster.logs.ensure_compacted(
            InternalTopic(unique, 3, "connector and task statuses", key="status.storage.topic")
        )
    cluster.logs.ensure_compacted(
        InternalTopic(unique, 5, "connector and task statuses", key="status.storage.topic")
    )


def test_a_topic_that_is_not_compacted_is_refused_in_connects_words(
    cluster: Cluster, unique: str
) -> None:
    cluster.create_topic(unique, 1, "delete")
    with pytest.raises(Failed) as caught:
        cluster.logs.ensure_compacted(
            InternalTopic(unique, 25, "source connector offsets", key="offset.storage.topic")
        )
    assert str(caught.value) == (
        f"Topic '{unique}' supplied via the 'offset.storage.topic' property is required to have "
        "'cleanup.policy=compact' to guarantee consistency and durability of source connector "
        "offsets, but found the topic currently has 'cleanup.policy=delete'. Continuing would "
        "likely result in eventually losing source connector offsets and problems restarting this "
        "Connect cluster in the future. Change the 'offset.storage.topic' property in the Connect "
        "worker configurations to use a topic with 'cleanup.policy=compact'."
    )


def test_a_config_topic_of_many_partitions_is_refused_in_connects_words(
    cluster: Cluster, unique: str
) -> None:
    cluster.create_topic(unique, 3, "compact")
    with pytest.raises(Failed) as caught:
        cluster.logs.ensure_compacted(InternalTopic(unique, 1, "connector configurations"))
    assert str(caught.value) == (
        f"Topic '{unique}' supplied via the 'config.storage.topic' property is required to have a "
        "single partition in order to guarantee consistency of connector configurations, but found "
        "3 partitions."
    )


def test_closing_twice_is_quiet(cluster: Cluster, topic: str) -> None:
    reader: LogReader = cluster.logs.reader(topic)
    reader.close()
    reader.close()


def test_several_topics_are_read_at_once(broker: BrokerAddress, unique: str) -> None:
    """Only Kafka's logs can: each consumer more would cost it a connection."""
    cluster = _kafka(broker)
    logs = cluster.logs
    assert isinstance(logs, KafkaLogs)
    one, many, empty = (f"{unique}-{name}" for name in ("one", "many", "empty"))
    for topic, partitions in ((one, 1), (many, 3), (empty, 2)):
        cluster.create_topic(topic, partitions, "compact")
    keys = [f"key-{number}" for number in range(20)]
    written = logs.writer(unique).write([*some(one, "a", "b"), *some(many, *keys)])
    try:
        found = logs.read_to_ends([one, f"{unique}-missing", many, empty], READ_S).records
        assert list(found) == [one, many, empty]
        assert list(found[one]) == [each for each in written if each.topic == one]
        at = {(each.partition, each.offset): each for each in written if each.topic == many}
        assert {(each.partition, each.offset): each for each in found[many]} == at
        assert len(found[many]) == len(keys)
        assert list(found[empty]) == []
        held = cluster.hold_open(f"{unique}-other", some(many, "held"))
        with pytest.raises(LogBlocked, match=f"{many}-[0-2]"):
            logs.read_to_ends([one, many], 0.5)
        held.abort()
        assert logs.read_to_ends([], READ_S).records == {}
    finally:
        logs.close()
