"""What one client sends, or leaves unsent, keeps no other client waiting, on real sockets."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from collections.abc import Iterator
from resource import RLIM_INFINITY

import pytest
from starlette.types import ASGIApp

from connect_runtime.rest.app import create_app
from connect_runtime.rest.http_server import ConnectionLimits
from connect_runtime.rest.plugin_resources import PluginResources
from connect_runtime.settings.worker_config import from_properties
from runtime.rest.client import SOURCE, WORKER, error
from runtime.rest.serving import HeldVerbs, Served, is_closed, read_answer, resident_mb, served
from support import http
from support.wait import wait_until

MB = 1024 * 1024
PIECE = b'"a":"b",' * 8192
HEAD = b"POST /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def verbs() -> Iterator[HeldVerbs]:
    found = HeldVerbs()
    found.release.set()
    found.create("fs", {**SOURCE, "name": "fs"}, None)
    found.begun.clear()
    found.release.clear()
    yield found
    found.release.set()


def app(verbs: HeldVerbs) -> ASGIApp:
    worker, _ = from_properties(WORKER)
    plugins = PluginResources(worker).routes()
    return create_app(lambda: verbs, plugins, cluster_id=lambda: "k", commit="c")


@pytest.fixture
def rest(verbs: HeldVerbs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """With the least limits, wherever the tests run."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))
    with served(app(verbs)) as found:
        yield found


