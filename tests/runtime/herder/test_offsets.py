"""Offsets altered and reset on a real broker, with tasks that run (KIP-875, KIP-618)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.clients import admin
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry, TargetState
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.connectors import SINK, SOURCE, ObedientSinkTask, ObedientSource
from support.connectors import partition as source_partition
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
ALTERED_HERE = (
    "The Connect framework-managed offsets for this connector have been altered successfully. "
    "However, if this connector manages offsets externally, they will need to be manually altered "
    "in the system that the connector uses."
)
RESET_HERE = ALTERED_HERE.replace("altered", "reset")
ACTIVE = (
    "Failed to {} for connector {} either because its tasks haven't stopped completely yet or the "
    "connector was resumed before the request to {} its offsets could be successfully completed. "
    "If the connector is in a stopped state, this operation can be safely retried. If it doesn't "
    "eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie "
    "sink tasks."
)


@pytest.fixture(scope="module")
def cluster(broker: BrokerAddress) -> Iterator[ThreadCluster]:
    """One runtime for all: each test has a connector of its own."""
    with thread_cluster(broker.bootstrap_servers, f"offsets-{secrets.token_hex(4)}") as made:
        yield made


@pytest.fixture
def topic(broker: BrokerAddress, unique: str) -> str:
    """A topic of two partitions."""
    create_topic(broker.bootstrap_servers, unique, partitions=2)
    return unique


@pytest.fixture
def name(unique: str, cluster: ThreadCluster) -> Iterator[str]:
    """A connector's name; it is deleted in the end."""
    yield f"c-{unique}"
    if f"c-{unique}" in cluster.verbs.connectors():
        cluster.verbs.delete(f"c-{unique}")
    ObedientSource.hooks.pop(f"c-{unique}", None)


def source(name: str, topic: str, **more: str) -> dict[str, str]:
    return {"name": name, "connector.class": SOURCE, "topic": topic, "tasks.max": "2", **more}


def sink(name: str, topic: str, **more: str) -> dict[str, str]:
    return {"name": name, "connector.class": SINK, "topics": topic, "tasks.max": "1", **more}


def values(broker: BrokerAddress, topic: str) -> list[str]:
    """The topic's values, sorted: its two partitions are read in any order."""
    return sorted(m.value().decode() for m in read_to_end(broker.bootstrap_servers, topic))


def keys(broker: BrokerAddress, cluster: ThreadCluster, name: str) -> list[tuple[bytes, Any]]:
    """Records of the connector in the offsets topic."""
    found = read_to_end(broker.bootstrap_servers, cluster.connect.herder._topics.offsets)
    return [(m.key(), m.value()) for m in found if f'"{name}"'.encode() in m.key()]


def at(position: int | None, number: str = "0") -> OffsetEntry:
    offset = None if position is None else {"position": position}
    return OffsetEntry(source_partition(number), offset)


def seek(topic: str, number: int, offset: int | None) -> OffsetEntry:
    return OffsetEntry(
        {"kafka_topic": topic, "kafka_partition": number},
        None if offset is None else {"kafka_offset": offset},
    )


def held(cluster: ThreadCluster, name: str) -> dict[str, int]:
    """The positions of a source, by table."""
    return {
        str(e.partition["table"]): int(str((e.offset or {})["position"]))
        for e in cluster.verbs.offsets(name)
    }


def test_source_offsets_are_altered_and_used(
    broker: BrokerAddress, cluster: ThreadCluster, topic: str, name: str
) -> None:
    cluster.verbs.create(name, source(name, topic, tasks="2", last="6"), None)
    cluster.wait_for(name, State.RUNNING, State.RUNNING, State.RUNNING)
    wait_until(lambda: len(values(broker, topic)) == 12, what="both tasks' numbers")
    cluster.stop_connector(name)
    assert held(cluster, name) == {"t0": 6, "t1": 6}

    # task 0 goes back, task 1 begins anew
    assert cluster.verbs.alter_offsets(name, [at(4), at(None, "1")]) == ALTERED
    assert held(cluster, name) == {"t0": 4}

    cluster.verbs.resume(name)
    wait_until(lambda: len(values(broker, topic)) >= 20, what="what is delivered again")
    cluster.stop_connector(name)
    assert values(broker, topic) == sorted([*map(str, range(6))] * 3 + ["4", "5"])
    assert held(cluster, name) == {"t0": 6, "t1": 6}


