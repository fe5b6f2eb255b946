"""Topics that an agent reads and writes for tasks, and tasks while it is replaced."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from connect_runtime.agent import client as agent_client
from connect_runtime.agent import topic_reads
from connect_runtime.agent.assignment_tail import AssignmentTail
from connect_runtime.kafka import clients
from connect_runtime.storage.snapshots import State, TaskId
from connect_runtime.tasks.control import assignments, worker_topics
from connect_runtime.tasks.control.assignments import (
    AssignmentFollower,
    AttemptAssignment,
    DesiredTaskState,
)
from connect_runtime.tasks.control.statuses import StatusReporter
from connect_runtime.tasks.control.worker_topics import WorkerTopics
from connect_runtime.tasks.kafka_failures import Interrupted
from connect_runtime.tasks.launch import AttemptEnd
from support.agent import END_S, Agent
from support.broker import create_topic, produce, read_to_end
from support.wait import wait_until

TASK = TaskId("src", 0)
FILE_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The side of the agent; tasks of this process have the other."""
    ours, of_agent = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(agent_client, "_door", ours)
    with ours, of_agent:
        yield of_agent


@pytest.fixture
def agent(door: socket.socket) -> Iterator[Agent]:
    started = Agent(door)
    yield started
    started.end()


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


def test_a_task_follows_its_assignments_while_its_agent_is_replaced(
    cluster: Any, started: Callable[[], Any], door: socket.socket, tmp_path: Path
) -> None:
    agent = Agent(door)
    running = started()
    agent.end()
    with (tmp_path / "in.txt").open("a") as more:
        more.write("two\n")
    wait_until(lambda: cluster.values() == ["one", "two"], what="records without an agent")
    cluster.assign(TASK, 1, "paused")
    agent = Agent(door)
    cluster.wait_for_state(TASK, "PAUSED")
    cluster.assign(TaskId("another", 0), None)
    agent.end()
    cluster.assign(TASK, 2)
    agent = Agent(door)
    assert running.outcome().ended is AttemptEnd.SUPERSEDED
    agent.end()


def test_a_request_waits_for_the_next_agent(cluster: Any, door: socket.socket) -> None:
    """Also one that the last agent took and did not answer."""
    cluster.assign(TASK, 1)
    setup = cluster.setup(TASK, {"name": "src"})
    states: list[DesiredTaskState] = []
    reading = threading.Thread(
        target=lambda: states.append(WorkerTopics(setup).newest_state()), daemon=True
    )
    reading.start()
    _, (connection, file), _, _ = socket.recv_fds(door, 1, 2)
    for descriptor in (connection, file):
        socket.close(descriptor)
    time.sleep(0.2)
    assert reading.is_alive()
    agent = Agent(door)
    reading.join(END_S)
    assert states == [DesiredTaskState.RUN]
    agent.end()


def test_a_task_whose_node_has_no_agent_any_more_is_interrupted(
    cluster: Any, door: socket.socket
) -> None:
    setup = cluster.setup(TASK, {"name": "src"})
    door.close()
    with pytest.raises(Interrupted, match="agent cannot be reached"):
        WorkerTopics(setup).newest_state()
    with pytest.raises(Interrupted, match="agent cannot be reached"):
        AssignmentFollower(setup, AttemptAssignment(setup))


