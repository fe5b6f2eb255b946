"""What the HTTP adapter makes of everything but a plain answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from connect_reconciler.cluster.http import HttpCluster
from connect_reconciler.cluster.port import OutcomeUnknown
from connect_reconciler.cluster.rest_client import RestClient
from connect_reconciler.cluster.retries import Retries
from connect_runtime.herder.errors import RequestError
from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Unreachable
from connect_specs.states import TargetState

Answer = httpx.Response | Exception
INFO = {"name": "a", "config": {"name": "a"}, "tasks": [], "type": "source"}
REBALANCE = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
EXPECTED = "Request cannot be completed because a rebalance is expected"


class Scripted(httpx.BaseTransport):
    """Gives one answer after the other; the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(
            answer.status_code, headers=answer.headers, content=answer.content, request=request
        )


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def told(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error_code": status, "message": message})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ask(clock: Clock) -> Iterator[Callable[..., tuple[HttpCluster, Scripted]]]:
    opened: list[HttpCluster] = []

    def over(*answers: Answer) -> tuple[HttpCluster, Scripted]:
        transport = Scripted(*answers)
        client = RestClient(
            RestTarget("http://joe:hunter2@connect:8083"),
            transport=transport,
            clock=lambda: clock.now,
            sleep=clock.sleep,
        )
        cluster = HttpCluster(client)
        opened.append(cluster)
        return cluster, transport

    yield over
    for cluster in opened:
        cluster.close()


Over = Callable[..., tuple[HttpCluster, Scripted]]


def test_a_rebalance_is_waited_out(ask: Over) -> None:
    """The trap: 409 or 500 while workers rebalance is an error. Here it is a retry."""
    cluster, transport = ask(told(409, REBALANCE), told(500, EXPECTED), httpx.Response(204))
    cluster.stop("a")
    assert [request.method for request in transport.requests] == ["PUT"] * 3


def test_a_rebalance_without_end_is_an_error(ask: Over, clock: Clock) -> None:
    cluster, _ = ask(told(409, REBALANCE))
    with pytest.raises(RequestError, match="rebalance") as refused:
        cluster.stop("a")
    assert refused.value.status == 409
    assert 25 < clock.now <= 30


def test_a_read_during_a_rebalance_is_asked_again(ask: Over) -> None:
    cluster, _ = ask(told(500, EXPECTED), httpx.Response(200, json={"name": "a"}))
    assert cluster.config("a") == {"name": "a"}


def test_a_change_that_failed_is_not_asked_again(ask: Over) -> None:
    cluster, transport = ask(told(500, "Failed to modify offsets for sink connector a"))
    with pytest.raises(RequestError, match="Failed to modify"):
        cluster.reset_offsets("a")
    assert len(transport.requests) == 1


def test_a_leader_that_could_not_write_is_asked_again(ask: Over) -> None:
    text = (
        "Failed to write to config topic; this may be due to a transient error and the request can"
        " be safely retried"
    )
    cluster, transport = ask(told(500, text), httpx.Response(204))
    cluster.pause("a")
    assert len(transport.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        "Failed to read to end of config topic before modifying connector offsets",
        "Failed to perform zombie fencing for source connector prior to modifying offsets",
        "IO Error trying to forward REST request: java.net.ConnectException: Connection refused",
    ],
)
def test_what_was_not_done_is_asked_again(ask: Over, text: str) -> None:
    cluster, transport = ask(told(500, text), httpx.Response(200, json={"message": "done"}))
    assert cluster.reset_offsets("a") == "done"
    assert len(transport.requests) == 2


def test_a_leader_that_does_not_answer_may_have_done_it(ask: Over) -> None:
    text = "IO Error trying to forward REST request: java.util.concurrent.TimeoutException"
    cluster, transport = ask(told(500, text))
    with pytest.raises(OutcomeUnknown):
        cluster.stop("a")
    assert len(transport.requests) == 1


def test_a_worker_that_does_not_know_yet_what_was_created_is_asked_again(
    ask: Over, clock: Clock
) -> None:
    """The trap: any worker answers, and those that do not lead follow late."""
    unknown = told(404, "Unknown connector a")
    created, done = httpx.Response(201, json=INFO), httpx.Response(202)
    none = httpx.Response(200, json={"offsets": []})
    cluster, transport = ask(created, unknown, unknown, done, unknown, none, unknown)
    cluster.create("a", {"name": "a"}, TargetState.RUNNING)
    cluster.stop("a")
    assert cluster.offsets("a") == ()
    with pytest.raises(RequestError, match="Unknown"):
        cluster.resume("a")
    assert 10 > clock.now > 5
    assert [request.url.path for request in transport.requests[1:4]] == ["/connectors/a/stop"] * 3


