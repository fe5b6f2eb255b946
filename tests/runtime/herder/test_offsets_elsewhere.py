"""Offsets of connectors that work on another Kafka cluster, or have an offsets topic of their own:
viewed, altered and reset on two real brokers (KIP-618, KIP-875)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import ConfigResource, ResourceType

from connect_runtime.herder.verbs import RequestError
from connect_runtime.java.offset_bytes import offset_key_bytes
from connect_runtime.kafka import clients
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.names import task_transactional_id
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.connectors import SINK, SOURCE, ObedientSinkTask
from support.connectors import partition as source_partition
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

GROUP = f"elsewhere-{secrets.token_hex(4)}"
OFFSETS = f"{GROUP}-offsets"


@pytest.fixture(scope="module")
def cluster(broker: BrokerAddress) -> Iterator[ThreadCluster]:
    with thread_cluster(
        broker.bootstrap_servers, GROUP, {"offset.storage.min.insync.replicas": "1"}
    ) as made:
        yield made


@pytest.fixture
def name(unique: str, cluster: ThreadCluster) -> Iterator[str]:
    yield f"c-{unique}"
    if f"c-{unique}" in cluster.verbs.connectors():
        cluster.verbs.delete(f"c-{unique}")


def source(name: str, **more: str) -> dict[str, str]:
    return {"name": name, "connector.class": SOURCE, "topic": f"{name}-data", **more}


def there(broker: BrokerAddress) -> dict[str, str]:
    return {"producer.override.bootstrap.servers": broker.bootstrap_servers}


def at(position: int | None, number: str = "0") -> OffsetEntry:
    return OffsetEntry(
        source_partition(number), None if position is None else {"position": position}
    )


def key(name: str, number: str = "0") -> bytes:
    return offset_key_bytes(name, source_partition(number))


def write(broker: BrokerAddress, topic: str, name: str, *positions: int) -> None:
    """Offsets of tasks 0, 1, ... as tasks commit them."""
    for number, position in enumerate(positions):
        value = b'{"position":%d}' % position
        produce(broker.bootstrap_servers, topic, [(key(name, str(number)), value)])


def newest(broker: BrokerAddress, topic: str, name: str) -> dict[str, Any]:
    """The newest record of each task, tombstones as None."""
    found: dict[str, Any] = {}
    for message in read_to_end(broker.bootstrap_servers, topic):
        for number in ("0", "1", "2"):
            if message.key() == key(name, number):
                found[number] = message.value()
    return found


def held(cluster: ThreadCluster, name: str) -> dict[str, int]:
    return {
        str(e.partition["table"]): int(str((e.offset or {})["position"]))
        for e in cluster.verbs.offsets(name)
    }


def created_stopped(cluster: ThreadCluster, config: dict[str, str]) -> None:
    cluster.verbs.create(config["name"], config, TargetState.STOPPED)
    cluster.wait_for(config["name"], State.STOPPED)


@pytest.mark.parametrize("dedicated", ["", "own"])
def test_a_source_on_another_cluster(
    broker: BrokerAddress,
    other_broker: BrokerAddress,
    cluster: ThreadCluster,
    name: str,
    dedicated: str,
) -> None:
    given = {"offsets.storage.topic": f"{name}-own"} if dedicated else {}
    topic = f"{name}-own" if dedicated else OFFSETS
    created_stopped(cluster, source(name, **there(other_broker), **given))
    # nothing yet, not even the topic
    assert held(cluster, name) == {}

    # what the worker's topic has is looked for there
    write(broker, OFFSETS, name, 5, 6)
    assert held(cluster, name) == {"t0": 5, "t1": 6}

    assert "altered successfully" in cluster.verbs.alter_offsets(name, [at(9)])
    assert newest(other_broker, topic, name) == {"0": b'{"position":9}'}
    assert newest(broker, OFFSETS, name) == {"0": b'{"position":9}', "1": b'{"position":6}'}
    # the connector's topic wins
    write(broker, OFFSETS, name, 1)
    assert held(cluster, name) == {"t0": 9, "t1": 6}

    assert "altered successfully" in cluster.verbs.alter_offsets(name, [at(None, "1")])
    assert held(cluster, name) == {"t0": 9}
    assert "reset successfully" in cluster.verbs.reset_offsets(name)
    assert held(cluster, name) == {}
    assert newest(other_broker, topic, name) == {"0": None, "1": None}
    assert newest(broker, OFFSETS, name) == {"0": None, "1": None}


def test_a_topic_of_its_own_on_the_workers_cluster(
    broker: BrokerAddress, cluster: ThreadCluster, name: str
) -> None:
    created_stopped(cluster, source(name, **{"offsets.storage.topic": f"{name}-own"}))
    write(broker, OFFSETS, name, 5, 6)
    assert "altered successfully" in cluster.verbs.alter_offsets(name, [at(9), at(None, "1")])
    assert held(cluster, name) == {"t0": 9}
    assert newest(broker, f"{name}-own", name) == {"0": b'{"position":9}', "1": None}
    assert newest(broker, OFFSETS, name) == {"0": b'{"position":9}', "1": None}
    cluster.verbs.reset_offsets(name)
    assert held(cluster, name) == {}


def test_another_address_of_the_workers_cluster_means_the_same_topic(
    broker: BrokerAddress, cluster: ThreadCluster, name: str
) -> None:
    address = broker.bootstrap_servers.replace("127.0.0.1", "localhost")
    assert address != broker.bootstrap_servers
    created_stopped(cluster, source(name, **{"producer.override.bootstrap.servers": address}))
    write(broker, OFFSETS, name, 5)
    cluster.verbs.alter_offsets(name, [at(9)])
    records = [m for m in read_to_end(broker.bootstrap_servers, OFFSETS) if m.key() == key(name)]
    assert [m.value() for m in records] == [b'{"position":5}', b'{"position":9}']


def test_a_topic_is_created_before_the_connector_starts(
    broker: BrokerAddress, other_broker: BrokerAddress, cluster: ThreadCluster, name: str
) -> None:
    given = {"offsets.storage.topic": f"{name}-own", "tasks": "0"}
    cluster.verbs.create(name, source(name, **there(other_broker), **given), None)
    cluster.wait_for(name, State.RUNNING)
    admin = clients.admin({"bootstrap.servers": other_broker.bootstrap_servers})
    found = admin.list_topics(timeout=10).topics[f"{name}-own"]
    assert len(found.partitions) == 3
    resource = ConfigResource(ResourceType.TOPIC, f"{name}-own")
    settings = admin.describe_configs([resource])[resource].result(10)
    assert settings["cleanup.policy"].value == "compact"
    here = clients.admin({"bootstrap.servers": broker.bootstrap_servers})
    assert f"{name}-own" not in here.list_topics(timeout=10).topics


def test_a_topic_that_cannot_be_used_fails_the_connector(
    other_broker: BrokerAddress, cluster: ThreadCluster, name: str
) -> None:
    create_topic(other_broker.bootstrap_servers, f"{name}-own", config={"cleanup.policy": "delete"})
    given = {"offsets.storage.topic": f"{name}-own"}
    cluster.verbs.create(name, source(name, **there(other_broker), **given), None)
    cluster.wait_for(name, State.FAILED)
    trace = cluster.verbs.status(name).connector.trace or ""
    assert "offsets.storage.topic" in trace
    assert "cleanup.policy=delete" in trace


def test_a_forbidden_override_does_not_run(
    broker: BrokerAddress, other_broker: BrokerAddress, unique: str
) -> None:
    none = {"connector.client.config.override.policy": "None"}
    with thread_cluster(broker.bootstrap_servers, unique, none) as strict:
        strict.verbs.create("c", source("c", **there(other_broker)), None)
        strict.wait_for("c", State.FAILED)
        trace = strict.verbs.status("c").connector.trace or ""
        assert "Client Config Overrides not allowed" in trace
        with pytest.raises(RequestError, match="overridden in the connector configuration"):
            strict.verbs.offsets("c")


@pytest.mark.parametrize("task", [0, 1])
def test_zombies_are_fenced_on_their_own_cluster(
    broker: BrokerAddress,
    other_broker: BrokerAddress,
    cluster: ThreadCluster,
    name: str,
    task: int,
) -> None:
    """A task that was left behind can commit no more once its offsets were moved."""
    config = source(name, **there(other_broker), tasks="2", last="2")
    config["tasks.max"] = "2"
    cluster.verbs.create(name, config, None)
    cluster.wait_for(name, State.RUNNING, State.RUNNING, State.RUNNING)
    cluster.stop_connector(name)
    zombie = Producer(
        {
            "bootstrap.servers": other_broker.bootstrap_servers,
            "transactional.id": task_transactional_id(GROUP, name, task),
        }
    )
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(OFFSETS, b'{"position":99}', key(name, str(task)))
    cluster.verbs.alter_offsets(name, [at(4), at(4, "1")])
    with pytest.raises(KafkaException):
        zombie.commit_transaction(30)
    assert held(cluster, name) == {"t0": 4, "t1": 4}


def test_a_sink_on_another_cluster(
    broker: BrokerAddress, other_broker: BrokerAddress, cluster: ThreadCluster, name: str
) -> None:
    topic = f"{name}-data"
    create_topic(other_broker.bootstrap_servers, topic)
    produce(other_broker.bootstrap_servers, topic, [(None, b"a"), (None, b"b"), (None, b"c")])
    given = {"consumer.override.bootstrap.servers": other_broker.bootstrap_servers}
    config = {"name": name, "connector.class": SINK, "topics": topic, **given}
    cluster.verbs.create(name, config, None)
    wait_until(lambda: ObedientSinkTask.got.get(name) == ["a", "b", "c"], what="the records")
    cluster.stop_connector(name)

    def positions() -> list[Any]:
        return [(e.offset or {})["kafka_offset"] for e in cluster.verbs.offsets(name)]

    assert positions() == [3]
    entry = OffsetEntry({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 1})
    wait_until(lambda: _altered(cluster, name, entry), what="the group to be empty")
    assert positions() == [1]
    cluster.verbs.resume(name)
    wait_until(lambda: ObedientSinkTask.got[name][3:] == ["b", "c"], what="what comes again")
    cluster.stop_connector(name)
    wait_until(lambda: _reset(cluster, name), what="the group to be empty")
    assert positions() == []
    # nothing of it was ever on the worker's cluster
    ours = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"connect-{name}"})
    try:
        assert topic not in ours.list_topics(timeout=10).topics
    finally:
        ours.close()


@pytest.mark.parametrize("address", ["no-such-host.invalid:9092", "127.0.0.1"])
def test_a_sink_whose_kafka_does_not_exist_fails(
    cluster: ThreadCluster, name: str, address: str
) -> None:
    given = {"consumer.override.bootstrap.servers": address}
    config = {"name": name, "connector.class": SINK, "topics": "t", **given}
    cluster.verbs.create(name, config, None)
    cluster.wait_for(name, State.RUNNING, State.FAILED)
    (task,) = cluster.verbs.status(name).tasks.values()
    assert "bootstrap.servers" in (task.trace or "")


def _altered(cluster: ThreadCluster, name: str, entry: OffsetEntry) -> bool:
    try:
        cluster.verbs.alter_offsets(name, [entry])
    except RequestError:
        return False
    return True


def _reset(cluster: ThreadCluster, name: str) -> bool:
    try:
        cluster.verbs.reset_offsets(name)
    except RequestError:
        return False
    return True
