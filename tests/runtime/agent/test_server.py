"""One process that serves many tasks: none of them may harm it, or wait for another one."""

from __future__ import annotations

import errno
import os
import resource
import select
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pytest

from connect_runtime.agent import client as agent_client
from connect_runtime.agent import node, server
from connect_runtime.agent.assignment_tail import AssignmentTail
from connect_runtime.agent.client import AgentClient, LineReader, file_of
from connect_runtime.agent.messages import (
    Follow,
    JoinJvm,
    ReadAssignment,
    ReadOffsets,
    Request,
    WriteOffsets,
    WriteStatus,
    records_of,
    request_content,
    request_of,
    unwritten_of,
)
from connect_runtime.agent.server import TaskConnection
from connect_runtime.agent.topic_reads import TopicReads
from connect_runtime.agent.writes import StatusWrites
from connect_runtime.storage.log import LogBlocked, LogRecord, NewRecord, Unwritten
from connect_runtime.tasks.kafka_failures import Interrupted
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid, Unreachable
from support.agent import END_S, Agent
from support.wait import wait_until

READ = ReadOffsets("t", "a")
CLIENT = AgentClient(None, {})
# The limit of a request that is refused again and again
REFUSED_S = 0.2


@pytest.mark.parametrize(
    "request_",
    [
        Follow("t", "a-0", 5),
        ReadAssignment("t", "a-0"),
        READ,
        WriteStatus(NewRecord("t", b"k", b"v")),
        WriteStatus(NewRecord("t", b"k", None)),
        WriteOffsets("t", ((b"k", b"v"), (b"l", None))),
        JoinJvm("a", 0, "c", {"group.id": "g"}, "w:1", 5.0),
    ],
)
def test_requests_arrive_as_they_were_sent(request_: Request) -> None:
    assert request_of(request_content(request_, {"a": "b"})) == (request_, {"a": "b"})


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"5",
        b"[]",
        b"[{}]",
        b'[{},"offsets"]',
        b'[{},"offsets","t",5]',
        b'[{"a":5},"offsets","t","a"]',
        b'[{},"follow","t","a-0",{}]',
        b'[{},"status","t","k",5]',
        b'[{},"join","a",0,"c",{},"w:1"]',
        b'[{},"join","a","0","c",{},"w:1",5]',
        b'[{},"join","a",0,"c",{"group.id":5},"w:1",5]',
        b'[{},"status","t","no base64","v"]',
        b'[{},"write offsets","t",[5]]',
        b'[{},"write offsets","t",[["a",5]]]',
        b'[{},"another","t"]',
    ],
)
def test_what_is_no_request_is_refused(line: bytes) -> None:
    """Nothing that a task sends may end the process that serves all of them."""
    with pytest.raises(ValueError, match=r"."):
        request_of(line)


def record(offset: int, key: str) -> LogRecord:
    return LogRecord("t", 0, offset, 0, key.encode(), b"{}")


def test_a_byte_ends_a_wait_for_a_line_once_and_takes_none_away() -> None:
    (ours, of_agent), (woken, wakes) = socket.socketpair(), socket.socketpair()
    with ours, of_agent, woken, wakes:
        lines = LineReader(ours, woken)
        wakes.send(b"..")
        began = time.monotonic()
        assert lines.receive(END_S) is None
        assert time.monotonic() - began < END_S
        assert lines.receive(0.0) is None
        wakes.send(b".")
        of_agent.send(b"a line\n")
        assert lines.receive(END_S) == b"a line"
        assert lines.receive(END_S) is None


def test_a_task_gets_records_of_its_key_from_its_offset_on() -> None:
    ours, of_agent = socket.socketpair()
    tail = AssignmentTail(lambda: ())
    tail._pass_on(record(4, "a-0"))
    connection = TaskConnection(of_agent)
    assert tail.add(connection, Follow("t", "a-0", 5))
    for each in (record(5, "a-1"), record(6, "a-0"), record(9, "a-0")):
        tail._pass_on(each)
    line = LineReader(ours)

    def received(reader: LineReader) -> list[int] | None:
        found = reader.receive(0.0)
        return None if found is None else [each.offset for each in records_of(found)]

    # the first one tells that the task is served
    assert [received(line) for _ in range(4)] == [[], [6], [9], None]
    late_ours, late_of_agent = socket.socketpair()
    late = TaskConnection(late_of_agent)
    assert tail.add(late, Follow("t", "a-0", 5))
    assert received(LineReader(late_ours)) == [9]

    tail.remove(connection)
    tail._pass_on(record(10, "a-0"))
    assert received(line) is None
    tail.remove(late)
    assert not tail._followers
    for each in (ours, of_agent, late_ours, late_of_agent):
        each.close()