def test_what_was_not_created_here_and_is_not_there_is_not_waited_for(
    ask: Over, clock: Clock
) -> None:
    cluster, transport = ask(told(404, "Unknown connector a"))
    with pytest.raises(RequestError, match="Unknown"):
        cluster.stop("a")
    assert (len(transport.requests), clock.now) == (1, 0)


def test_a_taken_name_is_no_rebalance(ask: Over) -> None:
    cluster, transport = ask(
        told(409, "Connector a already exists"), httpx.Response(200, json={"name": "a"})
    )
    with pytest.raises(RequestError, match="already exists"):
        cluster.create("a", {"name": "a"}, TargetState.RUNNING)
    assert [request.method for request in transport.requests] == ["POST", "GET"]


@pytest.mark.parametrize("error", [httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut")])
def test_a_change_without_an_answer_is_unknown(ask: Over, error: Exception) -> None:
    cluster, transport = ask(error)
    with pytest.raises(OutcomeUnknown):
        cluster.delete("a")
    assert len(transport.requests) == 1


def test_a_proxy_that_gave_up_is_unknown_too(ask: Over) -> None:
    cluster, _ = ask(httpx.Response(504, text="Gateway Time-out"))
    with pytest.raises(OutcomeUnknown):
        cluster.delete("a")


def test_a_worker_that_comes_back_is_waited_for(clock: Clock) -> None:
    gone = httpx.ConnectError("refused")
    transport = Scripted(gone, gone, httpx.Response(204))
    client = RestClient(
        RestTarget("http://connect:8083"),
        retries=Retries(connect_s=5),
        transport=transport,
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )
    with client:
        client.change("PUT", "/connectors/a/stop")
        assert len(transport.requests) == 3
        transport.answers = [gone]
        with pytest.raises(Unreachable):
            client.read("/connectors")
    assert 3 < clock.now <= 6


def test_nobody_there(ask: Over) -> None:
    cluster, _ = ask(httpx.ConnectError("refused"))
    for request in (cluster.delete, cluster.config):
        with pytest.raises(Unreachable) as error:
            request("a")
        assert "hunter2" not in repr(error.value.diagnostics)


@pytest.mark.parametrize("status", [401, 403])
def test_not_allowed(ask: Over, status: int) -> None:
    cluster, _ = ask(httpx.Response(status, text="no"))
    with pytest.raises(Unreachable, match="does not allow"):
        cluster.delete("a")


def test_a_refusal_says_why(ask: Over) -> None:
    cluster, _ = ask(told(403, "This host name is not allowed here"))
    with pytest.raises(Unreachable) as refused:
        cluster.config("a")
    (problem,) = refused.value.diagnostics
    assert problem.why.endswith("answered 403 Forbidden: This host name is not allowed here")


def test_a_worker_that_is_busy_is_asked_again(ask: Over) -> None:
    busy = httpx.Response(503, json={"message": "too many"}, headers={"Retry-After": "1"})
    cluster, transport = ask(busy, httpx.Response(204))
    cluster.pause("a")
    assert len(transport.requests) == 2


def test_something_else_is_there(ask: Over) -> None:
    cluster, _ = ask(httpx.Response(200, text="<html>hello</html>"))
    with pytest.raises(Unreachable, match="not a Connect cluster"):
        cluster.config("a")


def test_user_and_password_of_the_url_are_sent(ask: Over) -> None:
    cluster, transport = ask(httpx.Response(200, json={}))
    cluster.config("a")
    assert transport.requests[0].headers["Authorization"].startswith("Basic ")


def test_a_path_in_the_url_stays(clock: Clock) -> None:
    transport = Scripted(httpx.Response(200, json={}))
    cluster = HttpCluster(
        RestClient(RestTarget("https://example.com/connect"), transport=transport)
    )
    cluster.config("a b")
    assert str(transport.requests[0].url) == "https://example.com/connect/connectors/a%20b/config"
    cluster.close()
