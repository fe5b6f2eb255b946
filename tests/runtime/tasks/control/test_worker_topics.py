"""Topics that one process reads and writes for all tasks of a node, and what if it does not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from connect_runtime.kafka import clients
from connect_runtime.node import door as node_door
from connect_runtime.node import reads
from connect_runtime.node.server import Server
from connect_runtime.storage.snapshots import State, TaskId
from connect_runtime.tasks.control import assignments, worker_topics
from connect_runtime.tasks.control.assignments import AttemptAssignment, DesiredTaskState
from connect_runtime.tasks.control.statuses import StatusReporter
from connect_runtime.tasks.control.worker_topics import NodeFollower, NodeReader, NodeStatuses
from connect_runtime.tasks.launch import AttemptEnd
from support.broker import create_topic, produce, read_to_end

TASK = TaskId("src", 0)
FILE_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"
END_S = 20


@dataclass(slots=True)
class Serving:
    thread: threading.Thread
    over: threading.Event

    def end(self) -> None:
        self.over.set()
        self.thread.join(END_S)
        assert not self.thread.is_alive()


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The side of the server; tasks of this process have the other."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(node_door, "_door", ours)
    with ours, theirs:
        yield theirs


@pytest.fixture
def serving(door: socket.socket) -> Iterator[Serving]:
    over = threading.Event()
    server = Server(door, over.is_set, most=9)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    found = Serving(thread, over)
    yield found
    found.end()


@pytest.fixture
def started(cluster: Any, topic: Callable[[int], str], tmp_path: Path) -> Callable[[], Any]:
    def start() -> Any:
        file = tmp_path / "in.txt"
        file.write_text("one\n")
        config = {"task.class": FILE_TASK, "file": str(file), "topic": topic(1), "name": "src"}
        cluster.assign(TASK, 1)
        running = cluster.run(cluster.launch(TASK, config))
        cluster.wait_for_state(TASK, "RUNNING")
        return running

    return start


def test_a_task_needs_no_client_of_its_own_for_the_clusters_topics(
    cluster: Any, started: Callable[[], Any], serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    for of_its_own in ("KafkaFollower", "StartReader", "KafkaStatuses"):
        monkeypatch.setattr(worker_topics, of_its_own, None)
    running = started()
    cluster.assign(TASK, 1, "paused")
    cluster.wait_for_state(TASK, "PAUSED")
    cluster.assign(TaskId("another", 0), None)
    cluster.assign(TASK, 1)
    cluster.wait_for_state(TASK, "RUNNING")
    running.stop()


def test_a_task_follows_by_itself_once_nobody_serves_it(
    cluster: Any, started: Callable[[], Any], serving: Serving
) -> None:
    running = started()
    serving.end()
    cluster.assign(TASK, 2)
    assert running.outcome().ended is AttemptEnd.SUPERSEDED


def test_a_task_follows_by_itself_if_its_server_is_silent(
    cluster: Any,
    started: Callable[[], Any],
    door: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_topics, "_SILENT_S", 0.5)
    monkeypatch.setattr(node_door, "_SILENT_S", 0.1)
    running = started()
    running.stop()


def test_records_committed_before_a_read_are_read(cluster: Any, serving: Serving) -> None:
    """Whatever the connector's name is, and whoever wrote the keys; of others nothing is read."""
    servers, topic = cluster.bootstrap_servers, cluster.topics.offsets
    setup = cluster.setup(TaskId('a "b"', 0), {"name": 'a "b"'})
    reader = NodeReader(setup)
    for number in range(1, 4):
        keys = (
            rb'["a \"b\"",{"p":1}]',
            rb' [ "a \u0022b\u0022" , {"p":2} ]',
            b'["a",{"p":1}]',
            b"5",
        )
        value = b'{"n":%d}' % number
        # what Connect cannot read changes nothing
        records = [*((key, value) for key in keys), (keys[0], b"no JSON")]
        produce(servers, topic, records, partition=number % 3)
        found = reader.source_offsets().connectors
        assert {name: {k: o.offset for k, o in held.items()} for name, held in found.items()} == {
            'a "b"': {keys[0]: {"n": number}, keys[1]: {"n": number}}
        }
    produce(servers, topic, [(keys[0], None), (keys[1], None)])
    assert reader.source_offsets().connectors == {}
    cluster.assign(setup.id, 1)
    assignment = AttemptAssignment(setup)
    assert reader.read_assignment(assignment) is DesiredTaskState.RUN
    cluster.assign(setup.id, 1, "paused")
    assert reader.read_assignment(assignment) is DesiredTaskState.PAUSE
    cluster.assign(setup.id, 2)
    assert [reader.read_assignment(assignment), reader.read_assignment(assignment)] == [
        DesiredTaskState.SUPERSEDED
    ] * 2
    cluster.assign(setup.id, None)
    assert NodeReader(setup).read_assignment(AttemptAssignment(setup)) is DesiredTaskState.STOP
    assert reader._own is None


