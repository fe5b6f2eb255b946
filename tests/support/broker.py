"""Reaching the tests' Kafka: its address, and topics made, filled and read to their end."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from connect_runtime.kafka import clients
from support.wait import wait_until

# Connect's 25 and 5 take a broker 0.1 s of a core each time
FEW_PARTITIONS = {"offset.storage.partitions": 1, "status.storage.partitions": 1}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The Kafka that the session's tests share."""

    bootstrap_servers: str
    cluster_id: str

    @property
    def kafka(self) -> str:
        """What connect.yaml has as a cluster's `kafka`."""
        return f"{{bootstrap.servers: '{self.bootstrap_servers}'}}"

    def cluster(self, group_id: str) -> str:
        """What connect.yaml has as `cluster`."""
        worker = json.dumps(FEW_PARTITIONS)
        return f"{{group.id: {group_id}, kafka: {self.kafka}, worker: {worker}}}"


def cluster_at(bootstrap_servers: str) -> BrokerAddress:
    """Asks who answers there. Raises KafkaException when nobody does within 10 s."""
    admin = clients.admin({"bootstrap.servers": bootstrap_servers})
    found = admin.describe_cluster(request_timeout=10).result(timeout=15)
    return BrokerAddress(bootstrap_servers, found.cluster_id)


def create_topic(
    bootstrap_servers: str,
    name: str,
    *,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Makes the topic and returns when it can be used. Raises KafkaException."""
    create_topics(bootstrap_servers, {name: partitions}, config=config)


def create_topics(
    bootstrap_servers: str,
    partitions: Mapping[str, int],
    *,
    config: Mapping[str, str] | None = None,
) -> None:
    """The same with several, at the cost of one."""
    admin = clients.admin({"bootstrap.servers": bootstrap_servers})
    # with as many replicas as the broker has by default
    topics = {name: NewTopic(name, n, config=dict(config or {})) for name, n in partitions.items()}

    def are_created() -> bool:
        for name, created in admin.create_topics([*topics.values()]).items():
            try:
                created.result(timeout=60)
            except KafkaException as error:
                # the controller fences a broker that gets no time on a busy machine, and takes it
                # back
                if error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR:
                    continue
                raise
            del topics[name]
        return not topics

    wait_until(are_created, what=f"a broker for topics {[*partitions]}")
    # a broker answers before all of its parts know a topic
    for name in partitions:
        wait_until(
            lambda name=name: admin.list_topics(name, timeout=10).topics[name].error is None,  # type: ignore[misc]
            what=f"topic {name}",
        )


def produce(
    bootstrap_servers: str,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    partition: int = 0,
) -> None:
    """Writes (key, value) pairs in order, all acknowledged. Raises KafkaException."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        # an idempotent producer waits half a second for its id
        "max.in.flight.requests.per.connection": 1,
        # a question of its may still be on its way when the test deletes the topic
        "allow.auto.create.topics": False,
    }
    producer = Producer(settings)
    failed: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=partition, on_delivery=note)
        producer.poll(0)
    producer.flush(30)
    if failed:
        raise KafkaException(failed[0])


def read_to_end(
    bootstrap_servers: str, topic: str, *, read_committed: bool = True, timeout_s: float = 30
) -> list[Message]:
    """Every record from each partition's start to where its end is now, by partition; none of a
    topic that is not made yet.

    With read_committed, the end is the last stable offset: what is behind an open transaction is
    not waited for. Raises AssertionError when it takes longer than `timeout_s`.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "read-to-end",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic]
        if known.error is not None:
            if known.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return []
            raise KafkaException(known.error)
        consumer.assign([TopicPartition(topic, number, 0) for number in known.partitions])
        return _consume_until_ends(consumer, len(known.partitions), timeout_s)
    finally:
        consumer.close()


def _consume_until_ends(consumer: Consumer, partitions: int, timeout_s: float) -> list[Message]:
    found: list[Message] = []
    ended: set[int] = set()
    deadline = time.monotonic() + timeout_s
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"the topic did not end within {timeout_s:g} s"
        # `consume` waits its time out for more, while the consumer fetches a hundred times a second
        message = consumer.poll(0.1)
        if message is not None:
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise KafkaException(error)
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


@contextmanager
def member(bootstrap_servers: str, group: str, client_id: str, topic: str) -> Iterator[None]:
    """A consumer that reads the topic with the group meanwhile."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": group, "client.id": client_id}
    )
    ended = Event()

    def read() -> None:
        while not ended.is_set():
            consumer.poll(0.1)

    consumer.subscribe([topic])
    reading = Thread(target=read)
    reading.start()
    try:
        yield
    finally:
        ended.set()
        reading.join()
        consumer.close()
