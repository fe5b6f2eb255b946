"""What the HTTP adapter makes of everything but a plain answer."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial

import httpx
import pytest

from connect_reconciler.backend.http import HttpCluster
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.answers import NotConnect, short
from connect_reconciler.backend.rest.client import OutcomeUnknown, RestClient
from connect_reconciler.backend.rest.exchange_log import redacted
from connect_reconciler.backend.rest.refusals import (
    Retries,
    not_written,
    retry_after_s,
    timed_out,
)
from connect_runtime.herder.verbs import RequestError
from connect_specs.desired import RestTarget, TargetState
from connect_specs.diagnostics import Failed, Unreachable
from connect_specs.secrets import Redactor

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


def test_half_of_a_surrogate_pair_makes_no_answer_unreadable(ask: Over) -> None:
    """An Apache worker stores it in one connector's config, and lists all of them in one answer."""
    json = {"Content-Type": "application/json"}
    content = rb'{"odd":"x\uD800","k\uDC00":"\\uD800","pair":"\uD83D\uDE00"}'
    cluster, _ = ask(httpx.Response(200, content=content, headers=json))
    assert cluster.config("a") == {"k?": "\\uD800", "pair": "\U0001f600"}


def test_a_rebalance_is_waited_out(ask: Over) -> None:
    """The trap: 409 or 500 while workers rebalance is an error. Here it is a retry."""
    cluster, transport = ask(told(409, REBALANCE), told(500, EXPECTED), httpx.Response(204))
    cluster.set_target("a", TargetState.STOPPED)
    assert [request.method for request in transport.requests] == ["PUT"] * 3


def test_a_rebalance_without_end_is_an_error(ask: Over, clock: Clock) -> None:
    cluster, _ = ask(told(409, REBALANCE))
    with pytest.raises(RequestError, match="rebalance") as refused:
        cluster.set_target("a", TargetState.STOPPED)
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
    cluster.set_target("a", TargetState.PAUSED)
    assert len(transport.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        "Failed to read to end of config topic before modifying connector offsets",
        "Failed to list offsets prior to resetting offsets for sink connector a",
        "Timed out while trying to read to the end of the offsets topic prior to modifying offsets"
        " for source connector a",
        "Failed to perform zombie fencing for source connector prior to modifying offsets",
        "IO Error trying to forward REST request: java.net.ConnectException: Connection refused",
    ],
)
def test_what_was_not_done_is_asked_again(ask: Over, text: str) -> None:
    cluster, transport = ask(told(500, text), httpx.Response(200, json={"message": "done"}))
    assert cluster.reset_offsets("a") == "done"
    assert len(transport.requests) == 2


def test_the_code_of_our_runtime_counts_and_not_its_text(ask: Over) -> None:
    done = httpx.Response(200, json={"message": "done"})
    body = {"error_code": 500, "message": "something went wrong"}
    coded = httpx.Response(500, json=body, headers={"Connect-Refusal": "not-read"})
    cluster, transport = ask(coded, done)
    assert cluster.reset_offsets("a") == "done"
    assert len(transport.requests) == 2
    body = {"error_code": 500, "message": "Failed to write to config topic"}
    coded = httpx.Response(500, json=body, headers={"Connect-Refusal": "timed-out"})
    cluster, transport = ask(coded, done)
    with pytest.raises(RequestError) as refused:
        cluster.reset_offsets("a")
    assert timed_out(refused.value) and not not_written(refused.value)
    assert len(transport.requests) == 1


def test_a_leader_that_does_not_answer_may_have_done_it(ask: Over) -> None:
    text = "IO Error trying to forward REST request: java.util.concurrent.TimeoutException"
    cluster, transport = ask(told(500, text))
    with pytest.raises(OutcomeUnknown):
        cluster.set_target("a", TargetState.STOPPED)
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
    cluster.set_target("a", TargetState.STOPPED)
    assert cluster.offsets("a") == ()
    with pytest.raises(RequestError, match="Unknown"):
        cluster.set_target("a", TargetState.RUNNING)
    assert 10 > clock.now > 5
    assert [request.url.path for request in transport.requests[1:4]] == ["/connectors/a/stop"] * 3


def test_what_was_not_created_here_and_is_not_there_is_not_waited_for(
    ask: Over, clock: Clock
) -> None:
    cluster, transport = ask(told(404, "Unknown connector a"))
    with pytest.raises(RequestError, match="Unknown"):
        cluster.set_target("a", TargetState.STOPPED)
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
            client.read("/connectors", shapes.names)
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
    cluster.set_target("a", TargetState.PAUSED)
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


