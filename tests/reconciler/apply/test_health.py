"""When is a sink that runs well: its lag does not grow while it is watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from connect_reconciler.apply.context import Limits
from connect_reconciler.apply.health import (
    HealthVerdict,
    HealthWatch,
    Lag,
    Lags,
    Verdict,
    growth,
    watch_lag,
)
from connect_reconciler.apply.report import Health
from connect_reconciler.apply.status_observer import lags_of
from connect_reconciler.backend.followed_topics import ConfigTopic
from connect_reconciler.model.live import LogRange
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import (
    ConnectError,
    Diagnostic,
    ExitCode,
    Failed,
    Location,
    Unreachable,
)
from support.applying import Applying, desired_of
from support.fake_cluster import TOPICS, FakeCluster, refused

SINK = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}
RUNS = InstanceStatus(State.RUNNING, "w")


def desired(**more: str) -> DesiredConnector:
    return DesiredConnector("a", SINK | more, Location("a.yaml", 1, 1))


def partitions(*lags: tuple[int, int]) -> Lags:
    return {("t", number): Lag(*each) for number, each in enumerate(lags)}


# Each partition as (offset, end), at first and now
GROWTH = {
    "it keeps up": ([(90, 100)], [(195, 205)], ""),
    "it keeps up, and just now more was written": ([(90, 100)], [(150, 900)], ""),
    "it stands still between two commits, and nothing was written": ([(90, 100)], [(90, 100)], ""),
    "it catches up, and is far behind": ([(0, 9000)], [(500, 9100)], ""),
    "a transaction's marker ends the log": ([(99, 100)], [(99, 100)], ""),
    "markers alone were written after it": (
        [(99, 100)],
        [(99, 104)],
        "lag grows: 1 → 5 records (t-0); it commits nothing",
    ),
    "it commits nothing": (
        [(90, 1294)],
        [(90, 3960)],
        "lag grows: 1,204 → 3,870 records (t-0); it commits nothing",
    ),
    "it is too slow": (
        [(0, 100)],
        [(50, 400)],
        "lag grows: 100 → 350 records (t-0); it commits less than is written",
    ),
    "one of its tasks is stuck, others catch up": (
        [(90, 100), (100, 100), (0, 9)],
        [(900, 900), (700, 700), (0, 20)],
        "lag grows: 9 → 20 records (t-2); it commits nothing",
    ),
    "one partition's turn has not come": ([(0, 9000), (0, 5)], [(900, 9000), (0, 6)], ""),
    "two are too slow": (
        [(0, 10), (0, 10)],
        [(5, 30), (5, 90)],
        "lag grows: 20 → 110 records (most of it in t-1); it commits less than is written",
    ),
    "a partition is new": ([(5, 5)], [(5, 5), (0, 700)], ""),
    "a topic was deleted": ([(5, 9)], [], ""),
    "it reads nothing yet": ([], [], ""),
    "it was moved beyond the end": ([(500, 100)], [(500, 130)], ""),
}


@pytest.mark.parametrize("case", GROWTH)
def test_growth(case: str) -> None:
    first, now, said = GROWTH[case]
    assert growth(partitions(*first), partitions(*now)) == said


def test_lag_is_read_first_and_when_the_while_is_over() -> None:
    state = HealthWatch(judged=HealthVerdict(Verdict.HEALTHY), since=1.0)
    slow, fast = partitions((0, 50)), partitions((10, 50))
    state, final = watch_lag(state, partitions((0, 10)), final=True)
    assert (state.first_lags, final) == (partitions((0, 10)), False)
    assert watch_lag(state, slow, final=False) == (state, False)
    grown, final = watch_lag(state, slow, final=True)
    assert (grown.lag_growth.partition(" (")[0], final) == ("lag grows: 10 → 50 records", False)
    caught_up, final = watch_lag(grown, fast, final=True)
    assert (caught_up, final) == (replace(state, keeps_up=True), True)


class Watched:
    """A sink that runs, over a fake cluster, and how far it is, by the clock."""

    def __init__(self, healthy_s: float, commits_s: float) -> None:
        limits = Limits(settle_s=0, commits_s=commits_s).healthy_for(healthy_s)
        self.world = Applying(key=b"key", limits=limits)
        self.world.kafka.create_topics()
        self.cluster = FakeCluster(self.world.kafka, runs_tasks=True)
        self.cluster.statuses["a"] = [ConnectorStatus("a", RUNS, {0: RUNS}, "sink")]

    @property
    def now(self) -> int:
        return int(self.world.time.at)


@pytest.mark.parametrize(
    ("stuck_until", "health", "detail"),
    [
        (0, Health.RUNNING, ""),
        (30, Health.RUNNING, ""),
        (10_000, Health.FALLS_BEHIND, "lag grows: "),
    ],
)
def test_an_apply_waits_until_a_sink_catches_up(
    stuck_until: int, health: Health, detail: str
) -> None:
    """The health gate: a sink's lag may not grow."""
    watched = Watched(5, 5)
    watched.world.lags = lambda name: partitions(
        (watched.now if watched.now >= stuck_until else 0, watched.now + 1)
    )
    report = watched.world.apply(desired_of(desired()), cluster=watched.cluster)
    assert report.connectors[0].health is health
    assert report.connectors[0].health_detail.startswith(detail)
    assert report.exit_code == (ExitCode.FAILED if detail else ExitCode.OK)
    assert min(max(stuck_until, 5), 60) <= watched.now <= 67


