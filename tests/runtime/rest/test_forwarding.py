"""A standby forwards what only the leader answers: what is sent, to whom, and what comes back."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from connect_runtime.rest.app import Served
from connect_runtime.rest.exchange import Call
from connect_runtime.rest.forwarding import Forwarding
from connect_runtime.rest.request_pools import BodyMemory, Busy
from connect_runtime.rest.rest_settings import RestSettings
from runtime.rest.client import (
    SOURCE,
    Client,
    all_connectors,
    app_of,
    client_of,
    error,
    running_source,
)
from runtime.rest.fake_verbs import FakeVerbs
from runtime.rest.serving import served
from runtime.rest.test_request_bodies import UNREADABLE
from support import http
from support.exchanges import exchanges
from support.losing import Way, losing
from support.wait import wait_until

NO_LEADER = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was"
    " underway."
)
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
IO_ERROR = "IO Error trying to forward REST request: "
PAUSE = ("PUT", "/connectors/fs/pause")


class Leader:
    """An application that a test replaces, and the requests that reached it."""

    def __init__(self) -> None:
        self.app: ASGIApp = Response("{}", media_type="application/json")
        self.asked: list[Request] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(Request(scope))
        await self.app(scope, receive, send)


@pytest.fixture(scope="module")
def served_leader() -> Iterator[tuple[Leader, str]]:
    leader = Leader()
    with served(leader) as at:
        yield leader, f"http://{LOOPBACK}:{at.port}"


@pytest.fixture
def leader(served_leader: tuple[Leader, str]) -> Leader:
    found, _ = served_leader
    found.asked.clear()
    return found


@pytest.fixture
def url(served_leader: tuple[Leader, str]) -> str:
    return served_leader[1]


def standby_of(leader: str | None, **settings: Any) -> Client:
    """A worker that follows this leader, with the same connector."""
    verbs = running_source()
    verbs.follower, verbs.leader = True, leader
    return client_of(verbs, RestSettings(**settings))


def leading(leader: Leader) -> FakeVerbs:
    """The leader's verbs."""
    verbs = running_source()
    leader.app = app_of(verbs)
    return verbs


@pytest.fixture(scope="module")
def standby_and_leader() -> Iterator[tuple[Client, Client]]:
    """A standby, and a leader as it has; both get all requests, so that their answers are alike."""
    verbs = all_connectors()
    with served(app_of(all_connectors())) as at:
        verbs.follower, verbs.leader = True, f"http://{LOOPBACK}:{at.port}"
        yield client_of(verbs), client_of(all_connectors())


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        *((e.method, e.path, e.body, e.headers) for e in exchanges("unknown", "bodies", "offsets")),
        *((*request_line.split(), body, {}) for request_line, body, _ in UNREADABLE),
    ],
)
def test_a_standby_answers_as_the_leader(
    standby_and_leader: tuple[Client, Client],
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
) -> None:
    forwarded, direct = (ask(method, path, body, headers) for ask in standby_and_leader)
    assert (forwarded.status_code, forwarded.content) == (direct.status_code, direct.content)
    for header in ("content-type", "location", "connect-refusal"):
        assert forwarded.headers.get(header) == direct.headers.get(header)


def test_a_write_takes_place_on_the_leader(leader: Leader, url: str) -> None:
    verbs = leading(leader)
    standby = standby_of(url)
    made = standby("POST", "/connectors", {"name": "a b/ü", "config": SOURCE})
    assert made.status_code == 400
    made = standby("POST", "/connectors", {"name": "a b=ü%", "config": SOURCE})
    assert made.status_code == 201
    assert made.headers["location"] == "http://connect:8083/connectors/a%20b=%C3%BC%25"
    assert standby("DELETE", "/connectors/a%20b=%C3%BC%25").status_code == 204
    assert list(verbs.known) == ["fs"]
    assert standby("PUT", "/admin/loggers/x?scope=cluster", {"level": "INFO"}).status_code == 204
    assert verbs.logger_levels == {"x": "INFO"}


def test_admin_listeners_forward_to_leaders_that_serve_admin_at_their_address(
    leader: Leader, url: str
) -> None:
    """While a cluster gets its admin listeners, worker by worker, the leader may have none yet."""
    verbs, leads = running_source(), leading(leader)
    verbs.follower, verbs.leader = True, url
    admin = Client(app_of(verbs, serves=Served.ADMIN))
    path, level = "/admin/loggers/x", {"level": "INFO"}
    assert admin("PUT", f"{path}?scope=cluster", level).status_code == 204
    assert leads.logger_levels == {"x": "INFO"}
    leader.app = app_of(leads, serves=Served.REGULAR)
    found = admin("PUT", f"{path}?scope=cluster", level)
    assert found.status_code == 400
    assert f"the leader, {url}, does this" in found.json()["message"]
    verbs.leader = None
    assert admin("PUT", f"{path}?scope=cluster", level).json() == error(409, NO_LEADER)
    assert admin("PUT", path, level).status_code == 200
    assert not verbs.logger_levels