def test_a_topic_that_ends_ends_its_connections() -> None:
    ours, of_agent = socket.socketpair()
    tail = AssignmentTail(lambda: [record(1, "a-0"), None])
    assert tail.add(TaskConnection(of_agent), Follow("t", "a-0", 0))
    tail._run()
    assert not tail.add(TaskConnection(of_agent), Follow("t", "a-0", 0))
    lines = LineReader(ours)
    assert [records_of(lines.receive(0.0) or b"[]") for _ in range(2)] == [[], [record(1, "a-0")]]
    with pytest.raises(EOFError):
        lines.receive(END_S)
    ours.close()
    of_agent.close()


class Slow:
    """A cache that answers with the connector's name, once `go` is set. Raises `error`."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.error: Exception | None = None
        self.rounds: list[Sequence[Any]] = []
        self.closed = 0
        self.service = self.new_service()

    def new_service(self) -> TopicReads:
        return TopicReads("slow", lambda: self)  # type: ignore[arg-type,return-value]

    def pending(self) -> int:
        return len(self.service._waiting) + len(self.service._unanswered)

    def answers(self, requests: Sequence[Any]) -> Sequence[bytes]:
        self.rounds.append(requests)
        assert self.go.wait(END_S)
        if self.error is not None:
            raise self.error
        return [each.connector.encode() * 300_000 for each in requests]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """What answers all requests to the agent of this process."""
    slow = Slow()
    monkeypatch.setattr(server, "_TICK_S", 0.05)
    ours, of_agent = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(agent_client, "_door", ours)
    agent = Agent(of_agent, lambda *_: slow.service)
    agent.server._most = 4
    with ours, of_agent:
        yield slow
        slow.go.set()
        agent.end()


class Ask:
    """A request in a thread of its own; None is no answer."""

    def __init__(self, connector: str, limit_s: float = END_S) -> None:
        self.answer: bytes | None = b"none yet"
        self.thread = threading.Thread(target=self._run, args=(connector, limit_s), daemon=True)
        self.thread.start()

    def _run(self, connector: str, limit_s: float) -> None:
        try:
            self.answer = CLIENT.ask(ReadOffsets("t", connector), limit_s)
        except Interrupted:
            self.answer = None

    def answered(self) -> bytes | None:
        self.thread.join(END_S)
        assert not self.thread.is_alive()
        return self.answer


def test_a_time_limit_that_a_plugin_gives_all_sockets_ends_no_wait(slow: Slow) -> None:
    socket.setdefaulttimeout(0.01)
    try:
        asking = Ask("a")
        time.sleep(0.3)
        assert asking.thread.is_alive()
        slow.go.set()
        assert asking.answered() == b"a" * 300_000
        assert len(slow.rounds) == 1
    finally:
        socket.setdefaulttimeout(None)


def test_what_is_asked_during_a_round_is_answered_in_the_next(slow: Slow) -> None:
    """Never in the one that runs: it may have looked at the end already."""
    first = Ask("a")
    wait_until(lambda: len(slow.rounds) == 1, what="a round")
    others = [Ask("b"), Ask("c"), Ask("c")]
    wait_until(lambda: slow.pending() == 4, what="four")
    slow.go.set()
    assert first.answered() == b"a" * 300_000
    assert [each.answered() for each in others] == [x * 300_000 for x in (b"b", b"c", b"c")]
    # what several ask for is made once: it may be large
    assert [sorted(each.connector for each in some) for some in slow.rounds] == [["a"], ["b", "c"]]


def test_an_answer_takes_no_descriptor_for_longer_than_it_is_sent(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node may have as many tasks as descriptors."""
    files: list[BinaryIO] = []
    most = 0

    def counted(content: bytes) -> BinaryIO:
        nonlocal most
        files.append(file_of(content))
        most = max(most, sum(not each.closed for each in files))
        return files[-1]

    monkeypatch.setattr(server, "file_of", counted)
    asking = [Ask(name) for name in "abc"]
    wait_until(lambda: slow.pending() == 3, what="three")
    slow.go.set()
    assert [each.answered() for each in asking] == [x * 300_000 for x in (b"a", b"b", b"c")]
    assert (len(files), most) == (3, 1)


