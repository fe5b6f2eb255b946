"""Observing a real Kafka: topics that are there, topics that are not, and one that blocks."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from connect_reconciler.actions import AlterOffsets
from connect_reconciler.backend import open_backend
from connect_reconciler.backend.observe import kafka_view
from connect_reconciler.model.ledger import AppliedPin, Owned
from connect_reconciler.model.ledger_records import fingerprint_key_record, owned_record, pin_record
from connect_reconciler.model.live import Live, LogRange
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.planner import make_plan
from connect_runtime.kafka.clients import admin, consumer, producer
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic, offsets_topic, status_topic
from connect_runtime.storage.log import InternalTopic, LogBlocked
from connect_runtime.storage.snapshots import OffsetSnapshot, State, Status, TaskId
from connect_specs.desired import (
    Desired,
    DesiredConnector,
    OffsetEntry,
    Pin,
    Project,
    TargetState,
    sink_entry,
)
from connect_specs.diagnostics import Location, Unreachable
from support.broker import BrokerAddress, create_topic, produce
from support.projects import project_of

NOBODY = Desired("orders", {})


@pytest.fixture
def client(broker: BrokerAddress) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def project(client: dict[str, str], unique: str) -> Project:
    return project_of(unique, kafka=client)


@pytest.fixture
def logs(client: dict[str, str], project: Project) -> KafkaLogs:
    made = KafkaLogs(client)
    topics = project.topics
    for topic in (topics.config, topics.status, topics.offsets, topics.ledger):
        made.ensure_compacted(InternalTopic(topic, 1, "tests"))
    return made


def sink(name: str, topic: str, pin: Pin | None = None) -> DesiredConnector:
    config = {"name": name, "connector.class": "FileStreamSink", "topics": topic}
    return DesiredConnector(name, config, Location("a.yaml"), pin=pin)


def test_a_cluster_that_nobody_made_yet_is_empty(
    project: Project, client: dict[str, str], broker: BrokerAddress
) -> None:
    before = int(time.time() * 1000)
    live = open_backend(project, client).observe(NOBODY)
    assert live == Live(cluster_id=broker.cluster_id, now_ms=live.now_ms, ours=True)
    assert before <= live.now_ms <= time.time() * 1000
    topics = admin(client).list_topics(timeout=10).topics
    assert not [topic for topic in topics if topic.startswith(project.group_id)]


def test_all_that_is_there(
    project: Project, client: dict[str, str], logs: KafkaLogs, unique: str
) -> None:
    topics, data, name = project.topics, f"{unique}-data", f"{unique}-sink"
    source = {"name": "s", "connector.class": "FileStreamSource", "file": "f", "topic": data}
    held = sink(name, data)
    running = Status(State.RUNNING, "w", 1)
    logs.writer(f"{unique}-tests").write(
        [
            config_topic.target_state_record(topics.config, "s", TargetState.PAUSED),
            config_topic.connector_record(topics.config, "s", source),
            config_topic.connector_record(topics.config, name, held.config),
            status_topic.connector_record(topics.status, name, running),
            status_topic.task_record(topics.status, TaskId(name, 0), running),
            *offsets_topic.offset_records(
                topics.offsets,
                "s",
                [({"filename": "f"}, {"position": 7})],
                OffsetSnapshot(),
            ),
            *offsets_topic.offset_records(
                topics.offsets, "deleted", [({"p": 1}, {"o": 2})], OffsetSnapshot()
            ),
            owned_record(topics.ledger, "s", Owned("orders", {}, None)),
            pin_record(topics.ledger, "s", "p", AppliedPin("h", None)),
            fingerprint_key_record(topics.ledger, b"kept"),
        ]
    )
    create_topic(client["bootstrap.servers"], data)
    produce(client["bootstrap.servers"], data, [(None, b"x")] * 10)
    commit(client, f"connect-{name}", data, 4)
    pin = Pin(
        "back", (OffsetEntry({"kafka_topic": data, "kafka_partition": 0}, {"kafka_offset": 1}),)
    )
    live = open_backend(project, client).observe(Desired("orders", {name: replace(held, pin=pin)}))

    assert live.connectors["s"].target is TargetState.PAUSED
    assert live.connectors["s"].kind == "source"
    assert live.connectors["s"].offsets == Offsets(
        (OffsetEntry({"filename": "f"}, {"position": 7}),)
    )
    found = live.connectors[name]
    assert (found.kind, found.target, found.state, found.task_states) == (
        "sink",
        TargetState.RUNNING,
        "RUNNING",
        ("RUNNING",),
    )
    assert found.config == held.config
    assert found.offsets == Offsets((sink_entry((data, 0), 4),))
    assert live.logs.ranges == {(data, 0): LogRange(0, 10)}
    # the records where moves begin, and the log's end
    assert live.logs.timestamps.keys() == {(data, 0, 1), (data, 0, 4), (data, 0, 10)}
    assert live.orphan_offsets == {"deleted": Offsets((OffsetEntry({"p": 1}, {"o": 2}),))}
    assert live.ledger.pins == {("s", "p"): AppliedPin("h", None)}
    assert live.ledger.fingerprint_key == b"kept"
    assert live.kinds == {"FileStreamSink": "sink", "FileStreamSource": "source"}
    assert live.offsets_after_change == {}

    commit(client, f"{unique}-other", data, 6)
    config = held.config | {"consumer.override.group.id": f"{unique}-other"}
    live = open_backend(project, client).observe(
        Desired("orders", {name: replace(held, config=config)})
    )
    assert live.connectors[name].offsets == found.offsets
    assert live.offsets_after_change == {name: Offsets((sink_entry((data, 0), 6),))}


def test_where_a_time_is_in_every_partition_of_a_new_sink(
    project: Project, client: dict[str, str], unique: str
) -> None:
    topic, name = f"{unique}-data", f"{unique}-sink"
    create_topic(client["bootstrap.servers"], topic, partitions=3, config={"retention.ms": "-1"})
    writer = producer(client, {})
    for partition, at_ms in ((0, 1000), (0, 2000), (0, 3000), (1, 1500)):
        writer.produce(topic, b"x", partition=partition, timestamp=at_ms)
    assert writer.flush(30) == 0
    desired = Desired("orders", {name: sink(name, topic, Pin("go", to=2000))})
    live = open_backend(project, client).observe(desired)

    assert live.logs.topics == {topic: 3}
    assert live.logs.first_since == {(topic, 0, 2000): 1, (topic, 1, 2000): 1, (topic, 2, 2000): 0}
    # the record that each move passes over first, and the newest
    assert live.logs.timestamps == {(topic, 0, 1): 2000, (topic, 0, 3): 3000}
    plan = make_plan(desired, live, group_id=unique)
    (alter,) = (action for action in plan.actions if isinstance(action, AlterOffsets))
    assert [move.entry.offset for move in alter.moves] == [
        {"kafka_offset": 1},
        {"kafka_offset": 1},
        {"kafka_offset": 0},
    ]


def commit(client: dict[str, str], group: str, topic: str, offset: int) -> None:
    member = consumer(client, {"group.id": group, "enable.auto.commit": False})
    member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    member.close()


@pytest.mark.parametrize(
    ("given", "key"),
    [("00ff", b"\x00\xff"), ("a word", b"a word"), ("no text \udcff", b"no text \xff")],
)
def test_a_given_key_wins(
    project: Project,
    client: dict[str, str],
    logs: KafkaLogs,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    key: bytes,
) -> None:
    record = fingerprint_key_record(project.topics.ledger, b"kept")
    logs.writer(f"{project.group_id}-tests").write([record])
    monkeypatch.setenv("CONNECT_FINGERPRINT_KEY", given)
    assert open_backend(project, client).observe(NOBODY).ledger.fingerprint_key == key


def test_an_open_transaction_is_named(
    project: Project, client: dict[str, str], logs: KafkaLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_view, "READ_TIMEOUT_S", 0.5)
    killed = producer(client, {"transactional.id": f"{project.group_id}-killed"})
    killed.init_transactions(10)
    killed.begin_transaction()
    killed.produce(project.topics.offsets, key=b'["a",{"p":1}]', value=b'{"o":1}')
    killed.flush(10)
    with pytest.raises(LogBlocked, match="from offset 0") as blocked:
        open_backend(project, client).observe(NOBODY)
    assert blocked.value.diagnostics[0].where == f"{project.topics.offsets}-0"
    killed.abort_transaction(10)


def test_nobody_there_is_said_in_time(project: Project) -> None:
    begun = time.monotonic()
    with pytest.raises(Unreachable) as error:
        open_backend(project, {"bootstrap.servers": "127.0.0.1:1"}).observe(NOBODY)
    assert error.value.exit_code == 3
    assert time.monotonic() - begun < 25
