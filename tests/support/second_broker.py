"""A second broker of an embedded Kafka's cluster, which a test may kill: partitions that are on it
alone are then offline, while everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from confluent_kafka.admin import NewTopic

from connect_runtime.kafka import clients, embedded
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.kafka.log import KafkaLogs
from support.processes import kill, process
from support.wait import wait_until

_PROPERTIES = embedded._PROPERTIES
_START_S = 120.0


@dataclass(slots=True)
class TwoBrokers:
    """`first` has everything but what is created on `second`."""

    first: EmbeddedBroker
    second: EmbeddedBroker
    properties: str

    @property
    def kafka(self) -> str:
        return self.first.bootstrap_servers

    def create_topic(self, name: str, *brokers: int, policy: str = "compact") -> None:
        """Makes a topic of one partition on each of `brokers`, 1 or 2."""
        new = NewTopic(
            name,
            len(brokers),
            replica_assignment=[[number] for number in brokers],
            config={"cleanup.policy": policy},
        )
        admin = clients.admin({"bootstrap.servers": self.kafka})
        admin.create_topics([new])[name].result(timeout=60)
        self._wait_for(name, offline=[])

    def kill_second(self, *topics: str) -> None:
        """Returns when its partitions of these topics have no leader any more."""
        found = process(self.second.pid)
        assert found is not None
        kill(found)
        for name in topics:
            self._wait_for(name, offline=[2])

    def start_second(self) -> None:
        """After it was killed: on the same data and ports."""
        port = int(self.second.bootstrap_servers.rpartition(":")[2])
        self.second = _start(self.second.folder, self.properties, port)

    def _wait_for(self, name: str, offline: list[int]) -> None:
        admin = clients.admin({"bootstrap.servers": self.kafka})

        def reached() -> bool:
            partitions = admin.list_topics(name, timeout=10).topics[name].partitions.values()
            gone = {replica for p in partitions if p.leader < 0 for replica in p.replicas}
            return bool(partitions) and gone == set(offline)

        wait_until(reached, what=f"leaders of {name}", timeout_s=60)


@contextmanager
def two_brokers(folder: Path) -> Iterator[TwoBrokers]:
    """Both, for as long as the context lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    first = _start(folder / "first", _PROPERTIES, None)
    try:
        _make_own_topics(first)
        record = embedded.find_broker(first.folder)
        assert record is not None
        properties = (
            _PROPERTIES.replace("process.roles=broker,controller", "process.roles=broker")
            .replace("node.id=1", "node.id=2")
            .replace("{controller_port}\n", f"{record.controller_port}\n", 1)
            .replace(",CONTROLLER://{host}:{controller_port}\n", "\n")
            + "#{controller_port}\n"
        )
        with patch.object(embedded, "_new_cluster_id", lambda: first.cluster_id):
            second = _start(folder / "second", properties, None)
        both = TwoBrokers(first, second, properties)
        try:
            yield both
        finally:
            both.second.stop()
    finally:
        first.stop()


def _make_own_topics(first: EmbeddedBroker) -> None:
    """Makes Kafka's topics of groups and transactions while there is one broker to have them."""
    logs = KafkaLogs({"bootstrap.servers": first.bootstrap_servers})
    logs.writer("first").close()
    logs.close()
    consumer = clients.consumer(
        {"bootstrap.servers": first.bootstrap_servers}, {"group.id": "first"}
    )
    consumer.subscribe(["first"])
    admin = clients.admin({"bootstrap.servers": first.bootstrap_servers})
    try:

        def made() -> bool:
            consumer.poll(0.1)
            topics = admin.list_topics(timeout=10).topics
            return {"__consumer_offsets", "__transaction_state"} <= topics.keys()

        wait_until(made, what="Kafka's own topics", timeout_s=60)
    finally:
        consumer.close()


def _start(folder: Path, properties: str, port: int | None) -> EmbeddedBroker:
    with (
        patch.object(embedded, "_PROPERTIES", properties),
        patch.object(embedded, "_START_S", _START_S),
    ):
        return EmbeddedBroker.start(folder, port=port)