def test_who_was_answered_is_forgotten_though_a_child_of_it_holds_the_connection(
    slow: Slow,
) -> None:
    asking = CLIENT.begin(READ)
    with asking, asking.dup() as of_child:
        slow.go.set()
        _, (answer, *_), _, _ = socket.recv_fds(asking, 1, 1)
        os.close(answer)
        of_child.settimeout(END_S)
        assert of_child.recv(1) == b""


def test_a_task_without_descriptors_for_the_answer_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel drops an answer that the task has no descriptor for."""
    tries: list[Request] = []

    def begin(self: AgentClient, request: Request) -> socket.socket:
        tries.append(request)
        ours, of_agent = socket.socketpair()
        of_agent.sendall(b"!")
        of_agent.close()
        return ours

    monkeypatch.setattr(AgentClient, "begin", begin)
    with pytest.raises(Interrupted, match="has not answered"):
        CLIENT.ask(READ, REFUSED_S)
    assert len(tries) > 1


def test_a_service_that_gets_no_thread_ends_no_other(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: TopicReads) -> None:
        raise RuntimeError("can't start new thread")

    slow.go.set()
    with monkeypatch.context() as patch:
        patch.setattr(TopicReads, "start", refused)
        assert Ask("a", REFUSED_S).answered() is None
    slow.service = slow.new_service()
    assert Ask("a").answered() == b"a" * 300_000


def test_who_is_gone_or_does_not_read_holds_up_nobody(slow: Slow) -> None:
    gone, deaf = (CLIENT.begin(ReadOffsets("t", name)) for name in ("gone", "deaf"))
    other = Ask("a")
    wait_until(lambda: slow.pending() == 3, what="three")
    gone.close()
    wait_until(lambda: slow.pending() == 2, what="two")
    slow.go.set()
    assert other.answered() == b"a" * 300_000
    assert Ask("b").answered() == b"b" * 300_000
    deaf.close()


@pytest.mark.parametrize("kind", [Unreachable, LogBlocked])
def test_an_error_of_kafka_is_an_answer_and_the_next_one_is_answered(
    slow: Slow, kind: type[Unreachable | LogBlocked]
) -> None:
    slow.error = kind(Diagnostic("a.code", "Kafka is away", "place", "why", "hint"))
    slow.go.set()
    with pytest.raises(kind) as caught:
        records_of(Ask("a").answered() or b"")
    assert caught.value.diagnostics == slow.error.diagnostics
    # what was read before a transaction that is open is not read again
    assert slow.closed == (kind is Unreachable)
    slow.error = None
    assert Ask("b").answered() == b"b" * 300_000


def test_what_fails_in_another_way_ends_only_its_service(slow: Slow) -> None:
    slow.go.set()
    request = ReadAssignment("t", "a-0")  # what answers knows nothing of its kind
    with pytest.raises(Interrupted):
        CLIENT.ask(request, REFUSED_S)
    wait_until(lambda: slow.service.over, what="its end")
    slow.service = slow.new_service()
    assert Ask("b").answered() == b"b" * 300_000


def test_a_service_that_nobody_uses_ends(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_UNUSED_S", 0.05)
    slow.go.set()
    assert Ask("a").answered() is not None
    wait_until(lambda: slow.closed == 1, what="its end")
    with socket.socket() as late:
        assert not slow.service.add(TaskConnection(late), READ)


def test_what_is_no_request_ends_nothing(slow: Slow) -> None:
    """A plugin may close a task's descriptors, and open others under their numbers."""
    reading, writing = os.pipe()
    ours, of_agent = socket.socketpair()
    assert agent_client._door is not None
    with ours, of_agent, file_of(b"no request") as file:
        connection, content = of_agent.fileno(), file.fileno()
        for descriptors in (
            [],
            [connection],
            [connection, content],
            [content, connection],
            [connection, writing],
            [writing, content],
        ):
            socket.send_fds(agent_client._door, [b"."], descriptors)
        os.close(writing)
        of_agent.close()
        ours.settimeout(END_S)
        assert ours.recv(1) == b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        assert select.select([pipe], [], [], END_S)[0], "it is still open"
    slow.go.set()
    assert Ask("a").answered() == b"a" * 300_000


