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

from connect_runtime.kafka.background_writer import Unwritten, unwritten_of
from connect_runtime.node import door as node_door
from connect_runtime.node import rounds, server, statuses
from connect_runtime.node.asking import Asking, file_of
from connect_runtime.node.door import (
    Follow,
    ReadAssignment,
    ReadOffsets,
    WriteStatus,
    request_line,
    request_of,
)
from connect_runtime.node.following import Following
from connect_runtime.node.rounds import Rounds
from connect_runtime.storage.line_socket import LineSocket
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.served_messages import records_of
from connect_specs.diagnostics import Diagnostic, Unreachable
from support.wait import wait_until

END_S = 20
READ = ReadOffsets("t", "a")


@pytest.mark.parametrize(
    "request_",
    [
        Follow("t", "a-0", 5),
        ReadAssignment("t", "a-0"),
        READ,
        WriteStatus("t", "k", "v", 1.5),
        WriteStatus("t", "k", None, 1.5),
    ],
)
def test_requests_arrive_as_they_were_sent(request_: node_door.Request) -> None:
    assert request_of(request_line(request_, {"a": "b"})) == (request_, {"a": "b"})


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
        b'[{},"status","t","k","v",null]',
        b'[{},"another","t"]',
    ],
)
def test_what_is_no_request_is_refused(line: bytes) -> None:
    """Nothing that a task sends may end the process that serves all of them."""
    with pytest.raises(ValueError, match=r"."):
        request_of(line)


def record(offset: int, key: str) -> LogRecord:
    return LogRecord("t", 0, offset, 0, key.encode(), b"{}")


def test_a_task_gets_records_of_its_key_from_its_offset_on() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    topic = Following("t", {})
    assert topic._take(record(4, "a-0"))
    asking = Asking(theirs)
    assert topic.add(asking, Follow("t", "a-0", 5))
    for each in (record(5, "a-1"), record(6, "a-0"), record(9, "a-0")):
        assert topic._take(each)
    line = LineSocket(ours)

    def received() -> list[int]:
        found = line.receive(0.0)
        return [] if found is None else [each.offset for each in records_of(found)]

    assert [received(), received(), received()] == [[6], [9], []]
    late_ours, late_theirs = socket.socketpair()
    late = Asking(late_theirs)
    assert topic.add(late, Follow("t", "a-0", 5))
    found = LineSocket(late_ours).receive(0.0)
    assert found is not None
    assert [each.offset for each in records_of(found)] == [9]

    topic.remove(asking)
    assert topic._take(record(10, "a-0"))
    assert received() == []
    topic.remove(late)
    assert not topic._asking

    # made anew, it would give other records these offsets
    assert not topic._take(record(10, "a-0"))
    for each in (ours, theirs, late_ours, late_theirs):
        each.close()


def test_a_topic_that_ends_ends_its_connections() -> None:
    ours, theirs = socket.socketpair()
    topic = Following("t", {"bootstrap.servers": "127.0.0.1:1"})
    topic._follow = lambda: None  # type: ignore[method-assign]
    assert topic.add(Asking(theirs), Follow("t", "a-0", 0))
    topic._run()
    assert not topic.add(Asking(theirs), Follow("t", "a-0", 0))
    with pytest.raises(EOFError):
        LineSocket(ours).receive(END_S)
    ours.close()
    theirs.close()