# --- turned away on the way ---

AWAY = httpx.Response(503, text="<html>no server is available</html>")
GONE = told(404, "Connector a not found")


def asked(transport: Scripted) -> list[str]:
    return [f"{request.method} {request.url.path}" for request in transport.requests]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_was_turned_away_is_asked_again(ask: Over, clock: Clock, status: int) -> None:
    """The trap: one 503 of a load balancer ends an apply."""
    away = httpx.Response(status, text="later")
    cluster, transport = ask(away, away, httpx.Response(204))
    cluster.set_target("a", TargetState.STOPPED)
    assert asked(transport) == ["PUT /connectors/a/stop"] * 3
    assert clock.now < 1
    cluster, transport = ask(away, httpx.Response(200, json={"name": "a"}))
    assert cluster.config("a") == {"name": "a"}


def test_a_create_that_was_turned_away_is_looked_for_before_it_is_asked_again(ask: Over) -> None:
    there = httpx.Response(200, json={"name": "a", "file": "x"})
    post, get = "POST /connectors", "GET /connectors/a/config"
    cluster, transport = ask(AWAY, there)
    cluster.create("a", {"file": "x"}, TargetState.RUNNING)
    assert asked(transport) == [post, get]
    cluster, transport = ask(AWAY, GONE, httpx.Response(201, json=INFO))
    cluster.create("a", {"file": "x"}, TargetState.RUNNING)
    assert asked(transport) == [post, get, post]
    # the first request arrives between the look and the second one
    taken = told(409, "Connector a already exists")
    cluster, transport = ask(AWAY, GONE, taken, there)
    cluster.create("a", {"file": "x"}, TargetState.RUNNING)
    assert asked(transport) == [post, get, post, get]
    # another one's connector of that name is no success
    cluster, _ = ask(AWAY, GONE, taken, httpx.Response(200, json={"name": "a", "file": "y"}))
    with pytest.raises(RequestError, match="already exists"):
        cluster.create("a", {"file": "x"}, TargetState.RUNNING)


def test_a_delete_that_was_turned_away_and_done_is_done(ask: Over) -> None:
    cluster, transport = ask(AWAY, GONE)
    cluster.delete("a")
    assert asked(transport) == ["DELETE /connectors/a", "GET /connectors/a/config"]
    there = httpx.Response(200, json={"name": "a"})
    cluster, _ = ask(AWAY, there, told(404, "Connector a not found"), GONE)
    cluster.delete("a")


def test_a_config_that_was_turned_away_is_read_back(ask: Over) -> None:
    old, new = (httpx.Response(200, json={"name": "a", "file": each}) for each in "xy")
    cluster, transport = ask(AWAY, new)
    cluster.update_config("a", {"name": "a", "file": "y"})
    assert len(transport.requests) == 2
    cluster, transport = ask(AWAY, old, httpx.Response(200, json=INFO))
    cluster.update_config("a", {"name": "a", "file": "y"})
    assert [request.method for request in transport.requests] == ["PUT", "GET", "PUT"]


def test_a_mask_does_not_tell_that_a_config_was_written(ask: Over) -> None:
    """The trap: the old secret is masked, too, so the change counts as done and never is."""
    masked = httpx.Response(200, json={"name": "a", "password": "********"})
    cluster, transport = ask(AWAY, masked, httpx.Response(200, json=INFO))
    cluster.update_config("a", {"name": "a", "password": "new"})
    assert [request.method for request in transport.requests] == ["PUT", "GET", "PUT"]
    # of a name that was free, it does
    cluster, _ = ask(AWAY, masked)
    cluster.create("a", {"password": "new"}, TargetState.RUNNING)


def test_who_goes_on_turning_away_is_left_when_the_time_is_over(ask: Over, clock: Clock) -> None:
    cluster, _ = ask(AWAY)
    with pytest.raises(OutcomeUnknown) as unknown:
        cluster.set_target("a", TargetState.STOPPED)
    assert 8 < clock.now <= 10
    (problem,) = unknown.value.diagnostics
    why = "PUT http://connect:8083/connectors/a/stop answered 503 Service Unavailable: "
    assert problem.why == why + "text/plain, no server is available"
    with pytest.raises(Unreachable, match="answers 503"):
        cluster.config("a")
    cluster, _ = ask(httpx.Response(429, text="slow down"))
    with pytest.raises(Unreachable) as refused:
        cluster.set_target("a", TargetState.STOPPED)
    assert "--parallelism" in refused.value.diagnostics[0].hint