def test_a_body_of_100_mb_is_refused_in_little_memory(rest: Served) -> None:
    before = resident_mb()
    with rest.connect(HEAD + b"Content-Length: %d\r\n\r\n" % (100 * MB)) as connection:
        for _ in range(100 * MB // len(PIECE)):
            connection.sendall(PIECE)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert resident_mb() - before < 20


def test_an_answer_is_one_packet(rest: Served) -> None:
    asked = b"GET /connectors/fs/config HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with rest.connect(asked) as connection:
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert json.loads(body)["name"] == "fs"


def test_the_refusal_of_a_large_body_names_the_property(rest: Served) -> None:
    url = f"http://127.0.0.1:{rest.port}/connectors"
    kind = {"content-type": "application/json"}
    found = http.post(url, content=b" " * 2 * MB, headers=kind, timeout=10)
    assert found.json() == error(
        413,
        "The request's body is larger than 1048576 bytes, which rest.max.body.bytes of this worker "
        "allows",
    )


def test_a_body_of_unknown_length_is_refused_at_the_limit(rest: Served) -> None:
    with rest.connect(HEAD + b"Transfer-Encoding: chunked\r\n\r\n") as connection:
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        with contextlib.suppress(ConnectionError):
            for _ in range(20):
                connection.sendall(chunk)
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_waits_for_100_continue_is_refused_before_it_sends(rest: Served) -> None:
    head = HEAD + b"Expect: 100-continue\r\nContent-Length: 104857600\r\n\r\n"
    with rest.connect(head) as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_the_end_of_a_refused_body_has_a_deadline(verbs: HeldVerbs) -> None:
    head = HEAD + b"Content-Length: 104857600\r\n\r\n"
    with (
        served(app(verbs), ConnectionLimits(head_s=0.5)) as rest,
        rest.connect(head) as connection,
    ):
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")

        def closes() -> bool:
            try:
                connection.sendall(b"x" * 1000)
            except ConnectionError:
                return True
            return False

        wait_until(closes, what="the connection to close")


@pytest.mark.parametrize("path", ["/connectors", "/no/such/path"])
def test_a_body_that_is_never_over_is_not_read_on(rest: Served, path: str) -> None:
    """The trap: after its answer, any amount is read of a request's body."""
    head = HEAD.replace(b"/connectors", path.encode()) + b"Content-Length: 9999999999\r\n\r\n"
    sent = 0
    with rest.connect(head) as connection:
        with contextlib.suppress(ConnectionError):
            while sent < 400 * MB:
                connection.sendall(PIECE)
                sent += len(PIECE)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 " if path == "/connectors" else b"HTTP/1.1 404 ")
    assert sent < 140 * MB


def test_the_rest_of_a_refused_body_is_not_waited_for(rest: Served) -> None:
    with rest.connect(HEAD + b"Content-Length: 104857600\r\n\r\n") as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
        assert is_closed(connection, within_s=8)


def test_a_connection_whose_refused_body_has_ended_takes_the_next_request(rest: Served) -> None:
    begin = HEAD + b"Content-Length: %d\r\n\r\n" % (2 * MB)
    with rest.connect(begin) as connection:
        for _ in range(2):
            connection.sendall(b" " * 2 * MB)
            assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            connection.sendall(begin)


def test_a_body_within_the_limit_is_taken(rest: Served, verbs: HeldVerbs) -> None:
    verbs.release.set()
    config = {**SOURCE, "name": "fs", "long": "x" * (900 * 1024)}
    url = f"http://127.0.0.1:{rest.port}/connectors/fs/config"
    assert http.put(url, json=config, timeout=10).status_code == 200


@pytest.mark.parametrize(
    "body",
    ["[" * 100_000, '{"a":' * 100_000, "[" * 1001 + '"' + r"\"" * 400_000],
    ids=["arrays", "objects", "a text without an end"],
)
def test_a_body_that_is_nested_too_deeply_is_refused(rest: Served, body: str) -> None:
    found = http.post(
        f"http://127.0.0.1:{rest.port}/connectors",
        content=body,
        headers={"content-type": "application/json"},
        timeout=10,
    )
    assert found.status_code == 500
    assert found.json()["message"].startswith("The request's body ")


def test_a_large_head_is_refused(rest: Served) -> None:
    head = b"GET /connectors HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 100_000
    with rest.connect(head) as connection:
        assert b" 400 " in read_answer(connection).partition(b"\r\n")[0]


def test_a_body_of_crumbs_is_refused(rest: Served) -> None:
    with rest.connect(HEAD + b"Transfer-Encoding: chunked\r\n\r\n") as connection:
        with contextlib.suppress(ConnectionError):
            for _ in range(20):
                connection.sendall(b"1\r\n \r\n" * 500)
        assert b" 400 " in read_answer(connection).partition(b"\r\n")[0]


def test_a_body_of_small_pieces_is_taken(rest: Served, verbs: HeldVerbs) -> None:
    verbs.release.set()
    piece = b"100\r\n" + b" " * 256 + b"\r\n"
    with rest.connect(HEAD + b"Transfer-Encoding: chunked\r\n\r\n") as connection:
        connection.sendall(piece * 3500 + b"4\r\nnull\r\n0\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 500 ")


def test_half_open_requests_do_not_keep_others_out(verbs: HeldVerbs) -> None:
    limits = ConnectionLimits(count=20)
    with served(app(verbs), limits) as rest, contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(rest.connect(b"GET /connectors HTTP/1.1\r\nHost: l"))
            for _ in range(100)
        ]
        assert rest.get("/health").status_code == 200
        assert is_closed(opened[0], 5)
        assert limits.closed >= 80


def test_a_head_has_a_deadline(verbs: HeldVerbs) -> None:
    with served(app(verbs), ConnectionLimits(head_s=0.3)) as rest:
        with rest.connect(b"GET /health HTTP/1.1\r\nHo") as connection:
            assert is_closed(connection, 5)
        with rest.connect() as connection:
            assert is_closed(connection, 5)


def ask_health(connection: socket.socket, more: bytes = b"") -> None:
    """Reads the whole answer; `more` is sent with the request."""
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + more)
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_an_idle_connection_is_kept_for_longer_than_a_head_may_take(verbs: HeldVerbs) -> None:
    """Apache's workers keep theirs for 90 s, and load balancers for 60 s."""
    assert ConnectionLimits().kept_s == 90
    with (
        served(app(verbs), ConnectionLimits(head_s=0.3, kept_s=10)) as rest,
        rest.connect() as connection,
    ):
        for _ in range(2):
            ask_health(connection)
            assert not is_closed(connection, 0.6)
        # also what follows a whole request in the same packet
        ask_health(connection, b"GET /he")
        assert is_closed(connection, 5)


