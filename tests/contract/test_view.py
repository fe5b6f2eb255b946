"""What observing asks of Kafka: a broker, and the fake that stands for it in tests of applies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from connect_reconciler.backend.observe.kafka_view import KafkaPort, KafkaView
from connect_reconciler.model.live import GroupMember, LogRange, RecordAt, TimeAt
from support.broker import BrokerAddress, create_topic, member
from support.fake_cluster import FakeKafka
from support.wait import wait_until

NOON = 1_795_262_400_000
HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class Site:
    """One implementation, and how its tests fill it."""

    view: KafkaPort
    create_topic: Callable[[str, int], object]
    produce: Callable[..., object]
    commit: Callable[[str, tuple[str, int], int], object]
    join: Callable[[str, str, str], AbstractContextManager[None]]


def _fake() -> Site:
    kafka = FakeKafka()

    def create(topic: str, partitions: int) -> None:
        kafka.ranges |= {(topic, number): LogRange(0, 0) for number in range(partitions)}

    def commit(group: str, at: tuple[str, int], offset: int) -> None:
        kafka.groups.setdefault(group, {})[at] = offset

    @contextmanager
    def join(group: str, client_id: str, topic: str) -> Iterator[None]:
        kafka.members[group] = [GroupMember(client_id, "/127.0.0.1")]
        yield

    return Site(kafka, create, kafka.produce, commit, join)


def _broker(bootstrap_servers: str) -> Site:
    properties = {"bootstrap.servers": bootstrap_servers}

    def create(topic: str, partitions: int) -> None:
        create_topic(bootstrap_servers, topic, partitions=partitions)

    def produce(at: tuple[str, int], *times: int) -> None:
        producer = Producer(properties)
        for time_ms in times:
            producer.produce(at[0], partition=at[1], value=b"x", timestamp=time_ms)
        assert producer.flush(30) == 0

    def commit(group: str, at: tuple[str, int], offset: int) -> None:
        consumer = Consumer({**properties, "group.id": group})
        try:
            consumer.commit(offsets=[TopicPartition(*at, offset)], asynchronous=False)
        finally:
            consumer.close()

    @contextmanager
    def join(group: str, client_id: str, topic: str) -> Iterator[None]:
        with member(bootstrap_servers, group, client_id, topic):
            yield

    return Site(KafkaView(properties), create, produce, commit, join)


@pytest.fixture(params=["fake", "broker"])
def site(request: pytest.FixtureRequest, broker: BrokerAddress) -> Site:
    return _fake() if request.param == "fake" else _broker(broker.bootstrap_servers)


@pytest.fixture
def topic(site: Site, unique: str) -> str:
    """A topic of three partitions: records at noon, an hour later and again at noon in the first,
    one in the second, none in the third."""
    site.create_topic(unique, 3)
    site.produce((unique, 0), NOON, NOON + HOUR, NOON)
    site.produce((unique, 1), NOON)
    return unique


def test_it_has_a_cluster_id(site: Site) -> None:
    assert site.view.cluster_id()


def test_topics_and_how_many_partitions_they_have(site: Site, topic: str) -> None:
    assert site.view.topics()[topic] == 3
    assert f"{topic}-missing" not in site.view.topics()


def test_where_logs_begin_and_end(site: Site, topic: str) -> None:
    """What does not exist is left out."""
    wanted = [(topic, 0), (topic, 1), (topic, 2), (topic, 3), (f"{topic}-missing", 0)]
    assert site.view.log_ranges(wanted) == {
        (topic, 0): LogRange(0, 3),
        (topic, 1): LogRange(0, 1),
        (topic, 2): LogRange(0, 0),
    }


def test_offsets_at_times(site: Site, topic: str) -> None:
    """The first record from then on; none where the last record is older."""
    wanted = [
        TimeAt(topic, 0, NOON - 1),
        TimeAt(topic, 0, NOON),
        TimeAt(topic, 0, NOON + 1),
        TimeAt(topic, 0, NOON + HOUR + 1),
        TimeAt(topic, 1, NOON + 1),
        TimeAt(topic, 2, NOON),
    ]
    assert site.view.offsets_at(wanted) == {wanted[0]: 0, wanted[1]: 0, wanted[2]: 1}


def test_times_of_records(site: Site, topic: str) -> None:
    """Of the first record at an offset or after it; none at the log's end."""
    wanted = [RecordAt(topic, 0, 0), RecordAt(topic, 0, 1), RecordAt(topic, 1, 0)]
    assert site.view.timestamps([*wanted, RecordAt(topic, 1, 1)]) == {
        wanted[0]: NOON,
        wanted[1]: NOON + HOUR,
        wanted[2]: NOON,
    }


def test_newest_times(site: Site, topic: str) -> None:
    """The largest timestamp, wherever it is; none of an empty partition."""
    wanted = [(topic, number) for number in range(3)]
    assert site.view.newest_times(wanted) == {(topic, 0): NOON + HOUR, (topic, 1): NOON}


def test_members_of_groups(site: Site, topic: str) -> None:
    """With what each says it is; none of a group without any."""
    group = f"{topic}-group"
    with site.join(group, "mine", topic):

        def joined() -> list[str]:
            found = site.view.group_members([group, f"{topic}-none"])
            assert not found.get(f"{topic}-none")
            return [each.client_id for each in found[group]]

        wait_until(lambda: joined() == ["mine"], what="the member")


def test_offsets_of_groups(site: Site, topic: str) -> None:
    site.commit(f"{topic}-group", (topic, 0), 2)
    found = site.view.group_offsets([f"{topic}-group", f"{topic}-none"])
    assert found.get(f"{topic}-group") == {(topic, 0): 2}
    assert not found.get(f"{topic}-none")


def test_a_topic_that_does_not_exist_has_no_records(site: Site, unique: str) -> None:
    assert list(site.view.records(unique)) == []
    assert site.view.read([unique]).records == {}


def test_every_topic_is_visible(site: Site, topic: str) -> None:
    site.view.ensure_visible([topic])
