"""The cluster port, held by both adapters over the same herder: in-process, and through REST."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from starlette.types import ASGIApp

from connect_reconciler.cluster.http import HttpCluster
from connect_reconciler.cluster.in_process import InProcessCluster
from connect_reconciler.cluster.port import Cluster
from connect_reconciler.cluster.rest_client import RestClient
from connect_runtime.herder.assembly import ConnectHerder, Edges
from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.worker import WorkerSettings
from connect_runtime.rest.app import create_app
from connect_runtime.storage.log import WriteRefused
from connect_runtime.storage.memory import MemoryLogs
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry, RestTarget
from connect_specs.diagnostics import Diagnostic
from connect_specs.states import TargetState
from support.memory_cluster import GROUP_ID, TOPICS, MemoryGroups
from support.wait import wait_until

SOURCE = {"connector.class": "FileStreamSource", "file": "f", "topic": "t", "name": "a"}
SINK = {"connector.class": "FileStreamSink", "file": "f", "topics": "t", "name": "a"}
PARTITION = {"filename": "f"}
RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED


class Leading:
    """An election without other candidates."""

    leading = True
    term = 1

    def poll(self, timeout_s: float = 0.0) -> None:
        pass

    def close(self) -> None:
        pass


class AsgiTransport(httpx.BaseTransport):
    """Requests to an application in this process."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport) as client:
                return await client.send(
                    httpx.Request(
                        request.method, request.url, headers=request.headers, content=request.read()
                    )
                )

        answer = asyncio.run(ask())
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@pytest.fixture
def groups() -> MemoryGroups:
    return MemoryGroups()


@pytest.fixture
def herder(groups: MemoryGroups) -> Iterator[ConnectHerder]:
    logs = MemoryLogs()
    for topic in (TOPICS.config, TOPICS.offsets, TOPICS.status, TOPICS.assignments):
        logs.create_topic(topic)
    made = ConnectHerder(
        "http://leader:8083",
        WorkerSettings(GROUP_ID, TOPICS, "leader:8083", {}),
        Edges(
            logs=logs,
            groups=groups,
            election=Leading(),
            launcher=None,
            check=lambda name, config: None,
            leader=lambda: None,
        ),
    )
    made.start()
    wait_until(lambda: made.herder.leading, what="the herder to lead")
    yield made
    made.stop()


@pytest.fixture(params=["in-process", "http"])
def cluster(request: pytest.FixtureRequest, herder: ConnectHerder) -> Iterator[Cluster]:
    if request.param == "in-process":
        yield InProcessCluster(herder.verbs, lambda: None)
        return
    app = create_app(lambda: herder.verbs, {}, cluster_id=lambda: "k", commit="c")
    over_http = HttpCluster(
        RestClient(RestTarget("http://leader:8083"), transport=AsgiTransport(app))
    )
    yield over_http
    over_http.close()


def test_what_is_not_there(cluster: Cluster) -> None:
    assert cluster.config("a") is None
    assert cluster.status("a") is None
    for ask in (cluster.stop, cluster.pause, cluster.resume, cluster.delete, cluster.offsets):
        with pytest.raises(RequestError) as refused:
            ask("a")
        assert refused.value.status == 404


def test_created_in_each_state(cluster: Cluster, herder: ConnectHerder) -> None:
    """Created running, paused or directly stopped."""
    for state in TargetState:
        name = f"a-{state}"
        cluster.create(name, {**SOURCE, "name": name}, state)
        assert cluster.config(name) == {**SOURCE, "name": name}
        assert herder.herder.view.config.connectors[name].target is state


def test_a_config_that_kafka_never_takes_is_not_to_be_tried_again(
    cluster: Cluster, herder: ConnectHerder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        what = Diagnostic("write.failed", "Nothing was written", why="Message size too large")
        raise WriteRefused(what)

    monkeypatch.setattr(herder.herder, "write", refuse)
    with pytest.raises(RequestError, match="Message size too large") as refused:
        cluster.create("a", SOURCE, STOPPED)
    assert refused.value.status == 400
    assert "retried" not in refused.value.message


def test_a_name_is_given_once(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)
    with pytest.raises(RequestError, match="Connector a already exists"):
        cluster.create("a", SOURCE, STOPPED)


def test_a_config_is_replaced_as_a_whole(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)
    new = {"connector.class": "FileStreamSource", "topic": "u", "name": "a"}
    cluster.update_config("a", new)
    assert cluster.config("a") == new


def test_target_states_follow(cluster: Cluster, herder: ConnectHerder) -> None:
    """Running, paused and stopped: what is asked for is what is recorded."""
    cluster.create("a", SOURCE, RUNNING)
    for ask, state in ((cluster.pause, PAUSED), (cluster.stop, STOPPED), (cluster.resume, RUNNING)):
        ask("a")
        assert herder.herder.view.config.connectors["a"].target is state


def test_status_of_one_that_stopped(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)

    def stopped() -> bool:
        status = cluster.status("a")
        return status is not None and status.connector.state is State.STOPPED

    wait_until(stopped, what="its status to say so")


def test_a_restart_needs_a_status(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)
    wait_until(lambda: cluster.status("a"), what="a status")
    cluster.restart("a")
    with pytest.raises(RequestError) as refused:
        cluster.restart("b")
    assert refused.value.status == 404


def test_deleted_is_gone(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, RUNNING)
    cluster.delete("a")
    assert cluster.config("a") is None


def test_source_offsets(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)
    assert list(cluster.offsets("a")) == []
    entry = OffsetEntry(PARTITION, {"position": 7})
    assert "altered" in cluster.alter_offsets("a", [entry])
    assert list(cluster.offsets("a")) == [entry]
    assert "reset" in cluster.reset_offsets("a")
    assert list(cluster.offsets("a")) == []


def test_sink_offsets(cluster: Cluster, groups: MemoryGroups) -> None:
    cluster.create("a", SINK, STOPPED)
    groups.committed["connect-a"] = {("t", 1): 5}
    entry = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})
    gone = OffsetEntry({"kafka_topic": "t", "kafka_partition": 1}, None)
    cluster.alter_offsets("a", [entry, gone])
    assert list(cluster.offsets("a")) == [entry]
    cluster.reset_offsets("a")
    assert list(cluster.offsets("a")) == []


def test_offsets_move_only_while_stopped(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, PAUSED)
    with pytest.raises(RequestError, match="STOPPED") as refused:
        cluster.reset_offsets("a")
    assert refused.value.status == 400


def test_an_active_group_says_that_it_may_be_tried_again(
    cluster: Cluster, groups: MemoryGroups
) -> None:
    cluster.create("a", SINK, STOPPED)
    groups.active.add("connect-a")
    entry = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})
    with pytest.raises(RequestError, match="because its tasks haven't stopped completely yet"):
        cluster.alter_offsets("a", [entry])


@pytest.mark.parametrize("name", ["with space", "ünï", "a.b-c_d", "50%"])
def test_names_that_a_url_must_quote(cluster: Cluster, name: str) -> None:
    cluster.create(name, {**SOURCE, "name": name}, STOPPED)
    assert cluster.config(name) == {**SOURCE, "name": name}
