"""What an apply began and did not see healthy is judged by the next one, which changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from connect_reconciler.apply.context import Limits
from connect_reconciler.apply.report import ApplyReport, Event, Health, Performed, Waiting
from connect_reconciler.backend.ledger import read_ledger
from connect_reconciler.ledger.journal import Journal
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage import status_topic
from connect_runtime.storage.snapshots import State, Status, TaskId
from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import ExitCode, Location
from support.applying import Applying, desired_of, names
from support.fake_cluster import TOPICS, FakeCluster


class Killed(BaseException):
    """The process is gone."""


class Cluster(FakeCluster):
    """Its tasks are in the state that the test says."""

    def __init__(self, world: Applying) -> None:
        super().__init__(world.kafka, runs_tasks=True)
        self.state = State.FAILED
        self.states: dict[str, State] = {}

    def status(self, name: str) -> ConnectorStatus | None:
        found = super().status(name)
        if found is None or not found.tasks:
            return found
        state = self.states.get(name, self.state)
        trace = "ValueError: it broke" if state is State.FAILED else None
        runs = InstanceStatus(State.RUNNING, "w")
        return ConnectorStatus(name, runs, {0: InstanceStatus(state, "w", trace)}, "source")


def spec(name: str, **config: str) -> DesiredConnector:
    common = {"name": name, "connector.class": "FileStreamSource", "topic": "t"}
    return DesiredConnector(name, common | config, Location(f"{name}.yaml", 1, 1))


@pytest.fixture
def world() -> Applying:
    made = Applying(key=b"key", limits=Limits(settle_s=1))
    made.kafka.create_topics()
    return made


@pytest.fixture
def cluster(world: Applying) -> Cluster:
    return Cluster(world)


def health(report: ApplyReport) -> dict[str, Health]:
    return {each.name: each.health for each in report.connectors}


def journals(world: Applying) -> list[Journal]:
    return read_ledger(world.kafka.logs, TOPICS.ledger).of_project("orders")


def test_a_failed_apply_that_runs_again_fails_until_its_connector_is_healthy(
    world: Applying, cluster: Cluster
) -> None:
    desired = desired_of(spec("a"), spec("b"))
    cluster.states["b"] = State.RUNNING
    assert world.apply(desired, cluster=cluster).exit_code is ExitCode.FAILED
    for _ in range(2):
        assert world.plan(desired).actions == ()
        again = world.apply(desired, cluster=cluster)
        assert (again.exit_code, health(again)) == (ExitCode.FAILED, {"a": Health.FAILED})
        assert again.connectors[0].health_detail == "task 0 failed before: ValueError: it broke"
    cluster.state = State.RUNNING
    again = world.apply(desired, cluster=cluster)
    assert (again.exit_code, health(again)) == (ExitCode.OK, {"a": Health.RUNNING})
    assert len(journals(world)) == 1, "what changes nothing pushes no apply out of the ledger"
    cluster.state = State.FAILED
    again = world.apply(desired, cluster=cluster)
    assert (again.exit_code, health(again)) == (ExitCode.OK, {}), "it failed long after"


def killed_at(when: type[Event]) -> Callable[[Event], None]:
    def kill(event: Event) -> None:
        if isinstance(event, when):
            raise Killed

    return kill


@pytest.mark.parametrize("moment", [Performed, Waiting])
def test_so_does_the_one_after_an_apply_that_was_killed_before_its_health_check(
    world: Applying, cluster: Cluster, moment: type[Event]
) -> None:
    desired = desired_of(spec("a"))
    world.events = Raising(killed_at(moment))
    with pytest.raises(Killed):
        world.apply(desired, cluster=cluster)
    world.events = []
    for _ in range(2):
        again = world.apply(desired, cluster=cluster)
        assert (again.exit_code, health(again)) == (ExitCode.FAILED, {"a": Health.FAILED})
    cluster.state = State.RUNNING
    assert world.apply(desired, cluster=cluster).exit_code is ExitCode.OK
    assert world.apply(desired, cluster=cluster).connectors == ()


class Raising(list[Event]):
    """Events that end the process."""

    def __init__(self, seen: Callable[[Event], None]) -> None:
        super().__init__()
        self._seen = seen

    def append(self, event: Event) -> None:
        self._seen(event)


def test_other_changes_do_not_make_it_forgotten(world: Applying, cluster: Cluster) -> None:
    assert world.apply(desired_of(spec("a")), cluster=cluster).exit_code is ExitCode.FAILED
    cluster.states["b"] = State.RUNNING
    more = desired_of(spec("a"), spec("b"))
    report = world.apply(more, cluster=cluster)
    assert report.exit_code is ExitCode.FAILED
    assert health(report) == {"b": Health.RUNNING, "a": Health.FAILED}
    assert world.apply(more, cluster=cluster).exit_code is ExitCode.FAILED


def test_a_change_of_the_ledger_alone_does_not_prove_it(world: Applying, cluster: Cluster) -> None:
    assert world.apply(desired_of(spec("a")), cluster=cluster).exit_code is ExitCode.FAILED
    guarded = desired_of(replace(spec("a"), prevent_delete=True))
    assert names(world.plan(guarded)) == ["Protect a"]
    for _ in range(2):
        report = world.apply(guarded, cluster=cluster)
        assert (report.exit_code, health(report)) == (ExitCode.FAILED, {"a": Health.FAILED})


def test_one_that_is_deleted_is_not_waited_for(world: Applying, cluster: Cluster) -> None:
    assert world.apply(desired_of(spec("a")), cluster=cluster).exit_code is ExitCode.FAILED
    nothing = desired_of()
    assert world.apply(nothing, cluster=cluster).exit_code is ExitCode.OK
    assert world.observe(nothing).ledger.unproven == frozenset()
    report = world.apply(nothing, cluster=cluster)
    assert (report.exit_code, report.connectors) == (ExitCode.OK, ())


def test_ctrl_c_while_it_is_waited_for_leaves_it_to_the_next(
    world: Applying, cluster: Cluster
) -> None:
    desired = desired_of(spec("a"))
    cluster.state = State.UNASSIGNED
    stopping = lambda: world.time.at > 3  # noqa: E731
    assert world.apply(desired, cluster=cluster, stop=stopping).exit_code is ExitCode.INTERRUPTED
    cluster.state = State.FAILED
    assert world.apply(desired, cluster=cluster).exit_code is ExitCode.FAILED


def test_a_plan_names_the_reason_of_what_failed(world: Applying, cluster: Cluster) -> None:
    desired = desired_of(spec("a"))
    cluster.state = State.RUNNING
    world.apply(desired, cluster=cluster)
    failed = Status(State.FAILED, "w", 1, trace="ValueError: it broke")
    world.kafka.logs.writer("task").write(
        [
            status_topic.connector_record(TOPICS.status, "a", Status(State.RUNNING, "w", 1)),
            status_topic.task_record(TOPICS.status, TaskId("a", 0), failed),
        ]
    )
    plan = world.plan(desired)
    assert plan.actions == ()
    (found,) = [each for each in plan.warnings if each.code == "plan.failed"]
    assert found.why.startswith("a: ") and "ValueError: it broke" in found.why
    assert found not in plan.unchanged


def test_a_plan_names_the_error_of_what_runs_without_making_tasks(
    world: Applying, cluster: Cluster
) -> None:
    """The trap: RUNNING with 0 of 0 tasks, and no reason anywhere but in a log."""
    desired = desired_of(spec("a"))
    cluster.state = State.RUNNING
    world.apply(desired, cluster=cluster)
    away = Status(State.RUNNING, "w", 1, trace="Traceback (most recent call last):\nX: it is away")
    writer = world.kafka.logs.writer("task")
    writer.write([status_topic.connector_record(TOPICS.status, "a", away)])
    plan = world.plan(desired)
    assert plan.actions == ()
    (found,) = [each for each in plan.warnings if each.code == "plan.running-with-error"]
    assert (found.what, found.why) == ("running with an error: a", "a: X: it is away")
    assert found not in plan.unchanged