def test_an_idle_connection_is_closed_in_the_end(verbs: HeldVerbs) -> None:
    with served(app(verbs), ConnectionLimits(kept_s=0.3)) as rest, rest.connect() as connection:
        ask_health(connection)
        assert is_closed(connection, 5)


def test_a_client_that_ends_its_side_is_answered(rest: Served) -> None:
    """As by Apache's workers; some versions of `nc` end it after what they send."""
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for requests in (1, 2):
        with rest.connect(request * requests) as connection:
            connection.shutdown(socket.SHUT_WR)
            assert read_answer(connection).count(b"HTTP/1.1 200 ") == requests
    with rest.connect(HEAD + b"Content-Length: 10\r\n\r\n{") as connection:
        connection.shutdown(socket.SHUT_WR)
        assert read_answer(connection) == b""


def test_the_next_head_has_a_deadline(verbs: HeldVerbs) -> None:
    with (
        served(app(verbs), ConnectionLimits(head_s=0.3, kept_s=30)) as rest,
        rest.connect() as connection,
    ):
        ask_health(connection)
        connection.sendall(b"GET /heal")
        assert is_closed(connection, 5)


def test_a_slow_body_makes_room_for_others(verbs: HeldVerbs) -> None:
    limits = ConnectionLimits(count=5)
    with served(app(verbs), limits) as rest, contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(rest.connect(HEAD + b"Content-Length: 1000\r\n\r\n{"))
        assert rest.get("/health").status_code == 200


