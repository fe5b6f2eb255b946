"""Connectors with a login of their own on another Kafka cluster: the rights of docs/security.md
suffice, and without one of them the connector says so."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclBinding

from connect_runtime.herder.errors import RequestError
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.connectors import SINK, SOURCE, ObedientSinkTask
from support.connectors import partition as source_partition
from support.guarded_broker import GuardedBroker, binding
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

GROUP = f"logins-{secrets.token_hex(4)}"
OFFSETS = f"{GROUP}-offsets"
USER = "reader"


@pytest.fixture(scope="module")
def cluster(broker: BrokerAddress) -> Iterator[ThreadCluster]:
    with thread_cluster(broker.bootstrap_servers, GROUP) as made:
        yield made


def overrides(kafka: GuardedBroker, client: str) -> dict[str, str]:
    return {f"{client}.override.{key}": value for key, value in kafka.client(USER).items()}


def source_rights(name: str, data: str) -> list[AclBinding]:
    given = [
        ("TOPIC", data, "WRITE"),
        ("TOPIC", OFFSETS, "WRITE"),
        ("TOPIC", OFFSETS, "READ"),
        ("TOPIC", OFFSETS, "DESCRIBE"),
        ("TOPIC", OFFSETS, "CREATE"),
        ("TRANSACTIONAL_ID", f"{GROUP}-{name}-0", "WRITE"),
    ]
    return [binding(USER, *each) for each in given]


def test_the_rights_of_a_source_suffice(
    guarded: GuardedBroker, cluster: ThreadCluster, unique: str
) -> None:
    name, data = f"c{unique[-8:]}", f"{unique}-data"
    servers = guarded.open["bootstrap.servers"]
    create_topic(servers, data)
    rights = source_rights(name, data)
    guarded.set_rights(rights)
    try:
        config = {"name": name, "connector.class": SOURCE, "topic": data, "last": "4"}
        cluster.verbs.create(name, config | overrides(guarded, "producer"), None)
        wait_until(lambda: len(read_to_end(servers, data)) == 4, what="the records")
        cluster.stop_connector(name)
        entry = OffsetEntry(source_partition("0"), {"position": 2})
        cluster.verbs.alter_offsets(name, [entry])
        (found,) = cluster.verbs.offsets(name)
        assert found.offset == {"position": 2}

        # each one that is missing is told: of the task, or of whoever asks
        guarded.take_rights([rights[-1]])
        with pytest.raises(RequestError, match="Failed to"):
            cluster.verbs.alter_offsets(name, [entry])
        cluster.verbs.resume(name)
        cluster.wait_for(name, State.RUNNING, State.FAILED)
        trace = cluster.verbs.status(name).tasks[0].trace or ""
        assert "ransactional" in trace and "of-a-test" not in trace
    finally:
        guarded.take_rights(rights)
        cluster.verbs.delete(name)


def test_without_the_right_to_create_its_offsets_topic_a_source_fails(
    guarded: GuardedBroker, cluster: ThreadCluster, unique: str
) -> None:
    name = f"c{unique[-8:]}"
    config = {"name": name, "connector.class": SOURCE, "topic": f"{unique}-data"}
    own = {"offsets.storage.topic": f"{unique}-own"}
    cluster.verbs.create(name, config | own | overrides(guarded, "producer"), None)
    try:
        cluster.wait_for(name, State.FAILED)
        trace = cluster.verbs.status(name).connector.trace or ""
        assert f"{unique}-own" in trace and "of-a-test" not in trace
    finally:
        cluster.verbs.delete(name)


def test_the_rights_of_a_sink_suffice(
    guarded: GuardedBroker, cluster: ThreadCluster, unique: str
) -> None:
    name, data = f"c{unique[-8:]}", f"{unique}-data"
    servers = guarded.open["bootstrap.servers"]
    create_topic(servers, data)
    produce(servers, data, [(None, b"a"), (None, b"b")])
    rights = [
        binding(USER, "TOPIC", data, "READ"),
        binding(USER, "GROUP", f"connect-{name}", "READ"),
        binding(USER, "GROUP", f"connect-{name}", "DELETE"),
    ]
    guarded.set_rights(rights)
    try:
        config = {"name": name, "connector.class": SINK, "topics": data}
        cluster.verbs.create(name, config | overrides(guarded, "consumer"), None)
        wait_until(lambda: ObedientSinkTask.got.get(name) == ["a", "b"], what="the records")
        cluster.stop_connector(name)
        entry = OffsetEntry({"kafka_topic": data, "kafka_partition": 0}, {"kafka_offset": 1})
        wait_until(lambda: _done(cluster, name, entry), what="the group to be empty")
        (found,) = cluster.verbs.offsets(name)
        assert found.offset == {"kafka_offset": 1}
        cluster.verbs.reset_offsets(name)
        assert cluster.verbs.offsets(name) == []
    finally:
        guarded.take_rights(rights)
        cluster.verbs.delete(name)


def _done(cluster: ThreadCluster, name: str, entry: OffsetEntry) -> bool:
    try:
        cluster.verbs.alter_offsets(name, [entry])
    except RequestError:
        return False
    return True