class Slow:
    """Answers with what was asked, once `go` is set. Fails while `fails` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.fails = False
        self.rounds: list[Sequence[Any]] = []
        self.closed = 0
        self.service = Rounds("slow", lambda: self)

    def of(self, requests: Sequence[Any]) -> Sequence[bytes]:
        self.rounds.append(requests)
        assert self.go.wait(END_S)
        if self.fails:
            raise Unreachable(Diagnostic("a.code", "Kafka is away"))
        return [each.connector.encode() * 300_000 for each in requests]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """What answers all requests of a server behind the door of this process."""
    slow, over = Slow(), threading.Event()
    monkeypatch.setattr(server, "_TICK_S", 0.05)
    monkeypatch.setattr(server, "_service_for", lambda *_: slow.service)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(node_door, "_door", ours)
    serving = server.Server(theirs, over.is_set, most=4)
    thread = threading.Thread(target=serving.serve, daemon=True)
    thread.start()
    with ours, theirs:
        yield slow
        slow.go.set()
        over.set()
        thread.join(END_S)
        assert not thread.is_alive()


class Ask:
    """A request in a thread of its own."""

    def __init__(self, connector: str) -> None:
        self.answer: bytes | None = b"none yet"
        self.thread = threading.Thread(target=self._run, args=(connector,), daemon=True)
        self.thread.start()

    def _run(self, connector: str) -> None:
        self.answer = node_door.ask(ReadOffsets("t", connector), {})

    def answered(self) -> bytes | None:
        self.thread.join(END_S)
        assert not self.thread.is_alive()
        return self.answer


def test_what_is_asked_during_a_round_is_answered_in_the_next(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never in the one that runs: it may have looked at the end already."""
    monkeypatch.setattr(node_door, "_SILENT_S", 0.5)
    first = Ask("a")
    wait_until(lambda: len(slow.rounds) == 1, what="a round")
    others = [Ask("b"), Ask("c"), Ask("c")]
    patience = time.monotonic() + 2 * 0.5
    wait_until(lambda: time.monotonic() > patience, what="more time than for one that is silent")
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

    monkeypatch.setattr(rounds, "file_of", counted)
    asking = [Ask(name) for name in "abc"]
    wait_until(lambda: len(slow.service._waiting) + len(slow.service._in_round) == 3, what="three")
    slow.go.set()
    assert [each.answered() for each in asking] == [x * 300_000 for x in (b"a", b"b", b"c")]
    assert (len(files), most) == (3, 1)


def test_who_was_answered_is_forgotten_though_a_child_of_it_holds_the_connection(
    slow: Slow,
) -> None:
    asking = node_door.begin(READ, {})
    assert asking is not None
    with asking, asking.dup() as of_child:
        slow.go.set()
        _, (answer, *_), _, _ = socket.recv_fds(asking, 1, 1)
        os.close(answer)
        of_child.settimeout(END_S)
        assert of_child.recv(1) == b""


def test_a_task_without_descriptors_does_not_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel drops an answer that the task has no descriptor for."""
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(node_door, "connect", lambda _: ours)
    monkeypatch.setattr(node_door, "_SILENT_S", 3 * END_S)
    asking = Ask("a")
    theirs.sendall(b".!")
    assert asking.answered() is None
    theirs.close()


def test_a_service_that_gets_no_thread_ends_no_other(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Rounds) -> None:
        raise RuntimeError("can't start new thread")

    slow.go.set()
    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "start", refused)
        assert Ask("a").answered() is None
    slow.service = Rounds("slow", lambda: slow)
    assert Ask("a").answered() == b"a" * 300_000


def test_who_is_gone_or_does_not_read_holds_up_nobody(slow: Slow) -> None:
    gone, deaf = (node_door.begin(ReadOffsets("t", name), {}) for name in ("gone", "deaf"))
    assert gone is not None
    assert deaf is not None
    other = Ask("a")
    wait_until(lambda: len(slow.service._waiting) + len(slow.service._in_round) == 3, what="three")
    gone.close()
    wait_until(lambda: len(slow.service._waiting) + len(slow.service._in_round) == 2, what="two")
    slow.go.set()
    assert other.answered() == b"a" * 300_000
    assert Ask("b").answered() == b"b" * 300_000
    deaf.close()


def test_who_cannot_be_answered_is_told_and_the_next_one_is_answered(slow: Slow) -> None:
    slow.fails = True
    slow.go.set()
    assert Ask("a").answered() is None
    assert slow.closed == 1
    slow.fails = False
    assert Ask("b").answered() == b"b" * 300_000


def test_what_fails_in_another_way_ends_only_its_service(slow: Slow) -> None:
    slow.go.set()
    request = ReadAssignment("t", "a-0")  # what answers knows nothing of its kind
    assert node_door.ask(request, {}) is None
    wait_until(lambda: slow.service.over, what="its end")
    slow.service = Rounds("slow", lambda: slow)
    assert Ask("b").answered() == b"b" * 300_000


def test_a_service_that_nobody_uses_ends(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_UNUSED_S", 0.05)
    slow.go.set()
    assert Ask("a").answered() is not None
    wait_until(lambda: slow.closed == 1, what="its end")
    with socket.socket() as late:
        assert not slow.service.add(Asking(late), READ)


@pytest.mark.parametrize("line", [b"no request\n", b"x" * (node_door.LONGEST_REQUEST + 1)])
def test_who_asks_for_nothing_known_is_refused(slow: Slow, line: bytes) -> None:
    connected = node_door.connect(END_S)
    assert connected is not None
    with connected:
        connected.settimeout(END_S)
        connected.sendall(line)
        assert connected.recv(1) == b""
    slow.go.set()
    assert Ask("a").answered() is not None


def test_a_task_without_descriptors_gets_no_answer(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin may leak them; what the task asks Kafka by itself then says so."""

    def none_left() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(node_door.socket, "socketpair", none_left)
    assert node_door.ask(READ, {}) is None