def test_a_task_that_its_agent_refuses_is_interrupted(
    cluster: Any, door: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent has a connection for each task, and a system a limit of them."""
    monkeypatch.setattr(worker_topics, "PATIENCE_S", 0.3)
    monkeypatch.setattr(assignments, "_MOST_FAILURES", 3)
    monkeypatch.setattr(assignments, "_RETRY_S", 0.1)
    agent = Agent(door)
    agent.server._most = 0
    setup = cluster.setup(TASK, {"name": "src"})
    with pytest.raises(Interrupted, match="has not answered"):
        WorkerTopics(setup).newest_state()
    follower = AssignmentFollower(setup, AttemptAssignment(setup))
    with pytest.raises(Interrupted, match="agent refuses it"):
        while True:
            follower.desired(0.1)
    agent.end()


def test_a_task_whose_agent_cannot_follow_is_interrupted(
    cluster: Any, door: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that finds no certificate any more: it takes each request, and ends it."""

    def unreadable() -> Iterator[None]:
        raise RuntimeError("no certificate")
        yield

    monkeypatch.setattr(assignments, "_MOST_FAILURES", 3)
    monkeypatch.setattr(assignments, "_RETRY_S", 0.1)
    agent = Agent(door, lambda request, properties: AssignmentTail(unreadable))
    setup = cluster.setup(TASK, {"name": "src"})
    follower = AssignmentFollower(setup, AttemptAssignment(setup))
    deadline = time.monotonic() + END_S
    with pytest.raises(Interrupted, match="agent refuses it"):
        while time.monotonic() < deadline:
            follower.desired(0.1)
    agent.end()


def test_records_committed_before_a_read_are_read(cluster: Any, agent: Agent) -> None:
    """Whatever the connector's name is, and whoever wrote the keys; of others nothing is read."""
    servers, topic = cluster.bootstrap_servers, cluster.topics.offsets
    setup = cluster.setup(TaskId('a "b"', 0), {"name": 'a "b"'})
    reader = WorkerTopics(setup)
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
    assert WorkerTopics(setup).read_assignment(AttemptAssignment(setup)) is DesiredTaskState.STOP


def test_a_topic_that_is_made_anew_or_grows_is_read_anew(cluster: Any, agent: Agent) -> None:
    servers, topic = cluster.bootstrap_servers, cluster.topics.offsets
    reader = WorkerTopics(cluster.setup(TASK, {"name": "src"}))
    records = [(b'["src",{"p":%d}]' % number, b"{}") for number in range(9)]
    produce(servers, topic, records)
    assert len(reader.source_offsets().connectors["src"]) == 9
    admin = clients.admin({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result()
    # the broker learns of them a moment after its controller
    wait_until(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4,
        what="the new partition",
    )
    produce(servers, topic, [(b'["src",{"p":"new"}]', b"{}")], partition=3)
    assert len(reader.source_offsets().connectors["src"]) == 10
    admin.delete_topics([topic])[topic].result()
    create_topic(servers, topic)
    produce(servers, topic, records[:1] * 20)
    assert len(reader.source_offsets().connectors["src"]) == 1


def test_an_end_that_a_transaction_hides_is_waited_for(
    cluster: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task asks again."""
    monkeypatch.setattr(topic_reads, "_SILENCE_S", 0.5)
    writer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": cluster.name}
    )
    writer.init_transactions(END_S)
    writer.begin_transaction()
    writer.produce(cluster.topics.offsets, b"{}", b'["src",{"p":1}]')
    writer.flush()
    reader = WorkerTopics(cluster.setup(TASK, {"name": "src"}))
    threading.Timer(2.0, writer.commit_transaction).start()
    assert list(reader.source_offsets().connectors["src"]) == [b'["src",{"p":1}]']


def test_statuses_are_written_in_order(cluster: Any, agent: Agent) -> None:
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


def test_a_status_that_its_task_gave_up_is_not_written_later(
    cluster: Any, door: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next one may have been written by then."""
    monkeypatch.setattr(worker_topics, "_STATUS_S", 0.2)
    next_task = TaskId("src", 1)
    late, following = (cluster.setup(task, {"name": "src"}) for task in (TASK, next_task))
    unwritten = WorkerTopics(late).write_status(StatusReporter(late).record(State.RUNNING))
    assert unwritten is not None
    assert unwritten.passing
    agent = Agent(door)  # which finds the request in its door
    reporter = StatusReporter(following)
    reporter.write(reporter.record(State.RUNNING))
    reporter.close()
    assert cluster.status(next_task)
    assert not cluster.status(TASK)
    agent.end()