def test_lag_is_not_judged_between_two_commits() -> None:
    watched = Watched(2, 60)
    watched.world.lags = lambda name: partitions((0, watched.now * 1000))
    assert watched.world.apply(desired_of(desired()), cluster=watched.cluster).exit_code == 0
    assert watched.now < 5


@pytest.mark.parametrize(
    ("error", "health", "detail"),
    [
        (refused("No such API", 404), Health.RUNNING, "its lag could not be read: No such API"),
        (Failed(Diagnostic("x", "Denied")), Health.RUNNING, "its lag could not be read: Denied"),
        (Unreachable(Diagnostic("x", "Kafka is gone")), Health.UNKNOWN, "Kafka is gone"),
    ],
)
def test_lag_that_cannot_be_read_is_said(error: ConnectError, health: Health, detail: str) -> None:
    watched = Watched(5, 5)

    def lags(name: str) -> Lags:
        raise error

    watched.world.lags = lags
    report = watched.world.apply(desired_of(desired()), cluster=watched.cluster)
    assert (report.connectors[0].health, report.connectors[0].health_detail) == (health, detail)


class Deleted(FakeCluster):
    """Somebody deletes the connector once it is waited for."""

    def status(self, name: str) -> ConnectorStatus | None:
        if self.config(name) is not None:
            self.delete(name)
        return None


def test_a_connector_that_is_deleted_meanwhile_is_not_one_that_has_yet_to_start() -> None:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    cluster = Deleted(world.kafka, runs_tasks=True)
    (report,) = world.apply(desired_of(desired()), cluster=cluster).connectors
    assert report.health is Health.DELETED
    assert report.health_detail == "it was deleted outside connect"


STANDINGS: Mapping[str, tuple[Mapping[str, str], Lags]] = {
    "its committed offsets, else the log's start": (
        {"topics": "t"},
        {("t", 0): Lag(7, 100), ("t", 1): Lag(20, 90), ("old", 0): Lag(3, 5)},
    ),
    "where it begins at the end only its tasks know": (
        {"topics": "t", "consumer.override.auto.offset.reset": "latest"},
        {("t", 0): Lag(7, 100), ("old", 0): Lag(3, 5)},
    ),
    "topics by a pattern": (
        {"topics": "", "topics.regex": "t|u.*"},
        {
            ("t", 0): Lag(7, 100),
            ("t", 1): Lag(20, 90),
            ("old", 0): Lag(3, 5),
            ("u1", 0): Lag(0, 0),
        },
    ),
    "a topic that is not there": (
        {"topics": "nowhere"},
        {("t", 0): Lag(7, 100), ("old", 0): Lag(3, 5)},
    ),
}


@pytest.mark.parametrize("case", STANDINGS)
def test_lags(case: str) -> None:
    config, expected = STANDINGS[case]
    world = Applying()
    world.kafka.create_topics()
    world.apply(desired_of(desired(**config)))
    world.kafka.groups["connect-a"] = {("t", 0): 7, ("old", 0): 1, ("gone", 0): 1}
    world.kafka.ranges = {
        ("t", 0): LogRange(0, 100),
        ("t", 1): LogRange(20, 90),
        ("old", 0): LogRange(3, 5),
        ("u1", 0): LogRange(0, 0),
    }
    cluster = FakeCluster(world.kafka)
    read_back = ConfigTopic(world.kafka.logs.reader(TOPICS.config))
    assert lags_of(cluster, lambda name, config: world.kafka, read_back, {})("a") == expected