def test_a_topic_that_is_made_anew_or_grows_is_read_anew(cluster: Any, serving: Serving) -> None:
    servers, topic = cluster.bootstrap_servers, cluster.topics.offsets
    reader = NodeReader(cluster.setup(TASK, {"name": "src"}))
    records = [(b'["src",{"p":%d}]' % number, b"{}") for number in range(9)]
    produce(servers, topic, records)
    assert len(reader.source_offsets().connectors["src"]) == 9
    admin = clients.admin({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result()
    produce(servers, topic, [(b'["src",{"p":"new"}]', b"{}")], partition=3)
    assert len(reader.source_offsets().connectors["src"]) == 10
    admin.delete_topics([topic])[topic].result()
    create_topic(servers, topic)
    produce(servers, topic, records[:1] * 20)
    assert len(reader.source_offsets().connectors["src"]) == 1
    assert reader._own is None


def test_an_end_that_a_transaction_hides_is_waited_for(
    cluster: Any, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First by who serves, and then by the task itself, which can say so."""
    monkeypatch.setattr(reads, "_SILENCE_S", 0.5)
    monkeypatch.setattr(assignments, "_SILENCE_S", 60.0)
    writer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": cluster.name}
    )
    writer.init_transactions(END_S)
    writer.begin_transaction()
    writer.produce(cluster.topics.offsets, b"{}", b'["src",{"p":1}]')
    writer.flush()
    reader = NodeReader(cluster.setup(TASK, {"name": "src"}))
    threading.Timer(2.0, writer.commit_transaction).start()
    assert list(reader.source_offsets().connectors["src"]) == [b'["src",{"p":1}]']
    assert reader._own is not None
    reader.close()


def test_statuses_are_written_in_order(cluster: Any, serving: Serving) -> None:
    setup = cluster.setup(TASK, {"name": "src"})
    reporter = StatusReporter(setup)
    for state in (State.RUNNING, State.PAUSED, State.RUNNING, State.UNASSIGNED):
        reporter.write(reporter.record(state))
    reporter.close()
    key = f"status-task-{TASK}"
    states = [
        orjson.loads(each.value())["state"]
        for each in read_to_end(cluster.bootstrap_servers, cluster.topics.status)
        if each.key().decode() == key
    ]
    assert states == ["RUNNING", "PAUSED", "RUNNING", "UNASSIGNED"]


def test_a_status_that_is_refused_is_not_written_later(
    cluster: Any, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked may have written its next one by then."""
    monkeypatch.setattr(worker_topics, "TRY_S", -1.0)
    record = StatusReporter(cluster.setup(TASK, {"name": "src"})).record(State.RUNNING)
    late = NodeStatuses(cluster.setup(TASK, {"name": "src"})).write(record)
    assert late is not None
    assert late.passing
    assert not cluster.status(TASK)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_task_writes_and_reads_by_itself_if_nobody_answers(
    cluster: Any, door: socket.socket, monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    monkeypatch.setattr(node_door, "_SILENT_S", 0.1)
    if not frozen:
        door.close()
    setup = cluster.setup(TASK, {"name": "src"})
    reporter = StatusReporter(setup)
    reporter.write(reporter.record(State.RUNNING))
    reporter.close()
    assert cluster.status(TASK)["state"] == "RUNNING"
    cluster.assign(TASK, 1)
    reader = NodeReader(setup)
    assert reader.read_assignment(AttemptAssignment(setup)) is DesiredTaskState.RUN
    reader.close()


def test_a_frozen_process_holds_up_no_task_with_a_long_request(
    cluster: Any, door: socket.socket
) -> None:
    cluster.worker["ssl.truststore.certificates"] = "x" * 1_000_000
    setup = cluster.setup(TASK, {"name": "src"})
    control = NodeFollower(setup, AttemptAssignment(setup))
    assert control._node is None
    control.close()
