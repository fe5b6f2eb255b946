"""Assignments that one process follows for all tasks of a node, and what if it does not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.storage.line_socket import LineSocket
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.served_messages import records_of
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks import node_control, node_orders
from connect_runtime.tasks.control import Orders
from connect_runtime.tasks.launch import Ended
from connect_runtime.tasks.node_orders import Request

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
    monkeypatch.setattr(node_orders, "_door", ours)
    with ours, theirs:
        yield theirs


@pytest.fixture
def serving(door: socket.socket) -> Iterator[Serving]:
    over = threading.Event()
    server = node_orders.Server(door, over.is_set, most=2)
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


def test_what_the_leader_wants_reaches_a_task_without_a_consumer_of_its_own(
    cluster: Any, started: Callable[[], Any], serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_control, "Control", None)
    running = started()
    cluster.assign(TASK, 1, "paused")
    cluster.wait_for_state(TASK, "PAUSED")
    cluster.assign(TaskId("another", 0), None)
    cluster.assign(TASK, 1)
    cluster.wait_for_state(TASK, "RUNNING")
    cluster.assign(TASK, None)
    assert running.outcome().ended is Ended.STOPPED


def test_a_task_follows_by_itself_once_nobody_serves_it(
    cluster: Any, started: Callable[[], Any], serving: Serving
) -> None:
    running = started()
    serving.end()
    cluster.assign(TASK, 2)
    assert running.outcome().ended is Ended.SUPERSEDED


def test_a_task_follows_by_itself_if_its_server_is_silent(
    cluster: Any,
    started: Callable[[], Any],
    door: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_control, "_SILENT_S", 0.5)
    running = started()
    cluster.assign(TASK, None)
    assert running.outcome().ended is Ended.STOPPED


@pytest.mark.parametrize("line", [b"", b"5", b"[1,2,3,4]", b'["t","a-0",{},{}]', b'["t","a-0"]'])
def test_what_is_no_request_is_refused(line: bytes) -> None:
    """Nothing that a task sends may end the process that serves all of them."""
    with pytest.raises((ValueError, TypeError)):
        Request.of(line)


def record(offset: int, key: str) -> LogRecord:
    return LogRecord("t", 0, offset, 0, key.encode(), b"{}")


def test_a_task_gets_records_of_its_key_from_its_offset_on() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    topic = node_orders._Topic(Request("t", "a-0", 5, {}))
    assert topic._take(record(4, "a-0"))
    asking = node_orders._Asking(theirs)
    assert topic.add(asking, Request("t", "a-0", 5, {}))
    for each in (record(5, "a-1"), record(6, "a-0"), record(9, "a-0")):
        assert topic._take(each)
    line = LineSocket(ours)

    def received() -> list[int]:
        found = line.receive(0.0)
        return [] if found is None else [each.offset for each in records_of(found)]

    assert [received(), received(), received()] == [[6], [9], []]
    late_ours, late_theirs = socket.socketpair()
    assert topic.add(node_orders._Asking(late_theirs), Request("t", "a-0", 5, {}))
    late = LineSocket(late_ours).receive(0.0)
    assert late is not None
    assert [each.offset for each in records_of(late)] == [9]

    # made anew, it would give other records these offsets
    assert not topic._take(record(9, "a-0"))
    for each in (ours, theirs, late_ours, late_theirs):
        each.close()


def test_a_topic_that_ends_ends_its_connections() -> None:
    ours, theirs = socket.socketpair()
    topic = node_orders._Topic(Request("t", "a-0", 0, {"bootstrap.servers": "127.0.0.1:1"}))
    topic._follow = lambda: None  # type: ignore[method-assign]
    assert topic.add(node_orders._Asking(theirs), Request("t", "a-0", 0, {}))
    topic._run()
    assert not topic.add(node_orders._Asking(theirs), Request("t", "a-0", 0, {}))
    with pytest.raises(EOFError):
        LineSocket(ours).receive(END_S)
    ours.close()
    theirs.close()


def test_only_so_many_tasks_are_served_as_descriptors_are_left_over(serving: Serving) -> None:
    """The others follow by themselves; consumers need descriptors when their brokers move."""
    asking = [LineSocket(found) for _ in range(3) if (found := node_orders.connect(END_S))]
    with pytest.raises(EOFError):
        asking[2].receive(END_S)
    for each in asking:
        each.close()


def test_a_frozen_process_holds_up_no_task_with_a_long_request(
    cluster: Any, door: socket.socket
) -> None:
    cluster.worker["ssl.truststore.certificates"] = "x" * 1_000_000
    launch = cluster.launch(TASK, {"name": "src"})
    assert node_control._ask(launch, Orders(launch)) is None