def test_a_task_without_descriptors_is_interrupted(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin may leak them."""

    def none_left() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(agent_client.socket, "socketpair", none_left)
    with pytest.raises(Interrupted, match="Too many open files"):
        CLIENT.ask(READ, REFUSED_S)


def test_who_cannot_be_waited_for_is_refused(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    slow.go.set()
    assert Ask("a").answered() == b"a" * 300_000
    with monkeypatch.context() as patch:
        patch.setattr(selectors.DefaultSelector, "register", full)
        assert Ask("a", REFUSED_S).answered() is None
    assert Ask("b").answered() == b"b" * 300_000


def test_a_node_that_has_no_limit_of_descriptors_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS, whose kernel refuses what its limit allows."""

    def limited(_: int, limits: tuple[int, int]) -> None:
        if not 0 < limits[0] <= 10_240:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", limited)
    ours, of_agent = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(node.faulthandler, "dump_traceback_later", lambda *_, **__: None)
    with ours, of_agent:
        node.serve_node(of_agent, parent=-1)  # whose parent is gone


def test_a_node_without_a_thread_for_the_watch_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin may leak threads."""

    def none_left(*_: object, **__: object) -> None:
        raise RuntimeError("unable to start watchdog thread")

    monkeypatch.setattr(node.faulthandler, "dump_traceback_later", none_left)
    monkeypatch.setattr(node, "raise_descriptor_limit", lambda: 10)
    ours, of_agent = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, of_agent:
        node.serve_node(of_agent, parent=-1)  # whose parent is gone


def test_only_so_many_tasks_are_served_as_descriptors_are_left_over(slow: Slow) -> None:
    """Clients need descriptors when their brokers move."""
    asking = [CLIENT.begin(READ) for _ in range(5)]
    with pytest.raises(EOFError):
        LineReader(asking[4]).receive(END_S)
    for each in asking:
        each.close()
    slow.go.set()
    wait_until(lambda: Ask("a", REFUSED_S).answered(), what="room for one more")


class Silent:
    """A Kafka that answers at once, but for statuses of the key `stuck`, which it never has."""

    def __init__(self) -> None:
        self.unanswered: list[Callable[[Unwritten | None], None]] = []

    def begin(self, record: NewRecord, answered: Callable[[Unwritten | None], None]) -> None:
        if record.key != b"stuck":
            self.unanswered.append(answered)

    def serve(self, wait_s: float) -> None:
        for answered in self.unanswered:
            answered(None)
        self.unanswered.clear()

    def close(self) -> None: ...


def status(key: bytes) -> WriteStatus:
    return WriteStatus(NewRecord("t", key, b"v"))


def test_a_status_that_kafka_does_not_take_holds_up_no_other(slow: Slow) -> None:
    """Such as one in a partition without a leader."""
    service = StatusWrites(Silent)
    slow.service = service  # type: ignore[assignment]
    stuck = CLIENT.begin(status(b"stuck"))
    wait_until(lambda: service._unanswered, what="the first")
    for key in (b"a", b"b"):
        assert unwritten_of(CLIENT.ask(status(key), END_S)) is None
    assert len(service._unanswered) == 1, "nobody waited for it"
    stuck.close()
    wait_until(lambda: not service._unanswered, what="it to be forgotten")


@pytest.mark.parametrize(("kind", "passing"), [(Invalid, False), (Unreachable, True)])
def test_why_there_is_no_producer_is_the_answer_to_a_status(
    slow: Slow, kind: type[ConnectError], passing: bool
) -> None:
    """Invalid properties stay so; a node may have threads again."""

    def none() -> Silent:
        raise kind(Diagnostic("a.code", "No producer"))

    slow.service = StatusWrites(none)  # type: ignore[assignment]
    answer = unwritten_of(CLIENT.ask(status(b"a"), END_S))
    assert answer == Unwritten("No producer", passing=passing)