def test_what_is_no_connection_ends_nothing(slow: Slow) -> None:
    """A plugin may close a task's socket, and open a file under its number."""
    assert node_door._door is not None
    reading, writing = os.pipe()
    socket.send_fds(node_door._door, [b"."], [writing])
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        assert select.select([pipe], [], [], END_S)[0], "it is still open"
    slow.go.set()
    assert Ask("a").answered() == b"a" * 300_000


def test_who_cannot_be_waited_for_is_refused(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    slow.go.set()
    assert Ask("a").answered() == b"a" * 300_000
    with monkeypatch.context() as patch:
        patch.setattr(selectors.DefaultSelector, "register", full)
        assert Ask("a").answered() is None
    assert Ask("b").answered() == b"b" * 300_000


def test_a_node_that_has_no_limit_of_descriptors_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS, whose kernel refuses what its limit allows."""

    def limited(_: int, limits: tuple[int, int]) -> None:
        if not 0 < limits[0] <= 10_240:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", limited)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        server.serve(theirs, parent=-1)  # whose parent is gone


def test_only_so_many_tasks_are_served_as_descriptors_are_left_over(slow: Slow) -> None:
    """The others ask Kafka by themselves; clients need descriptors when their brokers move."""
    asking = [found for _ in range(5) if (found := node_door.connect(END_S))]
    with pytest.raises(EOFError):
        LineSocket(asking[4]).receive(END_S)
    for each in asking:
        each.close()
    slow.go.set()
    wait_until(lambda: Ask("a").answered(), what="room for one more")


class Silent:
    """A Kafka that answers at once, but for statuses of the key `stuck`, which it never has."""

    def __init__(self, _: object) -> None:
        self.told: list[Callable[[Unwritten | None], None]] = []

    def begin(self, record: NewRecord, told: Callable[[Unwritten | None], None]) -> None:
        if record.key != b"stuck":
            self.told.append(told)

    def serve(self, wait_s: float) -> None:
        for told in self.told:
            told(None)
        self.told.clear()

    def close(self) -> None: ...


def test_a_status_that_kafka_does_not_take_holds_up_no_other(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one in a partition without a leader."""
    monkeypatch.setattr(statuses, "KafkaStatuses", Silent)
    service = statuses.Statuses({})
    monkeypatch.setattr(server, "_service_for", lambda *_: service)
    stuck = node_door.begin(WriteStatus("t", "stuck", "v", time.monotonic() + 600), {})
    assert stuck is not None
    wait_until(lambda: service._in_flight, what="the first")
    for key in ("a", "b"):
        answer = node_door.ask(WriteStatus("t", key, "v", time.monotonic() + 600), {})
        assert answer is not None
        assert unwritten_of(answer) is None
    assert len(service._in_flight) == 1, "nobody waited for it"
    stuck.settimeout(END_S)
    assert stuck.recv(1) == b".", "it hears that it is not forgotten"
    stuck.close()
    wait_until(lambda: not service._in_flight, what="it to be forgotten")