def test_source_offsets_are_reset(
    broker: BrokerAddress, cluster: ThreadCluster, topic: str, name: str
) -> None:
    cluster.verbs.create(name, source(name, topic, last="4"), None)
    wait_until(lambda: len(values(broker, topic)) == 4, what="all numbers")
    cluster.stop_connector(name)
    assert cluster.verbs.reset_offsets(name) == RESET
    assert cluster.verbs.offsets(name) == []
    assert cluster.verbs.reset_offsets(name) == RESET

    cluster.verbs.resume(name)
    wait_until(lambda: len(values(broker, topic)) == 8, what="all numbers again")
    assert values(broker, topic) == sorted(["0", "1", "2", "3"] * 2)


def test_the_key_bytes_that_a_partition_has_are_used_again(
    broker: BrokerAddress, cluster: ThreadCluster, topic: str, name: str
) -> None:
    """Connect's own order of fields is another one: a second key would live beside the first."""
    other = f'["{name}",{{"table":"t0","schema":"s"}}]'.encode()
    cluster.verbs.create(name, source(name, topic, last="8"), TargetState.STOPPED)
    offsets_topic = cluster.connect.herder._topics.offsets
    record = NewRecord(offsets_topic, other, b'{"position":2}')
    cluster.logs.writer(f"by-{name}").write([record])

    cluster.verbs.alter_offsets(name, [at(4)])
    cluster.verbs.resume(name)
    wait_until(lambda: held(cluster, name) == {"t0": 8}, what="the task to go on from 4")
    cluster.stop_connector(name)
    cluster.verbs.reset_offsets(name)

    found = keys(broker, cluster, name)
    assert {key for key, _ in found} == {other}
    assert [value for _, value in found][:2] == [b'{"position":2}', b'{"position":4}']
    assert [value for _, value in found][-2:] == [b'{"position":8}', None]
    assert values(broker, topic) == ["4", "5", "6", "7"]


def test_a_zombie_cannot_commit_after_offsets_were_altered(
    broker: BrokerAddress, cluster: ThreadCluster, topic: str, name: str
) -> None:
    cluster.verbs.create(name, source(name, topic, last="2"), None)
    wait_until(lambda: len(values(broker, topic)) == 2, what="all numbers")
    cluster.stop_connector(name)
    group = cluster.connect._settings.group_id
    zombie = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": f"{group}-{name}-0",
        }
    )
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(topic, value=b"late")
    key = f'["{name}",{{"schema":"s","table":"t0"}}]'
    zombie.produce(cluster.connect.herder._topics.offsets, key=key, value=b'{"position":99}')
    zombie.flush(10)

    assert cluster.verbs.alter_offsets(name, [at(1)]) == ALTERED

    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(10)
    assert fenced.value.args[0].code() in (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    )
    assert held(cluster, name) == {"t0": 1}
    assert values(broker, topic) == ["0", "1"]


@pytest.mark.parametrize("kind", ["source", "sink"])
@pytest.mark.parametrize(
    ("alter", "text"),
    [
        ("true", None),
        ("false", None),
        ("refuse", "not these offsets"),
        (
            "unsupported",
            "Failed to modify offsets for connector {name} because it doesn't support external "
            "modification of offsets",
        ),
        ("break", "Failed to modify offsets for {kind} connector {name}"),
    ],
)
def test_the_answer_follows_from_what_the_connector_says(
    cluster: ThreadCluster, topic: str, name: str, kind: str, alter: str, text: str | None
) -> None:
    config = (source if kind == "source" else sink)(name, topic, alter=alter)
    cluster.verbs.create(name, config, TargetState.STOPPED)
    entry = at(3) if kind == "source" else seek(topic, 0, 3)
    if text is None:
        handled = alter == "true"
        assert cluster.verbs.alter_offsets(name, [entry]) == (ALTERED if handled else ALTERED_HERE)
        assert cluster.verbs.offsets(name) == [entry]
        assert cluster.verbs.reset_offsets(name) == (RESET if handled else RESET_HERE)
        assert cluster.verbs.offsets(name) == []
        return
    for ask in (
        lambda: cluster.verbs.alter_offsets(name, [entry]),
        lambda: cluster.verbs.reset_offsets(name),
    ):
        with pytest.raises(RequestError) as refused:
            ask()
        assert refused.value.status == 500
        assert refused.value.message == text.format(kind=kind, name=name)
    assert cluster.verbs.offsets(name) == []
    # nothing is left in the way of the next request
    cluster.verbs.stop(name)