def test_a_worker_that_is_starting_is_waited_for(ask: Over, clock: Clock) -> None:
    """The trap: until its resources are there Jetty says 404, as if there were no connector."""
    jetty = {"servlet": "-", "message": "Not Found", "url": "/connectors/a", "status": "404"}
    starting = httpx.Response(404, json=jetty)
    cluster, transport = ask(starting, starting, httpx.Response(204), starting, told(404, "gone"))
    cluster.set_target("a", TargetState.STOPPED)
    assert cluster.config("a") is None
    assert len(transport.requests) == 5
    cluster, _ = ask(starting)
    for request in (cluster.config, partial(cluster.set_target, target=TargetState.STOPPED)):
        with pytest.raises(NotConnect, match="not a Connect cluster"):
            request("a")
    assert clock.now > 15


def test_retry_after_is_waited_for(ask: Over, clock: Clock) -> None:
    for text in ("4", format_datetime(datetime.now(UTC) + timedelta(seconds=5), usegmt=True)):
        begun = clock.now
        away = httpx.Response(503, headers={"Retry-After": text})
        cluster, _ = ask(away, httpx.Response(204))
        cluster.set_target("a", TargetState.PAUSED)
        assert 3 < clock.now - begun <= 5
    # longer than anyone waits: it is not asked once more
    cluster, transport = ask(httpx.Response(429, headers={"Retry-After": "3600"}))
    begun = clock.now
    with pytest.raises(Unreachable):
        cluster.set_target("a", TargetState.PAUSED)
    assert (len(transport.requests), clock.now) == (1, begun)


@pytest.mark.parametrize("text", ["", "soon", "-1", "1e9", "٣", "Wed, 99 Foo 2026", "9" * 400])
def test_a_retry_after_that_says_nothing_is_none(text: str) -> None:
    assert retry_after_s({"Retry-After": text}) in (0.0, 999_999_999.0)


def test_a_date_that_is_over_asks_for_nothing() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    headers = {"Retry-After": "Thu, 01 Jan 2026 00:00:00 GMT"}
    assert retry_after_s(headers, now) == 0.0
    assert retry_after_s(headers, now - timedelta(days=1, seconds=7)) == 7.0


# --- what an error says ---


def test_an_update_that_created_is_an_error(ask: Over) -> None:
    """The trap: a copied connect.yaml leads elsewhere, and an update makes a second copy there."""
    cluster, _ = ask(httpx.Response(201, json=INFO))
    with pytest.raises(Failed, match="was not there") as failed:
        cluster.update_config("a", {"name": "a"})
    (problem,) = failed.value.diagnostics
    assert problem.code == "apply.created-instead"
    assert "PUT http://connect:8083/connectors/a/config answered 201 Created" in problem.why
    assert not isinstance(failed.value, Unreachable)


def test_a_success_that_is_not_connects_is_none(ask: Over) -> None:
    """Each request has its own answer: 200 with an empty body is no answer to any."""
    empty = httpx.Response(200)
    cluster, _ = ask(empty)
    for request in (
        lambda: cluster.create("a", {}, TargetState.RUNNING),
        lambda: cluster.update_config("a", {}),
        lambda: cluster.patch_config("a", {}),
        lambda: cluster.set_target("a", TargetState.STOPPED),
        lambda: cluster.set_target("a", TargetState.PAUSED),
        lambda: cluster.set_target("a", TargetState.RUNNING),
        lambda: cluster.restart("a", only_failed=True),
        lambda: cluster.delete("a"),
        lambda: cluster.alter_offsets("a", ()),
        lambda: cluster.reset_offsets("a"),
        lambda: cluster.config("a"),
        lambda: cluster.status("a"),
        lambda: cluster.offsets("a"),
        lambda: cluster.version,
    ):
        with pytest.raises(NotConnect, match="not a Connect cluster") as refused:
            request()
        assert refused.value.exit_code == 3


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        None,
        "x",
        7,
        {"name": "a"},
        {"name": "a", "config": [], "tasks": []},
        {"name": "a", "config": {"a": 1}, "tasks": []},
        {"name": "a", "config": {}, "tasks": {}},
        {"name": "a", "config": {}, "tasks": [1]},
        {"name": 1, "config": {}, "tasks": []},
        {"name": "a", "connector": {"state": "hunter2"}, "tasks": []},
        {"name": "a", "connector": {}, "tasks": []},
        {"name": "a", "connector": [], "tasks": []},
        {"offsets": {}},
        {"offsets": [1]},
        {"offsets": [{}]},
        {"offsets": [{"partition": None, "offset": None}]},
        {"offsets": [{"partition": {"p": 1}, "offset": [1]}]},
        {"a": 1},
        {"a": {"info": 1, "status": 1}},
    ],
)
def test_no_shape_ends_as_a_bug(ask: Over, body: object) -> None:
    shown: list[str] = []
    for parse in (shapes.about, shapes.connector, shapes.status, shapes.offsets, shapes.expanded):
        transport = Scripted(httpx.Response(200, json=body))
        with RestClient(RestTarget("http://connect:8083"), transport=transport) as client:
            try:
                found = client.must("/x", parse)
            except NotConnect as error:
                shown.append(repr(error.diagnostics))
            else:
                assert parse is shapes.expanded and found == {}
    assert len(shown) >= 4
    assert "hunter2" not in "".join(shown)