def test_only_login_and_content_type_are_forwarded(leader: Leader, url: str) -> None:
    leading(leader)
    path = "/connectors/fs/restart?onlyFailed=true&includeTasks=true&x=%20y"
    sent = {"Authorization": "Basic YTpi", "Cookie": "c", "X-Other": "o", "Origin": "http://page"}
    found = standby_of(url, origins=("http://page",))("POST", path, headers=sent)
    assert found.status_code == 202
    (asked,) = leader.asked
    assert {*asked.headers} == {
        "host",
        "accept",
        "accept-encoding",
        "user-agent",
        "authorization",
        "content-length",
    }
    assert asked.headers["authorization"] == "Basic YTpi"
    assert asked.headers["user-agent"] == "kafka-connect"
    assert asked.query_params.multi_items() == [
        ("forward", "true"),
        ("onlyFailed", "true"),
        ("includeTasks", "true"),
        ("x", " y"),
    ]


def test_reads_and_local_requests_are_not_forwarded(leader: Leader, url: str) -> None:
    standby = standby_of(url)
    for method, path, body in (
        ("GET", "/", None),
        ("GET", "/health", None),
        ("GET", "/connectors?expand=status", None),
        ("GET", "/connectors/fs/offsets", None),
        ("GET", "/connector-plugins", None),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", SOURCE),
        ("GET", "/admin/loggers", None),
        ("PUT", "/admin/loggers/some.logger", {"level": "INFO"}),
    ):
        assert standby(method, path, body).status_code == 200
    assert standby("PUT", "/connectors/fs/fence").status_code == 400
    assert standby("POST", "/connectors/fs/tasks", []).status_code == 400
    assert leader.asked == []


# --- hops ---


def test_a_request_passes_over_two_hops(leader: Leader, url: str) -> None:
    """The leader changed while the request was on its way to the one before."""
    verbs = leading(leader)
    before = running_source()
    before.follower, before.leader = True, url
    with served(app_of(before)) as second:
        found = standby_of(f"http://{LOOPBACK}:{second.port}")(*PAUSE)
    assert found.status_code == 202
    assert verbs.status("fs").connector.state == "PAUSED"
    assert [each.query_params["forward"] for each in leader.asked] == ["false"]


def test_no_request_passes_over_three_hops() -> None:
    """Two workers that each take the other one for the leader."""
    one, other = running_source(), running_source()
    one.follower = other.follower = True
    counts: list[str] = []

    def counted(app: ASGIApp) -> ASGIApp:
        async def count(scope: Scope, receive: Receive, send: Send) -> None:
            counts.append(scope["query_string"].decode())
            await app(scope, receive, send)

        return count

    with served(counted(app_of(one))) as first, served(counted(app_of(other))) as second:
        one.leader = f"http://{LOOPBACK}:{second.port}"
        other.leader = f"http://{LOOPBACK}:{first.port}"
        found = client_of(one)(*PAUSE)
    assert (found.status_code, found.json()) == (409, error(409, CONFLICT))
    assert counts == ["forward=true", "forward=false"]


@pytest.mark.parametrize("flag", ["false", "bogus"])
def test_a_request_that_must_not_be_forwarded_is_refused(
    leader: Leader, url: str, flag: str
) -> None:
    found = standby_of(url)("PUT", f"/connectors/fs/pause?forward={flag}")
    assert (found.status_code, found.json()) == (409, error(409, CONFLICT))
    assert leader.asked == []


@pytest.mark.parametrize("flag", ["true", "false"])
def test_the_leader_ignores_the_flag(flag: str) -> None:
    found = client_of(running_source())("PUT", f"/connectors/fs/pause?forward={flag}")
    assert found.status_code == 202


@pytest.mark.parametrize(
    "leader",
    [
        None,
        "",
        "host:8083",
        "ftp://host:1",
        "http://user:p@host:1",
        "http://host:1/x",
        "http://:x",
        "http://host:70000",
        "http://host:-1",
        "http://xn--a:1",
    ],
)
def test_a_write_without_a_leader_is_a_conflict(leader: str | None) -> None:
    found = standby_of(leader)(*PAUSE)
    assert (found.status_code, found.json()) == (409, error(409, NO_LEADER))


# --- who gets a login ---


@pytest.mark.parametrize(
    ("leader", "allowed"),
    [
        ("http://127.0.0.1:8083", True),
        ("http://localhost:8083", True),
        ("http://[::1]:8083", True),
        ("https://LEADER.example:8443", True),
        ("http://leader.example:8083", False),
        ("https://evil.example:8443", False),
        ("https://leader.example.evil:8443", False),
        ("http://127.0.0.1.evil.example:8083", False),
    ],
)
def test_a_login_is_sent_only_to_allowed_hosts(leader: str, allowed: bool) -> None:
    forwarding = Forwarding({"leader.example"})
    call = Call(headers={"authorization": "Basic YTpi"}, method="PUT", target="/connectors/fs/stop")
    if allowed:
        assert forwarding.request(call, leader).headers["authorization"] == "Basic YTpi"
    else:
        with pytest.raises(RequestError) as refused:
            forwarding.request(call, leader)
        assert refused.value.status == 500
        assert "rest.forward.login.hosts" in refused.value.message
        assert "YTpi" not in refused.value.message
    without = Call(method="PUT", target="/connectors/fs/stop")
    assert "authorization" not in forwarding.request(without, leader).headers


