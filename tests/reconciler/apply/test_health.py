"""When is a sink that runs well: its lag does not grow while it is watched."""

from __future__ import annotations

import pytest

from connect_reconciler.apply.health import Judged, Verdict, Watch, watch_lag
from connect_reconciler.apply.lag import lag_of
from connect_reconciler.apply.report import Health
from connect_reconciler.apply.waiting import Limits
from connect_reconciler.plan.live import LogRange
from connect_runtime.herder.values import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import ExitCode, Location
from support.applying import Applying, desired_of
from support.fake_cluster import FakeCluster

SINK = {"connector.class": "FileStreamSink", "topics": "t", "name": "a"}
RUNS = InstanceStatus(State.RUNNING, "w")
DESIRED = desired_of(DesiredConnector("a", SINK, Location("a.yaml", 1, 1)))

# first lag, lag now, whether the while is over: the lag that counts from now, final, what is said
CASES = [
    (None, 5, False, 5, False, ""),
    (None, 5, True, 5, False, ""),
    (None, None, True, None, True, ""),
    (5, None, True, None, True, ""),
    (5, 9, False, 5, False, ""),
    (5, 5, True, 5, True, ""),
    (5, 4, True, 5, True, ""),
    (1204, 3870, True, 3870, False, "lag grows: 1,204 → 3,870"),
]


@pytest.mark.parametrize(("first", "now", "over", "counts", "final", "said"), CASES)
def test_lag(
    first: int | None, now: int | None, over: bool, counts: int | None, final: bool, said: str
) -> None:
    state = Watch(None, Judged(Verdict.RUNNING), 1.0, first)
    after, ended = watch_lag(state, now, 7.0, final=over)
    assert (after.lag, ended, after.missing) == (counts, final, said)
    assert after.since == (7.0 if said else 1.0)


@pytest.mark.parametrize(
    ("grows_until", "health", "detail"),
    [(0, Health.RUNNING, ""), (30, Health.RUNNING, ""), (10_000, Health.TIMED_OUT, "lag grows: ")],
)
def test_an_apply_waits_until_a_sink_catches_up(
    grows_until: float, health: Health, detail: str
) -> None:
    """The health gate: a sink's lag may not grow."""
    world = Applying(key=b"key", limits=Limits(settle_s=5, commits_s=5))
    world.kafka.create_topics()
    cluster = FakeCluster(world.kafka, runs_tasks=True)
    cluster.statuses["a"] = [ConnectorStatus("a", RUNS, {0: RUNS}, "sink")]

    def lag(name: str) -> int:
        return int(min(world.time.at, grows_until))

    world.lag = lag
    report = world.apply(DESIRED, cluster=cluster)
    assert report.connectors[0].health is health
    assert report.connectors[0].health_detail.startswith(detail)
    assert report.exit_code == (ExitCode.FAILED if detail else ExitCode.OK)
    assert world.time.at > min(grows_until, 60)


def test_lag_is_not_judged_between_two_commits() -> None:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    cluster = FakeCluster(world.kafka, runs_tasks=True)
    cluster.statuses["a"] = [ConnectorStatus("a", RUNS, {0: RUNS}, "sink")]
    world.lag = lambda name: int(world.time.at * 1000)
    assert world.apply(DESIRED, cluster=cluster).exit_code == 0
    assert world.time.at < 5


def test_lag_is_that_of_all_partitions_with_an_offset() -> None:
    world = Applying()
    world.kafka.create_topics()
    cluster = FakeCluster(world.kafka)
    lag = lag_of(cluster, world.kafka.log_ranges)
    assert lag("a") is None
    world.apply(DESIRED, cluster=cluster)
    cluster = FakeCluster(world.kafka)
    assert lag_of(cluster, world.kafka.log_ranges)("a") is None
    world.kafka.groups["connect-a"] = {("t", 0): 7, ("t", 1): 90, ("gone", 0): 1}
    world.kafka.ranges = {("t", 0): LogRange(0, 100), ("t", 1): LogRange(0, 90)}
    assert lag_of(cluster, world.kafka.log_ranges)("a") == 93
