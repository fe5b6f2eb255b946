"""The topics that a standalone worker serves: what tasks may do, and what an end of it is."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.agent.client import AgentClient, LineReader
from connect_runtime.agent.messages import (
    Follow,
    ReadAssignment,
    ReadOffsets,
    Request,
    WriteOffsets,
    WriteStatus,
)
from connect_runtime.agent.server import AgentServer
from connect_runtime.standalone.logs import StandaloneLogs
from connect_runtime.standalone.server import TopicsServer
from connect_runtime.storage.assignments_topic import assignment_record
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offset_file import OffsetFile
from connect_runtime.storage.snapshots import Assignment, TaskId
from connect_runtime.tasks.control import worker_topics
from connect_runtime.tasks.control.assignments import (
    AssignmentFollower,
    AttemptAssignment,
    DesiredTaskState,
)
from connect_runtime.tasks.control.worker_topics import ServedOffsets, WorkerTopics
from connect_runtime.tasks.kafka_failures import Interrupted
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Failed
from connect_specs.names import ClusterTopics
from support.task_setups import task_setup
from support.wait import wait_until

TOPICS = ClusterTopics.of("standalone")
TASK = TaskId("c", 0)
KEY = b'["c",{"p":1}]'


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[StandaloneLogs]:
    made = StandaloneLogs(TOPICS, OffsetFile.open(tmp_path / "offsets"), "cluster")
    yield made
    made.close()


@pytest.fixture
def server(logs: StandaloneLogs) -> Iterator[TopicsServer]:
    made = TopicsServer(logs, TOPICS)
    yield made
    made.close()
    assert not Path(made.path).parent.exists()
    wait_until(
        lambda: not [t for t in threading.enumerate() if t.name == "serve-tasks"],
        what="all threads to end",
    )


def task_of(server: TopicsServer, offset: int = 0) -> TaskSetup:
    return task_setup(group_id="standalone", assignments_offset=offset, socket=server.path)


def assign(logs: StandaloneLogs, state: TargetState | None, attempt: int = 1) -> None:
    wanted = None if state is None else Assignment(attempt, "leader", state, 0)
    logs.writer("leader").write([assignment_record(TOPICS.assignments, TASK, wanted)])


def test_an_attempt_follows_its_assignment(logs: StandaloneLogs, server: TopicsServer) -> None:
    assign(logs, TargetState.STOPPED)
    assign(logs, TargetState.RUNNING)
    task = task_of(server, offset=2)
    assignment = AttemptAssignment(task)
    reader = WorkerTopics(task)
    assert reader.read_assignment(assignment) is DesiredTaskState.RUN
    control = AssignmentFollower(task, assignment)
    assert control.desired() is DesiredTaskState.RUN
    assign(logs, TargetState.PAUSED)
    wait_until(lambda: control.desired(1) is DesiredTaskState.PAUSE, what="the pause")
    assign(logs, TargetState.RUNNING, attempt=2)
    wait_until(lambda: control.desired(1) is DesiredTaskState.SUPERSEDED, what="its successor")
    assign(logs, None)
    control.close()
    later = task_of(server, offset=99)
    reader = WorkerTopics(later)
    assert reader.read_assignment(AttemptAssignment(later)) is DesiredTaskState.SUPERSEDED


def test_offsets_and_statuses_are_written(logs: StandaloneLogs, server: TopicsServer) -> None:
    task = task_of(server)
    offsets = ServedOffsets(task)
    assert offsets.write([NewRecord(TOPICS.offsets, KEY, b'{"n":1}')], 10)
    assert offsets.write([NewRecord(TOPICS.offsets, KEY, b'{"n":2}')], 10)
    reader = WorkerTopics(task)
    (found,) = reader.source_offsets().connectors["c"].values()
    assert (found.partition, found.offset) == ({"p": 1}, {"n": 2})
    assert offsets.write([NewRecord(TOPICS.offsets, KEY, None)], 10)
    assert reader.source_offsets().connectors == {}

    assert reader.write_status(NewRecord(TOPICS.status, b"key", b"value")) is None
    (status,) = logs.reader(TOPICS.status).read_to_end(1)
    assert (status.key, status.value) == (b"key", b"value")
    offsets.close()


def test_a_commit_that_its_task_gave_up_is_not_written_later(
    logs: StandaloneLogs, server: TopicsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: it waits behind a slow one, the task ends, and it overwrites offsets that were
    altered after that end."""
    held, release, sync = threading.Event(), threading.Event(), os.fsync

    def hold(descriptor: int) -> None:
        held.set()
        assert release.wait(30)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", hold)
    slow, late = ServedOffsets(task_of(server)), ServedOffsets(task_of(server))
    first = threading.Thread(
        target=lambda: slow.write([NewRecord(TOPICS.offsets, b'["other",{}]', b"{}")], 30)
    )
    first.start()
    assert held.wait(30)
    assert not late.write([NewRecord(TOPICS.offsets, KEY, b"{}")], 0.2)
    release.set()
    first.join(30)
    wait_until(lambda: not writing(), what="the late one's thread to end")
    assert [each.key for each in logs.reader(TOPICS.offsets).poll()] == [b'["other",{}]']
    slow.close()
    late.close()


