"""What an agent does when tasks join JVMs that end, hang or say nothing, with other sockets in
their place."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.agent import node_jvms
from connect_runtime.agent.client import AgentClient
from connect_runtime.agent.messages import JoinJvm, joined_line, own_jvm_of
from connect_runtime.agent.node_jvms import NodeJvms
from connect_runtime.agent.server import TaskConnection
from connect_runtime.engine.jvm_connection import JvmEnded
from connect_runtime.engine.shared_jvm import SharedJvm
from connect_runtime.traces import names_own_jvm
from support.wait import wait_until

LIMIT_S = 10


class Jvm:
    """A JVM that accepts connections and says what a test has it say."""

    unusable = False
    fails = False

    def __init__(
        self, *arguments: Any, on_event: Callable[[str, dict[str, Any]], None], **more: Any
    ) -> None:
        self.event = on_event
        self.path = Path()
        self.ended = False
        self.peers: list[socket.socket] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        started.append(self)

    def call(self, name: str, timeout_s: float, **arguments: Any) -> None:
        if self.ended or self.fails:
            raise JvmEnded("it could not listen")
        if name == "listen":
            self.path = Path(arguments["path"])
            self._server.bind(str(self.path))
            self._server.listen()
            self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self.peers.append(self._server.accept()[0])

    def end(self, why: str = "it was ended", *, killed: bool = False) -> None:
        if not self.ended:
            self.ended = True
            with suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
            if self._accepting.is_alive():
                self._accepting.join(LIMIT_S)
            for each in (self._server, *self.peers):
                each.close()
            self.event("ended", {"why": why, "killed": killed})


started: list[Jvm] = []


class Task:
    """The side of a task: what it has asked, and what it is told."""

    def __init__(self, jvms: NodeJvms, name: str, config: str = "1") -> None:
        self._ours, theirs = socket.socketpair()
        self._ours.settimeout(LIMIT_S)
        theirs.setblocking(False)
        self._theirs = theirs
        request = JoinJvm(name, 0, config, {"group.id": "g"}, "w", graceful_s=0.0)
        self.connection = TaskConnection(theirs)
        assert jvms.add(self.connection, request)
        content, descriptors, _, _ = socket.recv_fds(self._ours, 65_536, 1)
        self.own_jvm = own_jvm_of(content) if descriptors else None
        self.jvm = [socket.socket(fileno=each) for each in descriptors]
        self._line = b"" if descriptors else content

    def reason(self) -> str:
        while chunk := self._ours.recv(65_536):
            self._line += chunk
        return self._line.decode()

    def close(self) -> None:
        for each in (*self.jvm, self._ours, self._theirs):
            each.close()


@pytest.fixture
def jvms(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeJvms]:
    started.clear()
    monkeypatch.setattr(node_jvms, "PluginJvm", Jvm)
    monkeypatch.setattr(node_jvms, "_SLACK_S", 0.3)
    monkeypatch.setattr(node_jvms, "_LOOK_S", 0.05)
    jvms = NodeJvms(watched=True)
    yield jvms
    jvms.close()


@pytest.fixture
def join(jvms: NodeJvms) -> Iterator[Callable[..., Task]]:
    tasks: list[Task] = []

    def joined(name: str, config: str = "1") -> Task:
        tasks.append(Task(jvms, name, config))
        return tasks[-1]

    yield joined
    for task in tasks:
        task.close()


Join = Callable[..., Task]


def test_the_next_attempt_waits_for_the_end_of_the_one_before(join: Join) -> None:
    assert join("a").jvm
    (jvm,) = started
    threading.Timer(
        0.1,
        lambda: jvm.event("peer-ended", {"peer": 1, "threadLeft": False, "outOfMemory": False}),
    ).start()
    assert join("a").jvm
    assert started == [jvm]


def test_an_attempt_of_which_something_is_left_has_a_successor_in_another_jvm(join: Join) -> None:
    join("a")
    (jvm,) = started
    jvm.event("peer-ended", {"peer": 1, "threadLeft": True, "outOfMemory": False})
    assert join("a").jvm
    assert len(started) == 2
    join("b")
    assert len(started) == 2


def test_an_attempt_whose_end_is_never_reported_holds_up_its_successor_only_once(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that the JVM could not accept, for want of threads. It keeps no JVM in use."""
    join("a")
    (jvm,) = started
    assert join("a").jvm
    assert len(started) == 2
    monkeypatch.setattr(node_jvms, "_UNUSED_S", 0.1)
    wait_until(lambda: jvm.ended, what="the first JVM to end", timeout_s=LIMIT_S)