# --- leaders that do not answer ---


@pytest.mark.parametrize(("way", "reached"), [("closed", 1), ("request", 0)])
def test_a_write_whose_answer_is_lost_is_sent_once(
    leader: Leader, url: str, way: Way, reached: int
) -> None:
    leading(leader)
    with losing(url) as proxy:
        proxy.lose["PUT /connectors/fs/pause?forward=true"] = way
        found = standby_of(proxy.url)(*PAUSE)
        assert found.status_code == 500
        assert found.json()["message"].startswith(IO_ERROR)
        assert len(proxy.lost) == 1
        assert len(leader.asked) == len(proxy.passed) == reached


def test_a_leader_that_is_gone_is_an_io_error() -> None:
    found = standby_of(f"http://{LOOPBACK}:{free_port()}")(*PAUSE)
    assert (found.status_code, found.json()) == (500, error(500, f"{IO_ERROR}Connection refused"))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Response("<html>", 200), f"{IO_ERROR}the leader's answer is not JSON"),
        (Response("<html>", 502), f"{IO_ERROR}the leader's answer is not JSON"),
        (
            Response(status_code=302, headers={"Location": "http://elsewhere/"}),
            "Unexpected status code when handling forwarded request: 302",
        ),
    ],
)
def test_an_answer_that_is_not_a_workers_is_an_error(
    leader: Leader, url: str, answer: Response, text: str
) -> None:
    leader.app = answer
    found = standby_of(url)(*PAUSE)
    assert (found.status_code, found.json()) == (500, error(500, text))
    assert len(leader.asked) == 1


def test_answers_of_a_leader_take_bounded_memory(leader: Leader, url: str) -> None:
    """Whatever the group calls its leader sends, and however many requests wait for it."""

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200}
        await send(head | {"headers": [(b"content-type", b"application/json")]})
        for _ in range(20):
            await send({"type": "http.response.body", "body": b" " * 2**20, "more_body": True})
        await send({"type": "http.response.body"})

    leader.app = large
    found = standby_of(url)(*PAUSE)
    text = f"{IO_ERROR}the leader's answer is larger than {18 * 2**20} bytes"
    assert (found.status_code, found.json()) == (500, error(500, text))

    held = BodyMemory(2**20)
    with contextlib.ExitStack() as others:
        for _ in range(64):
            others.enter_context(held.share())(2**20)
        with pytest.raises(Busy):
            for _ in range(8):
                others.enter_context(held.share())(2**20)
        others.enter_context(held.share())(2**16)
    with held.share() as grown_to:
        grown_to(64 * 2**20)


def test_a_location_stays_at_the_worker_that_was_asked(leader: Leader, url: str) -> None:
    leader.app = Response("{}", 201, {"Location": ".evil.example/x"})
    found = standby_of(url)(*PAUSE)
    assert found.headers["location"] == "http://connect:8083/.evil.example/x"


def test_proxies_of_the_environment_are_not_used(
    leader: Leader, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leading(leader)
    monkeypatch.setenv("HTTP_PROXY", f"http://{LOOPBACK}:{free_port()}")
    monkeypatch.setenv("http_proxy", f"http://{LOOPBACK}:{free_port()}")
    assert standby_of(url)(*PAUSE).status_code == 202


def test_a_leader_that_hangs_stops_no_other_request() -> None:
    """More writes wait for it than can be forwarded at once: some are turned away, and reads and
    local requests are answered."""
    verbs = running_source()
    verbs.follower = True
    with socket.create_server((LOOPBACK, 0), backlog=256) as silent, contextlib.ExitStack() as held:
        verbs.leader = f"http://{LOOPBACK}:{silent.getsockname()[1]}"
        with served(app_of(verbs)) as standby:
            asked = [
                held.enter_context(
                    contextlib.closing(
                        standby.connect(b"PUT /connectors/fs/pause HTTP/1.1\r\nHost: x\r\n\r\n")
                    )
                )
                for _ in range(100)
            ]
            turned_away, _, _ = select.select(asked, [], [], 30)
            assert turned_away[0].recv(4096).startswith(b"HTTP/1.1 503 ")
            for path in ("/health", "/connectors", "/connectors/fs/status", "/admin/loggers"):
                assert standby.get(path, timeout_s=30).status_code == 200
            plugin = "/connector-plugins/FileStreamSource/config"
            assert standby.get(plugin, timeout_s=30).status_code == 200
            # clients that have gone make room
            held.pop_all().close()
            verbs.leader = None
            pause = f"http://{LOOPBACK}:{standby.port}/connectors/fs/pause"
            wait_until(lambda: http.put(pause).status_code == 409, what="another answer than 503")