def test_an_error_of_connect_names_its_request(ask: Over) -> None:
    cluster, _ = ask(told(400, "Connector configuration is invalid"))
    with pytest.raises(RequestError) as refused:
        cluster.update_config("a", {"name": "a"})
    assert refused.value.message == "Connector configuration is invalid"
    (problem,) = refused.value.diagnostics
    assert problem.why == "PUT http://connect:8083/connectors/a/config answered 400 Bad Request"
    assert problem.hint


def test_what_is_not_connect_shows_no_secret_that_it_echoes() -> None:
    """Neither the login nor what was sent, nor what a text itself says is a password."""
    login = base64.b64encode(b"joe:hunter2").decode()
    target = RestTarget("http://connect:8083", "joe", "hunter2", {"X-Auth": "Bearer tok-12345678"})
    body = (
        f"<b>Authorization: Basic {login}</b> X-Auth: Bearer tok-12345678; hunter2 pin=zq9-1 "
        "zq9&quot;pa &lt;b&gt; password=zq9x http://u:zq9y@h/ \x1b[31m\x00 &#27;"
    )
    transport = Scripted(httpx.Response(500, text=body, headers={"Content-Type": "text/html"}))
    retries = Retries(0, 0)
    with RestClient(target, transport=transport, retries=retries) as client:
        cluster = HttpCluster(client)
        with pytest.raises(Unreachable) as refused:
            cluster.update_config("a", {"name": "a", "internal.pin": "zq9-1", "x": 'zq9"pa <b>'})
    (problem,) = refused.value.diagnostics
    for secret in (login, "tok-1234", "hunter2", "zq9", "\x1b", "\x00"):
        assert secret not in problem.why
    assert "text/html, Authorization: " in problem.why
    assert "\n" not in problem.why and len(problem.why) < 300


def test_an_answer_that_cannot_be_unpacked_is_none() -> None:
    class Broken(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            stream = httpx.ByteStream(b"no gzip")
            return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=stream)

    with RestClient(
        RestTarget("http://connect:8083"), transport=Broken(), retries=Retries(0, 0)
    ) as client:
        with pytest.raises(Unreachable):
            client.read("/connectors", shapes.names)
        with pytest.raises(OutcomeUnknown):
            client.change("PUT", "/connectors/a/stop")


# --- what the log is told of bodies ---


def test_of_a_config_the_log_is_told_no_value_that_may_be_secret() -> None:
    config = {"name": "a", "connector.class": "C", "tasks.max": "1", "topics": "t", "type": "zq9"}
    shown = {**config, "topics": "(1 characters)", "type": "(3 characters)"}
    assert redacted(config, config=True) == shown
    info = {"name": "a", "config": config, "tasks": [{"connector": "a", "task": 0}], "type": "sink"}
    assert redacted(info) == {**info, "config": shown}
    part = {"state": "FAILED", "worker_id": "w", "trace": "zq9"}
    assert redacted({"connector": part}) == {"connector": {**part, "trace": "(3 characters)"}}
    entry = {"partition": {"file": "zq9"}, "offset": {"position": 7, "last": None}}
    assert redacted([entry]) == [{**entry, "partition": {"file": "(3 characters)"}}]
    assert redacted({"error_code": 400, "message": "zq9"}) == {
        "error_code": 400,
        "message": "(3 characters)",
    }


@pytest.mark.parametrize("piece", ["<", "<!--", "<script ", "<style>a", "</script", "&lt;!--"])
def test_a_page_that_is_broken_is_read_at_once(piece: str) -> None:
    begun = time.process_time()
    short(piece * (70_000 // len(piece)), Redactor())
    assert time.process_time() - begun < 1


def test_of_a_page_its_text_is_shown() -> None:
    page = "<!-- a > b --><style>x</style><p class='>'>Sorry, <b>no</b> server</p><script>cut"
    assert short(page, Redactor()) == "'>Sorry, no server"