def writing() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "write-offsets"]


@pytest.mark.parametrize(
    "request_",
    [
        ReadAssignment(TOPICS.config, "c-0"),
        ReadOffsets(TOPICS.status, "c"),
        Follow(TOPICS.status, "c-0", 0),
        WriteStatus(NewRecord(TOPICS.config, b"k", b"v")),
        WriteOffsets(TOPICS.assignments, ((b"k", b"v"),)),
    ],
)
def test_a_task_may_do_nothing_else(
    logs: StandaloneLogs, server: TopicsServer, request_: Request
) -> None:
    connected = AgentClient(server.path, {}).begin(request_)
    with connected, pytest.raises(EOFError):
        LineReader(connected).receive(10)
    assert logs.reader(TOPICS.offsets).poll() == []
    assert logs.reader(TOPICS.config).poll() == []


def test_only_this_user_reaches_it(server: TopicsServer) -> None:
    folder = Path(server.path).parent.stat()
    assert stat.S_IMODE(folder.st_mode) == 0o700
    assert folder.st_uid == os.getuid()


def test_the_end_of_the_worker_interrupts_its_tasks(
    logs: StandaloneLogs, server: TopicsServer
) -> None:
    assign(logs, TargetState.RUNNING)
    task = task_of(server)
    control = AssignmentFollower(task, AttemptAssignment(task))
    wait_until(lambda: control.desired(1) is DesiredTaskState.RUN, what="its assignment")
    offsets = ServedOffsets(task)
    server.close()
    with pytest.raises(Interrupted, match="cannot be reached"):
        while True:
            control.desired(1)
    assert not offsets.write([NewRecord(TOPICS.offsets, KEY, b"{}")], 10)
    with pytest.raises(Interrupted):
        WorkerTopics(task).source_offsets()


def test_a_thread_that_cannot_start_ends_one_connection_alone(
    logs: StandaloneLogs, server: TopicsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker_topics, "PATIENCE_S", 0.2)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(Interrupted):
            WorkerTopics(task_of(server)).source_offsets()
        assert not ServedOffsets(task_of(server)).write(
            [NewRecord(TOPICS.offsets, KEY, b"{}")], 0.2
        )
    assert WorkerTopics(task_of(server)).source_offsets().connectors == {}


def test_a_path_that_is_too_long_for_a_socket_is_told(
    logs: StandaloneLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 110)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(Failed) as caught:
        TopicsServer(logs, TOPICS)
    assert caught.value.diagnostics[0].code == "worker.no-socket"
    assert list(folder.iterdir()) == []


def test_requests_that_nobody_takes_hold_up_no_end(
    logs: StandaloneLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks whose connections were ended ask again at once, and the system queues few requests."""
    monkeypatch.setattr(AgentServer, "serve", lambda _: None)
    server = TopicsServer(logs, TOPICS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as task:
        task.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                task.sendto(b".", server.path)
        closing = threading.Thread(target=server.close, daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()