def test_a_client_that_does_not_read_is_dropped(verbs: HeldVerbs) -> None:
    verbs.known["fs"].config["long"] = "x" * (4 * MB)
    with served(app(verbs), ConnectionLimits(answer_s=0.5, head_s=0.5)) as rest:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(("127.0.0.1", rest.port))
        with made:
            made.sendall(b"GET /connectors/fs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5)
            wait_until(lambda: rest.server.connections == 1, what="the connection")
            wait_until(lambda: rest.server.connections == 0, what="no connections")


def test_health_answers_while_writes_wait(rest: Served, verbs: HeldVerbs) -> None:
    """The herder is frozen, and more clients wait for it than there are threads."""
    with contextlib.ExitStack() as stack:
        for number in range(100):
            verb = b"POST /connectors" if number % 5 > 2 else b"PUT /connectors/fs/pause"
            content = json.dumps({"name": f"n{number}", "config": SOURCE}).encode()
            stack.enter_context(
                rest.connect(
                    verb
                    + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    + b"Content-Length: %d\r\n\r\n" % len(content)
                    + content
                )
            )
        wait_until(lambda: len(verbs.begun) == 48, what="writes that wait")
        assert rest.get("/health", timeout_s=20).status_code == 200
        assert rest.get("/connectors?expand=status", timeout_s=20).status_code == 200
        verbs.release.set()


@pytest.mark.parametrize(
    ("files", "connections"), [(256, 200), (2048, 512), (20_000, 1000), (RLIM_INFINITY, 1000)]
)
def test_connections_are_a_part_of_the_open_files(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    assert ConnectionLimits().count == connections


def test_many_writes_wait_if_there_are_files_enough(
    verbs: HeldVerbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script pauses all connectors at the same time."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (20_000, 20_000))
    pause = b"PUT /connectors/fs/pause HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with served(app(verbs)) as rest, contextlib.ExitStack() as stack:
        asked = [stack.enter_context(rest.connect(pause)) for _ in range(190)]
        wait_until(lambda: rest.server.connections == len(asked), what="all connections")
        verbs.release.set()
        answers = [read_answer(each)[:13] for each in asked]
    assert answers == [b"HTTP/1.1 202 "] * len(asked)


def test_many_reads_at_once_are_all_answered(rest: Served, verbs: HeldVerbs) -> None:
    """A dashboard asks for each connector at the same time."""
    listed = verbs.connectors
    verbs.connectors = lambda: listed() if verbs.release.wait(60) else []  # type: ignore[method-assign]
    read = b"GET /connectors HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with contextlib.ExitStack() as stack:
        asked = [stack.enter_context(rest.connect(read)) for _ in range(180)]
        wait_until(lambda: rest.server.connections == len(asked), what="all connections")
        verbs.release.set()
        answers = [read_answer(each)[:13] for each in asked]
    assert answers == [b"HTTP/1.1 200 "] * len(asked)


def test_too_many_writes_are_refused_with_retry_after(rest: Served, verbs: HeldVerbs) -> None:
    with contextlib.ExitStack() as stack:
        pause = b"PUT /connectors/fs/pause HTTP/1.1\r\nHost: localhost\r\n\r\n"
        waiting = [stack.enter_context(rest.connect(pause)) for _ in range(110)]
        answers: list[bytes] = []

        def refused() -> bool:
            for connection in waiting:
                connection.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    answers.append(connection.recv(65536))
            return bool(answers)

        wait_until(refused, what="a refusal")
        assert answers[0].startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answers[0].lower()
        assert b'"error_code":503' in answers[0]
        verbs.release.set()


def test_large_bodies_take_no_more_than_their_share_of_memory(
    rest: Served, verbs: HeldVerbs
) -> None:
    """They are held while the herder is frozen; a body of usual size is taken all the same."""

    def create(name: str, size: int) -> bytes:
        body = json.dumps({"name": name, "config": SOURCE}).encode().ljust(size)
        return HEAD + b"Content-Length: %d\r\n\r\n" % size + body

    with contextlib.ExitStack() as stack:
        waiting = []
        for number in range(75):
            waiting.append(stack.enter_context(rest.connect()))
            with contextlib.suppress(ConnectionError):
                waiting[-1].sendall(create(f"n{number}", MB))
        turned_away, _, _ = select.select(waiting, [], [], 30)
        answer = turned_away[0].recv(65536)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer.lower()
        usual = stack.enter_context(rest.connect(create("usual", 60 * 1024)))
        verbs.release.set()
        assert usual.recv(100).startswith(b"HTTP/1.1 201 ")
    # what they held is free again
    with rest.connect(create("last", MB)) as last:
        assert last.recv(100).startswith(b"HTTP/1.1 201 ")


def test_a_queued_write_of_a_client_that_disconnected_never_starts(
    rest: Served, verbs: HeldVerbs
) -> None:
    pause = b"PUT /connectors/fs/pause HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(rest.connect(pause))
        wait_until(lambda: len(verbs.begun) == 32, what="writes that wait")
    wait_until(lambda: rest.server.connections == 0, what="no connections")
    threads = threading.active_count()
    verbs.release.set()
    assert rest.get("/health").status_code == 200
    with rest.connect(pause) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 202 ")
    assert len(verbs.begun) == 33
    assert threading.active_count() <= threads + 4


def test_nonsense_does_not_fill_the_log(rest: Served, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(50):
        with rest.connect(b"nonsense\r\n\r\n") as connection:
            assert b" 400 " in connection.recv(100)
    upgrade = (
        b"GET /health HTTP/1.1\r\nHost: l\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    with rest.connect(upgrade) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert caplog.text == ""


def test_nonsense_after_an_answer_does_not_fill_the_log(
    rest: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with rest.connect(HEAD + b"Transfer-Encoding: chunked\r\n\r\n") as connection:
        connection.sendall(b"200000\r\n" + b"x" * 0x200000 + b"\r\n")
        begin = connection.recv(65536)
        connection.sendall(b"nonsense\r\n")
        # returns when the connection is closed
        assert (begin + read_answer(connection)).startswith(b"HTTP/1.1 413 ")
    assert caplog.text == ""