def test_no_other_change_while_offsets_are_changed(
    cluster: ThreadCluster, topic: str, name: str
) -> None:
    """The connector's hook is asked in between: it sees all verbs refused."""
    cluster.verbs.create(name, source(name, topic), TargetState.STOPPED)
    refused: list[int] = []

    def hook(_: object) -> None:
        for ask in (
            lambda: cluster.verbs.resume(name),
            lambda: cluster.verbs.delete(name),
            lambda: cluster.verbs.reset_offsets(name),
        ):
            with pytest.raises(RequestError) as error:
                ask()
            refused.append(error.value.status)

    ObedientSource.hooks[name] = hook
    assert cluster.verbs.alter_offsets(name, [at(3)]) == ALTERED
    assert refused == [409, 409, 409]


def test_sink_offsets_are_altered_and_used(
    broker: BrokerAddress, cluster: ThreadCluster, topic: str, name: str
) -> None:
    for number in range(2):
        rows = [(None, f"{number}-{n}".encode()) for n in range(4)]
        produce(broker.bootstrap_servers, topic, rows, partition=number)
    got = ObedientSinkTask.got.setdefault(name, [])
    cluster.verbs.create(name, sink(name, topic), None)
    wait_until(lambda: len(got) == 8, what="all records")
    cluster.stop_connector(name)
    both = [seek(topic, 0, 4), seek(topic, 1, 4)]
    assert cluster.verbs.offsets(name) == both

    # one goes back, the other begins anew; numbers may be text, as Connect takes them
    entry = OffsetEntry({"kafka_topic": topic, "kafka_partition": "0"}, {"kafka_offset": "3"})
    assert cluster.verbs.alter_offsets(name, [entry, seek(topic, 1, None)]) == ALTERED
    assert cluster.verbs.offsets(name) == [seek(topic, 0, 3)]
    got.clear()
    cluster.verbs.resume(name)
    wait_until(lambda: len(got) >= 5, what="what is delivered again")
    cluster.stop_connector(name)
    assert sorted(got) == ["0-3", "1-0", "1-1", "1-2", "1-3"]

    assert cluster.verbs.reset_offsets(name) == RESET
    assert cluster.verbs.offsets(name) == []
    assert cluster.verbs.reset_offsets(name) == RESET


def test_an_overridden_group_is_the_one_that_moves(
    broker: BrokerAddress, cluster: ThreadCluster, topic: str, name: str
) -> None:
    produce(broker.bootstrap_servers, topic, [(None, b"a"), (None, b"b")])
    config = sink(name, topic, **{"consumer.override.group.id": f"own-{name}"})
    got = ObedientSinkTask.got.setdefault(name, [])
    cluster.verbs.create(name, config, None)
    wait_until(lambda: got == ["a", "b"], what="all records")
    cluster.stop_connector(name)
    groups = cluster.verbs._offsets._groups
    clients = cluster.connect._sources.clients(name, config, "sink")
    assert clients.group == f"own-{name}"
    assert groups.offsets(clients) == {(topic, 0): 2}
    assert groups.offsets(cluster.connect._sources.clients(name, {}, "sink")) == {}

    assert cluster.verbs.alter_offsets(name, [seek(topic, 0, 1)]) == ALTERED
    assert groups.offsets(clients) == {(topic, 0): 1}
    cluster.verbs.resume(name)
    wait_until(lambda: got == ["a", "b", "b"], what="one record again")
    cluster.stop_connector(name)
    assert cluster.verbs.reset_offsets(name) == RESET
    assert cluster.verbs.offsets(name) == []


