"""The connectors of an apply are healthy together at its end: one that was healthy and fails while
others are waited for is a failure, and running for a moment proves little."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from connect_reconciler.apply.context import Limits
from connect_reconciler.apply.report import ApplyReport, Health
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.desired import DesiredConnector, TargetState
from connect_specs.diagnostics import ExitCode, Location
from support.applying import Applying, desired_of
from support.fake_cluster import FakeCluster

# The states of a task, each from a time on
Course = tuple[tuple[float, State], ...]
RUNS, FAILED, NONE = State.RUNNING, State.FAILED, State.UNASSIGNED


class Timed(FakeCluster):
    """Its tasks are in states that follow the clock."""

    def __init__(self, world: Applying, courses: Mapping[str, Course]) -> None:
        world.kafka.create_topics()
        super().__init__(world.kafka, runs_tasks=True)
        self._now: Callable[[], float] = lambda: world.time.at
        self._courses = courses
        self.asked: dict[str, int] = dict.fromkeys(courses, 0)

    def status(self, name: str) -> ConnectorStatus | None:
        if self.config(name) is None:
            return None
        self.asked[name] += 1
        state = [each for since, each in self._courses[name] if since <= self._now()][-1]
        trace = "ValueError: it broke" if state is FAILED else None
        task = InstanceStatus(state, "w", trace)
        return ConnectorStatus(name, InstanceStatus(RUNS, "w"), {0: task}, "source")


def apply(
    courses: Mapping[str, Course],
    limits: Limits | None = None,
    state: TargetState = TargetState.RUNNING,
) -> tuple[ApplyReport, Applying]:
    world = Applying(key=b"key", limits=limits or Limits(settle_s=0))
    config = {"connector.class": "FileStreamSource", "topic": "t"}
    specs = [
        DesiredConnector(name, {**config, "name": name}, Location(f"{name}.yaml", 1, 1), state)
        for name in courses
    ]
    return world.apply(desired_of(*specs), cluster=Timed(world, courses)), world


def health(report: ApplyReport) -> dict[str, Health]:
    return {each.name: each.health for each in report.connectors}


def test_one_that_fails_while_another_is_waited_for_is_a_failure() -> None:
    report, _ = apply({"a": ((0, RUNS), (14, FAILED)), "b": ((0, NONE), (15, RUNS))})
    assert health(report) == {"a": Health.FAILED, "b": Health.RUNNING}
    assert report.connectors[0].health_detail == "task 0 failed: ValueError: it broke"
    assert report.exit_code is ExitCode.FAILED


def test_one_that_fails_after_seconds_was_never_healthy() -> None:
    report, world = apply({"a": ((0, RUNS), (9, FAILED))})
    assert health(report) == {"a": Health.FAILED}
    assert world.time.at < 10


def test_one_that_starts_again_meanwhile_must_stand_again() -> None:
    courses = {"a": ((0, RUNS), (12, NONE), (13, RUNS)), "b": ((0, NONE), (4, RUNS))}
    report, world = apply(courses)
    assert health(report) == {"a": Health.RUNNING, "b": Health.RUNNING}
    assert 23 <= world.time.at < 24


def test_many_take_no_longer_than_one() -> None:
    report, world = apply({f"c{number}": ((0, RUNS),) for number in range(30)})
    assert set(health(report).values()) == {Health.RUNNING}
    assert 10 <= world.time.at < 11


@pytest.mark.parametrize(("healthy_for", "code"), [(2.0, ExitCode.OK), (5.0, ExitCode.FAILED)])
def test_how_long_they_must_stand_can_be_said(healthy_for: float, code: ExitCode) -> None:
    limits = Limits(settle_s=0).healthy_for(healthy_for)
    report, world = apply({"a": ((0, RUNS), (4, FAILED))}, limits)
    assert report.exit_code is code
    assert world.time.at < 5


def test_one_that_never_runs_is_no_longer_waited_for_because_of_others() -> None:
    courses = {"a": ((0, NONE),), "b": ((0, RUNS),)}
    report, world = apply(courses, Limits(settle_s=0, health_s=30))
    assert health(report) == {"a": Health.TIMED_OUT, "b": Health.RUNNING}
    assert 30 <= world.time.at < 31


def test_one_that_runs_shortly_before_the_time_is_over_stands_beyond_it() -> None:
    report, world = apply({"a": ((0, NONE), (28, RUNS))}, Limits(settle_s=0, health_s=30))
    assert health(report) == {"a": Health.RUNNING}
    assert 38 <= world.time.at < 39


def test_flapping_is_not_healthy() -> None:
    course = tuple((second, RUNS if second % 8 else NONE) for second in range(90))
    report, world = apply({"a": course}, Limits(settle_s=0, health_s=30))
    assert health(report) == {"a": Health.TIMED_OUT}
    assert world.time.at < 41