def test_a_task_that_is_gone_keeps_no_jvm_in_use(
    jvms: NodeJvms, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the JVM, which could not accept it, never reports its end, and none succeeds it."""
    monkeypatch.setattr(node_jvms, "_UNUSED_S", 0.3)
    task, (jvm,) = join("a"), started
    threading.Event().wait(0.6)
    assert not jvm.ended
    jvms.remove(task.connection)
    wait_until(lambda: jvm.ended, what="its end", timeout_s=LIMIT_S)


def test_who_is_alone_with_threads_of_others_is_not_named(join: Join) -> None:
    join("a")
    task, (jvm,) = join("b"), started
    jvm.event("peer-ended", {"peer": 1, "threadLeft": True, "outOfMemory": False})
    jvm.end("exit code 3")
    assert not names_own_jvm(task.reason())
    join("b")
    assert join("a").own_jvm is None
    assert len(started) == 3
    started[1].end("exit code 3")
    assert join("b").own_jvm is not None


def test_a_jvm_gets_no_tasks_once_many_threads_are_left_in_it(join: Join) -> None:
    for number in range(4):
        join(f"a{number}")
        started[0].event(
            "peer-ended", {"peer": number + 1, "threadLeft": True, "outOfMemory": False}
        )
    assert len(started) == 1
    join("b")
    assert len(started) == 2


def test_a_jvm_that_lacks_memory_gets_no_further_tasks(join: Join) -> None:
    join("a")
    started[0].event("peer-ended", {"peer": 1, "threadLeft": False, "outOfMemory": True})
    join("b")
    assert len(started) == 2


def test_a_jvm_that_ends_has_its_reason_told_to_its_tasks_and_the_next_ones_have_another(
    join: Join,
) -> None:
    first, second = join("a"), join("b")
    started[0].end("exit code 7")
    assert "exit code 7" in first.reason()
    assert "exit code 7" in second.reason()
    assert not started[0].path.parent.exists()
    assert join("a").jvm
    assert len(started) == 2


def test_who_was_alone_is_named_and_joins_no_other_until_its_config_changes(join: Join) -> None:
    task = join("a")
    started[0].end("exit code 7")
    said = task.reason()
    assert names_own_jvm(said)
    assert "exit code 7" in said
    assert join("a").own_jvm in said
    assert join("b").own_jvm is None
    assert len(started) == 3
    started[1].event("peer-ended", {"peer": 2, "threadLeft": False, "outOfMemory": False})
    assert join("a", config="2").own_jvm is None
    assert len(started) == 3


@pytest.mark.parametrize("text", ["x", "\x1b", "漢", "😀"])
def test_a_reason_without_end_reaches_the_task_and_its_next_attempts(join: Join, text: str) -> None:
    task = join("a")
    started[0].end(text * (1 << 20))
    assert task.reason().endswith("\n")
    assert text in (join("a").own_jvm or "")


def test_what_a_task_is_told_with_its_jvm_is_of_its_config(join: Join) -> None:
    """Also where something of the attempt with the former one is left."""
    join("a")
    started[0].end("exit code 7")
    join("a")
    started[1].event("peer-ended", {"peer": 2, "threadLeft": True, "outOfMemory": False})
    assert join("a", config="2").own_jvm is None


def test_a_jvm_that_cannot_listen_is_no_place_for_the_next_task(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Jvm, "fails", True)
    task = join("a")
    assert not task.jvm
    assert "it could not listen" in task.reason()
    assert started[0].ended
    monkeypatch.setattr(Jvm, "fails", False)
    assert join("a").jvm


def test_a_jvm_whose_socket_is_gone_is_replaced(join: Join) -> None:
    """Plugins clean folders of temporary files."""
    join("a")
    shutil.rmtree(started[0].path.parent)
    assert not join("b").jvm
    assert join("b").jvm
    assert len(started) == 2


def test_an_unused_jvm_ends(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    join("a")
    monkeypatch.setattr(node_jvms, "_UNUSED_S", 0.1)
    started[0].event("peer-ended", {"peer": 1, "threadLeft": False, "outOfMemory": False})
    wait_until(lambda: started[0].ended, what="its end", timeout_s=LIMIT_S)
    assert join("a").jvm
    assert len(started) == 2


def test_a_long_path_of_temporary_files_has_room_for_a_socket(
    join: Join, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    assert join("a").jvm


def test_no_jvm_is_started_after_the_end(jvms: NodeJvms, join: Join) -> None:
    join("a")
    jvms.close()
    assert started[0].ended
    assert not join("b").jvm
    assert len(started) == 1


def test_a_door_that_is_full_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tasks start at once, and the agent is slow."""
    answers: list[OSError | socket.socket] = [BlockingIOError(), OSError(24, "too many files")]
    ours, of_agent = socket.socketpair()
    joined, of_jvm = socket.socketpair()
    with ours, of_agent, joined, of_jvm:
        answers.append(ours)
        socket.send_fds(of_agent, [joined_line(None)], [joined.fileno()])

        def begin(self: AgentClient, request: object) -> socket.socket:
            answer = answers.pop(0)
            if isinstance(answer, OSError):
                raise answer
            return answer

        monkeypatch.setattr(AgentClient, "begin", begin)
        request = JoinJvm("a", 0, "1", {}, "w", graceful_s=0.1)
        jvm = SharedJvm(AgentClient(None, {}), request, lambda event, fields: None, {})
        assert not answers
        threading.Timer(0.2, lambda: of_jvm.shutdown(socket.SHUT_RDWR)).start()
        jvm.end()
