"""A change over REST counts once the config topic holds it."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from connect_reconciler.backend.followed_topics import StoredConnector
from connect_reconciler.backend.on_kafka import ConfirmedCluster, NotArrived
from connect_reconciler.backend.rest.client import RestClient
from connect_runtime import KAFKA_VERSION
from connect_runtime.herder.verbs import RequestError
from connect_specs.desired import RestTarget, TargetState

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
OLD, NEW = {"connector.class": "C", "x": "1"}, {"connector.class": "C", "x": "2"}


class Topic:
    """What is read back, look by look, the last one for ever; and a clock that waiting moves."""

    def __init__(self, *looks: StoredConnector | None) -> None:
        self.looks = list(looks)
        self.now = 0.0

    def __call__(self, name: str) -> StoredConnector | None:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def cluster(topic: Topic, status: int = 204) -> ConfirmedCluster:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/":
            about = {"version": KAFKA_VERSION, "commit": "c", "kafka_cluster_id": "K"}
            return httpx.Response(200, json=about)
        if status == 404:
            return httpx.Response(404, json={"error_code": 404, "message": "not found"})
        config = {"name": "a", "config": {"name": "a"}, "tasks": [], "type": "source"}
        done = 201 if request.method == "POST" else 200
        return httpx.Response(done, json=config) if request.content else httpx.Response(status)

    target = RestTarget("http://connect:8083")
    client = RestClient(
        target,
        transport=httpx.MockTransport(answer),
        clock=lambda: topic.now,
        sleep=topic.sleep,
    )
    return ConfirmedCluster(client, topic, "g-configs")


Change = Callable[[ConfirmedCluster], None]
CHANGES: dict[str, tuple[StoredConnector | None, Change, StoredConnector | None]] = {
    "create": (None, lambda to: to.create("a", NEW, PAUSED), StoredConnector(NEW, PAUSED)),
    "update": (
        StoredConnector(OLD, RUNNING),
        lambda to: to.update_config("a", NEW),
        StoredConnector(NEW, RUNNING),
    ),
    "stop": (
        StoredConnector(OLD, RUNNING),
        lambda to: to.set_target("a", TargetState.STOPPED),
        StoredConnector(OLD, STOPPED),
    ),
    "pause": (
        StoredConnector(OLD, RUNNING),
        lambda to: to.set_target("a", TargetState.PAUSED),
        StoredConnector(OLD, PAUSED),
    ),
    "resume": (
        StoredConnector(OLD, PAUSED),
        lambda to: to.set_target("a", TargetState.RUNNING),
        StoredConnector(OLD, RUNNING),
    ),
    "delete": (StoredConnector(OLD, RUNNING), lambda to: to.delete("a"), None),
}
each_change = pytest.mark.parametrize(
    ("before", "change", "after"), CHANGES.values(), ids=CHANGES.keys()
)


@each_change
def test_what_arrives_late_is_waited_for(
    before: StoredConnector | None, change: Change, after: StoredConnector | None
) -> None:
    topic = Topic(before, before, before, after)
    change(cluster(topic))
    assert topic.looks == [after]
    assert 0 < topic.now < 1


@each_change
def test_what_never_arrives_is_an_error(
    before: StoredConnector | None, change: Change, after: StoredConnector | None
) -> None:
    topic = Topic(before)
    with pytest.raises(NotArrived) as raised:
        change(cluster(topic))
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.where) == ("cluster.not-arrived", "a")
    assert "g-configs" in diagnostic.what
    assert 10 <= topic.now <= 30


def test_what_somebody_else_wrote_over_it_is_no_error() -> None:
    topic = Topic(StoredConnector(OLD, RUNNING), StoredConnector({**OLD, "x": "3"}, RUNNING))
    cluster(topic).update_config("a", NEW)
    assert topic.now == 0


def test_a_config_that_is_as_before_has_arrived_if_it_was_written_anew() -> None:
    """A key that was to go, and that the cluster adds to each config."""
    topic = Topic(
        StoredConnector(OLD, RUNNING, written_at=1), StoredConnector(OLD, RUNNING, written_at=2)
    )
    cluster(topic).update_config("a", NEW)
    assert topic.now == 0


def test_tasks_that_come_up_meanwhile_are_no_arrival() -> None:
    topic = Topic(StoredConnector(OLD, RUNNING, 0), StoredConnector(OLD, RUNNING, 1))
    with pytest.raises(NotArrived):
        cluster(topic).update_config("a", NEW)


def test_not_found_when_deleting_must_be_true_of_the_topic() -> None:
    """Else what runs on one cluster would count as deleted because another does not have it."""
    with pytest.raises(NotArrived) as raised:
        cluster(Topic(StoredConnector(OLD, RUNNING)), 404).delete("a")
    assert "knows no such connector" in raised.value.diagnostics[0].what
    with pytest.raises(RequestError) as gone:
        cluster(Topic(None), 404).delete("a")
    assert gone.value.status == 404
