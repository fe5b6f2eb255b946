"""Source tasks whose data or offsets are on another Kafka cluster, or in a topic of their own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from connect_runtime.java.offset_bytes import offset_key_bytes
from connect_runtime.kafka import clients
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry
from support.broker import BrokerAddress, produce, read_to_end
from support.connectors import SOURCE
from support.connectors import partition as source_partition
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

GROUP = f"tasks-{secrets.token_hex(4)}"
OFFSETS = f"{GROUP}-offsets"
CREATED = {
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "3",
}


@pytest.fixture(scope="module")
def cluster(broker: BrokerAddress) -> Iterator[ThreadCluster]:
    with thread_cluster(broker.bootstrap_servers, GROUP) as made:
        yield made


@pytest.fixture
def name(unique: str, cluster: ThreadCluster) -> Iterator[str]:
    yield f"c-{unique}"
    if f"c-{unique}" in cluster.verbs.connectors():
        cluster.verbs.delete(f"c-{unique}")


def source(name: str, **more: str) -> dict[str, str]:
    return {"name": name, "connector.class": SOURCE, "topic": f"{name}-data"} | CREATED | more


def there(broker: BrokerAddress) -> dict[str, str]:
    return {"producer.override.bootstrap.servers": broker.bootstrap_servers}


def values(broker: BrokerAddress, topic: str) -> list[int]:
    admin = clients.admin({"bootstrap.servers": broker.bootstrap_servers})
    if topic not in admin.list_topics(timeout=10).topics:
        return []
    return sorted(int(m.value()) for m in read_to_end(broker.bootstrap_servers, topic))


def newest(broker: BrokerAddress, topic: str, name: str) -> bytes | None:
    key = offset_key_bytes(name, source_partition("0"))
    found = [m.value() for m in read_to_end(broker.bootstrap_servers, topic) if m.key() == key]
    return found[-1] if found else None


@pytest.mark.parametrize("dedicated", ["", "own"])
def test_a_source_resumes_on_another_cluster(
    broker: BrokerAddress,
    other_broker: BrokerAddress,
    cluster: ThreadCluster,
    name: str,
    dedicated: str,
) -> None:
    own = {"offsets.storage.topic": f"{name}-own"} if dedicated else {}
    topic = f"{name}-own" if dedicated else OFFSETS
    config = source(name, **there(other_broker), **own)
    # it goes on from what the worker's topic has
    key = offset_key_bytes(name, source_partition("0"))
    produce(broker.bootstrap_servers, OFFSETS, [(key, b'{"position":4}')])
    cluster.verbs.create(name, {**config, "last": "10"}, None)
    cluster.wait_for(name, State.RUNNING, State.RUNNING)
    wait_until(lambda: len(values(other_broker, f"{name}-data")) == 6, what="the records there")
    cluster.stop_connector(name)
    assert newest(other_broker, topic, name) == b'{"position":10}'
    # best effort: a copy, with the worker's login
    wait_until(lambda: newest(broker, OFFSETS, name) == b'{"position":10}', what="the copy")

    cluster.verbs.put_config(name, {**config, "last": "14"})
    cluster.verbs.resume(name)
    wait_until(lambda: len(values(other_broker, f"{name}-data")) >= 10, what="more records")
    cluster.stop_connector(name)
    assert values(other_broker, f"{name}-data") == list(range(4, 14))
    assert values(broker, f"{name}-data") == []

    cluster.verbs.alter_offsets(name, [OffsetEntry(source_partition("0"), {"position": 12})])
    cluster.verbs.resume(name)
    wait_until(lambda: len(values(other_broker, f"{name}-data")) >= 12, what="what comes again")
    cluster.stop_connector(name)
    assert values(other_broker, f"{name}-data") == sorted([*range(4, 14), 12, 13])


def test_the_topic_is_created_with_its_settings_before_the_first_record(
    other_broker: BrokerAddress, cluster: ThreadCluster, name: str
) -> None:
    cluster.verbs.create(name, source(name, **there(other_broker)), None)
    wait_until(lambda: len(values(other_broker, f"{name}-data")) == 10, what="the records there")
    admin = clients.admin({"bootstrap.servers": other_broker.bootstrap_servers})
    assert len(admin.list_topics(timeout=10).topics[f"{name}-data"].partitions) == 3


def test_a_task_does_not_run_with_a_forbidden_override(
    broker: BrokerAddress, other_broker: BrokerAddress, unique: str
) -> None:
    """Also where the connector was accepted before the policy was set."""
    config = source("c", **there(other_broker), topic=f"{unique}-data")
    with thread_cluster(broker.bootstrap_servers, unique) as before:
        before.verbs.create("c", config, None)
        before.wait_for("c", State.RUNNING, State.RUNNING)
    none = {"connector.client.config.override.policy": "None"}
    sent = len(values(other_broker, f"{unique}-data"))
    with thread_cluster(broker.bootstrap_servers, unique, none) as strict:
        wait_until(
            lambda: strict.verbs.status("c").connector.state is State.FAILED, what="c to fail"
        )
    assert len(values(other_broker, f"{unique}-data")) == sent