def test_a_group_with_members_is_not_touched(
    broker: BrokerAddress, cluster: ThreadCluster, topic: str, name: str
) -> None:
    cluster.verbs.create(name, sink(name, topic), TargetState.STOPPED)
    cluster.verbs.alter_offsets(name, [seek(topic, 0, 0)])
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"connect-{name}"}
    )
    try:
        member.subscribe([topic])
        wait_until(lambda: member.poll(0.1) or member.assignment(), what="the member to join")
        for ask, what, request in (
            (
                lambda: cluster.verbs.alter_offsets(name, [seek(topic, 0, 1)]),
                "alter consumer group offsets",
                "alter",
            ),
            (
                lambda: cluster.verbs.alter_offsets(name, [seek(topic, 0, None)]),
                "alter consumer group offsets",
                "alter",
            ),
            (lambda: cluster.verbs.reset_offsets(name), "reset consumer group offsets", "reset"),
        ):
            with pytest.raises(RequestError) as refused:
                ask()
            assert refused.value.status == 500
            assert refused.value.message == ACTIVE.format(what, name, request)
    finally:
        member.close()
    assert cluster.verbs.offsets(name) == [seek(topic, 0, 0)]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (("missing-topic", 0, 1), "Failed to alter consumer group offsets for connector {name}"),
        (("", 0, -1), "Failed to modify offsets for sink connector {name}"),
    ],
    ids=["unknown topic", "negative"],
)
def test_sink_offsets_that_kafka_refuses(
    cluster: ThreadCluster, topic: str, name: str, entry: tuple[str, int, int], text: str
) -> None:
    cluster.verbs.create(name, sink(name, topic), TargetState.STOPPED)
    with pytest.raises(RequestError) as refused:
        cluster.verbs.alter_offsets(name, [seek(entry[0] or topic, *entry[1:])])
    assert (refused.value.status, refused.value.message) == (500, text.format(name=name))
    assert cluster.verbs.offsets(name) == []


def test_offsets_of_a_stopped_sink_are_reset_though_a_task_had_no_partitions(
    broker: BrokerAddress, cluster: ThreadCluster, topic: str, name: str
) -> None:
    """Such a task, too, has left the group when it has stopped."""
    tasks = {"tasks.max": "3", "tasks": "3"}
    cluster.verbs.create(name, sink(name, topic) | tasks, TargetState.RUNNING)
    cluster.wait_for(name, State.RUNNING, *[State.RUNNING] * 3)
    client = admin({"bootstrap.servers": broker.bootstrap_servers})
    group = f"connect-{name}"

    def members() -> int:
        return len(client.describe_consumer_groups([group])[group].result().members)

    wait_until(lambda: members() == 3, what="three members")
    cluster.stop_connector(name)
    # sooner than their sessions are over, after 45 s
    wait_until(lambda: members() == 0, what="no member", timeout_s=15)
    cluster.verbs.reset_offsets(name)
    assert cluster.verbs.offsets(name) == []


@pytest.mark.parametrize("read_before", [True, False])
def test_offsets_of_a_topic_that_is_gone_are_unknown_not_none(
    broker: BrokerAddress, unique: str, read_before: bool
) -> None:
    with thread_cluster(broker.bootstrap_servers, unique) as cluster:
        cluster.verbs.create("c", source("c", unique), TargetState.STOPPED)
        if read_before:
            assert cluster.verbs.offsets("c") == []
        gone = f"{unique}-offsets"
        client = admin({"bootstrap.servers": broker.bootstrap_servers})
        client.delete_topics([gone])[gone].result()
        # Kafka has answered for its controller: the broker learns of it a moment later
        wait_until(
            lambda: gone not in client.list_topics(timeout=10).topics, what="the topic to be gone"
        )
        asked: tuple[Callable[[], object], ...] = (
            lambda: cluster.verbs.offsets("c"),
            lambda: cluster.verbs.alter_offsets("c", [at(4)]),
            lambda: cluster.verbs.reset_offsets("c"),
        )
        for ask in asked:
            with pytest.raises(RequestError, match=gone) as refused:
                ask()
            assert refused.value.status == 500
        said = wait_until(cluster.verbs.degraded, what="the problem")
        assert said == f"Topics of the cluster cannot be used: topic {gone} does not exist any more"
