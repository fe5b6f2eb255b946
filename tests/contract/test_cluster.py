"""The cluster port: both adapters over the same herder, in-process and through REST, and the fake
that stands for them in tests of applies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from connect_reconciler.backend.backend import Cluster
from connect_reconciler.backend.http import HttpCluster
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.refusals import group_is_active, wants_stop
from connect_reconciler.backend.runtime import InProcessCluster
from connect_runtime.herder.verbs import RequestError
from connect_runtime.storage import config_topic
from connect_runtime.storage.log import WriteRefused
from connect_runtime.storage.snapshots import ConfigSnapshot, State, TaskId
from connect_specs.desired import OffsetEntry, RestTarget, TargetState
from connect_specs.diagnostics import Diagnostic
from support.fake_cluster import TOPICS as FAKE_TOPICS
from support.fake_cluster import FakeCluster, FakeKafka
from support.rest_worker import RestWorker, rest_worker
from support.wait import wait_until

SOURCE = {"connector.class": "FileStreamSource", "file": "f", "topic": "t", "name": "a"}
SINK = {"connector.class": "FileStreamSink", "file": "f", "topics": "t", "name": "a"}
PARTITION = {"filename": "f"}
RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED


@dataclass(frozen=True, slots=True)
class Site:
    """One implementation, and what its tests see and set from outside of it."""

    cluster: Cluster
    target: Callable[[str], TargetState | None]
    groups: dict[str, dict[tuple[str, int], int]]
    active: set[str]


def _fake() -> Site:
    kafka = FakeKafka()
    kafka.create_topics()

    def target(name: str) -> TargetState | None:
        records = kafka.records(FAKE_TOPICS.config)
        return config_topic.reduce_all(ConfigSnapshot(), records).connectors[name].target

    return Site(FakeCluster(kafka), target, kafka.groups, kafka.active)


def _over(worker: RestWorker, cluster: Cluster) -> Site:
    def target(name: str) -> TargetState | None:
        return worker.connect.herder.view.config.connectors[name].target

    return Site(cluster, target, worker.groups.committed, worker.groups.active)


@pytest.fixture(params=["in-process", "http", "fake"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if request.param == "fake":
        yield _fake()
        return
    with rest_worker(runs_tasks=False) as worker:
        if request.param == "in-process":
            yield _over(worker, InProcessCluster(worker.verbs, lambda: None))
            return
        target = RestTarget("http://leader:8083")
        over_http = HttpCluster(RestClient(target, transport=worker.transport))
        yield _over(worker, over_http)
        over_http.close()


@pytest.fixture
def cluster(site: Site) -> Cluster:
    return site.cluster


def test_what_is_not_there(cluster: Cluster) -> None:
    assert cluster.config("a") is None
    assert cluster.status("a") is None
    to_states = (partial(cluster.set_target, target=state) for state in TargetState)
    for ask in (*to_states, cluster.delete, cluster.offsets):
        with pytest.raises(RequestError) as refused:
            ask("a")
        assert refused.value.status == 404


def test_created_in_each_state(cluster: Cluster, site: Site) -> None:
    """Created running, paused or directly stopped."""
    for state in TargetState:
        name = f"a-{state}"
        cluster.create(name, {**SOURCE, "name": name}, state)
        assert cluster.config(name) == {**SOURCE, "name": name}
        assert site.target(name) is state


@pytest.mark.parametrize("through", ["in-process", "http"])
def test_a_config_that_kafka_never_takes_is_not_to_be_tried_again(
    through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        what = Diagnostic("write.failed", "Nothing was written", why="Message size too large")
        raise WriteRefused(what)

    with rest_worker(runs_tasks=False) as worker:
        cluster: Cluster = InProcessCluster(worker.verbs, lambda: None)
        if through == "http":
            target = RestTarget("http://leader:8083")
            cluster = HttpCluster(RestClient(target, transport=worker.transport))
        monkeypatch.setattr(worker.connect.herder, "write", refuse)
        with pytest.raises(RequestError, match="Message size too large") as refused:
            cluster.create("a", SOURCE, STOPPED)
        assert refused.value.status == 400
        assert "retried" not in refused.value.message
        cluster.close()


def test_a_name_is_given_once(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)
    with pytest.raises(RequestError, match="Connector a already exists"):
        cluster.create("a", SOURCE, STOPPED)


def test_a_config_is_replaced_as_a_whole(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)
    new = {"connector.class": "FileStreamSource", "topic": "u", "name": "a"}
    cluster.update_config("a", new)
    assert cluster.config("a") == new


def test_target_states_follow(cluster: Cluster, site: Site) -> None:
    """Running, paused and stopped: what is asked for is what is recorded."""
    cluster.create("a", SOURCE, RUNNING)
    for state in (PAUSED, STOPPED, RUNNING):
        cluster.set_target("a", state)
        assert site.target("a") is state


def test_status_of_one_that_stopped(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)

    def stopped() -> bool:
        status = cluster.status("a")
        return status is not None and status.connector.state is State.STOPPED

    wait_until(stopped, what="its status to say so")


def test_a_restart_needs_a_status(cluster: Cluster) -> None:
    cluster.create("a", SOURCE, STOPPED)
    wait_until(lambda: cluster.status("a"), what="a status")
    cluster.restart("a", only_failed=True)
    with pytest.raises(RequestError) as refused:
        cluster.restart("b", only_failed=True)
    assert refused.value.status == 404


@pytest.mark.parametrize("through", ["in-process", "http"])
def test_a_restart_is_of_all_that_runs_or_of_what_failed(through: str) -> None:
    with rest_worker() as worker:
        cluster: Cluster = InProcessCluster(worker.verbs, lambda: None)
        if through == "http":
            target = RestTarget("http://leader:8083")
            cluster = HttpCluster(RestClient(target, transport=worker.transport))
        cluster.create("a", {**SOURCE, "tasks.max": "1"}, RUNNING)

        def runs() -> bool:
            status = cluster.status("a")
            tasks = () if status is None else tuple(status.tasks.values())
            return bool(tasks) and all(task.state is State.RUNNING for task in tasks)

        def attempt() -> int:
            found = worker.connect.herder.view.assignments.tasks.get(TaskId("a", 0))
            return 0 if found is None else found.attempt

        wait_until(runs, what="its task to run")
        first = attempt()
        cluster.restart("a", only_failed=True)
        assert attempt() == first
        cluster.restart("a", only_failed=False)
        wait_until(lambda: attempt() > first and runs(), what="its task to run anew")
        cluster.close()


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


def test_sink_offsets(cluster: Cluster, site: Site) -> None:
    cluster.create("a", SINK, STOPPED)
    site.groups["connect-a"] = {("t", 1): 5}
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
    assert (refused.value.status, wants_stop(refused.value)) == (400, True)


def test_an_active_group_says_that_it_may_be_tried_again(cluster: Cluster, site: Site) -> None:
    cluster.create("a", SINK, STOPPED)
    site.active.add("connect-a")
    entry = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})
    text = "because its tasks haven't stopped completely yet"
    with pytest.raises(RequestError, match=text) as refused:
        cluster.alter_offsets("a", [entry])
    assert group_is_active(refused.value)


@pytest.mark.parametrize("name", ["with space", "ünï", "a.b-c_d", "50%"])
def test_names_that_a_url_must_quote(cluster: Cluster, name: str) -> None:
    cluster.create(name, {**SOURCE, "name": name}, STOPPED)
    assert cluster.config(name) == {**SOURCE, "name": name}
