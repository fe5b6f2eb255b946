"""A delete is awaited: what comes next may want what the tasks still hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from connect_reconciler.apply.report import (
    Outcome,
    Waiting,
)
from connect_reconciler.workflow.apply import to_be_rolled_back
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.desired import DesiredConnector, TargetState
from connect_specs.diagnostics import Location
from support.applying import Applying, desired_of
from support.crash_cases import SINK, Case, build, check_end
from support.dooming import Doom
from support.fake_cluster import FakeCluster, refused

CONFIG = {**SINK, "file": "x", "name": "a"}
OWNED = Case("a", (CONFIG, TargetState.RUNNING, True), None)


class Recorded(FakeCluster):
    """Says what it was asked, and ends slowly: of what was asked last the next two answers tell
    nothing yet."""

    def __init__(self, world: Applying) -> None:
        super().__init__(world.kafka, runs_tasks=True)
        self.asked: list[str] = []
        self.late: list[ConnectorStatus | None] = []

    def status(self, name: str) -> ConnectorStatus | None:
        told = self.late.pop(0) if self.late else super().status(name)
        tasks = "" if told is None else f" {len(told.tasks)}"
        self.asked.append(f"status: {told and told.connector.state.value}{tasks}")
        return told

    def set_target(self, name: str, target: TargetState) -> None:
        self._follows_late(name, target, lambda: FakeCluster.set_target(self, name, target))

    def delete(self, name: str) -> None:
        self._follows_late(name, "delete", lambda: FakeCluster.delete(self, name))

    def _follows_late(self, name: str, what: str, change: Callable[[], None]) -> None:
        self.late = [super().status(name)] * 2
        change()
        self.asked.append(what)


def test_a_delete_stops_and_waits_on_both_sides() -> None:
    """The trap: the next create finds the replication slot in use."""
    world, desired = build([OWNED])
    cluster = Recorded(world)
    assert world.apply(desired, cluster=cluster).exit_code == 0
    running, stopped = ["status: RUNNING 1"] * 2, ["status: STOPPED 0"]
    assert cluster.asked == [
        *("stopped", *running, *stopped),
        *("delete", *stopped * 2, "status: None"),
    ]
    waits = [event.what for event in world.events if isinstance(event, Waiting)]
    assert waits == ["its tasks end", "it is gone"]
    check_end(world, desired, [OWNED])


def test_tasks_that_do_not_end_keep_the_connector_from_being_deleted() -> None:
    world, desired = build([OWNED])
    cluster = FakeCluster(world.kafka, runs_tasks=True)
    part = InstanceStatus(State.RUNNING, "w")
    cluster.statuses["a"] = [ConnectorStatus("a", part, {0: part}, "sink")]
    report = world.apply(desired, cluster=cluster)
    (result,) = report.connectors[0].results
    assert result.outcome is Outcome.FAILED
    assert result.detail == "it was asked to stop and has not ended: task 0 is RUNNING"
    assert report.connectors[0].left == "stopped"
    assert cluster.config("a") is not None


def test_a_status_that_nobody_corrects_is_asked_for_again() -> None:
    """What a worker does that gave up on a slow task: only another rebalance removes its status."""
    world, desired = build([OWNED])

    class GivesUp(FakeCluster):
        stops = 0

        def set_target(self, name: str, target: TargetState) -> None:
            super().set_target(name, target)
            self.stops += 1

        def status(self, name: str) -> ConnectorStatus | None:
            part = InstanceStatus(State.RUNNING, "w")
            stopped = InstanceStatus(State.STOPPED, "w")
            if self.stops == 1:
                return ConnectorStatus(name, stopped, {0: part}, "sink")
            return super().status(name)

    cluster = GivesUp(world.kafka, runs_tasks=True)
    assert world.apply(desired, cluster=cluster).exit_code == 0
    assert cluster.stops == 2
    assert 15 <= world.time.at < 20
    check_end(world, desired, [OWNED])


def test_who_stops_an_apply_that_fails_is_not_overruled_by_a_rollback() -> None:
    """Ctrl-C while the last action waits in vain: nothing is left to skip, and it is a failure."""
    world, desired = build([OWNED, Case("b", OWNED.live, None)])
    cluster = FakeCluster(world.kafka, runs_tasks=True)
    part = InstanceStatus(State.RUNNING, "w")
    cluster.statuses["b"] = [ConnectorStatus("b", part, {0: part}, "sink")]
    report = world.apply(desired, cluster=cluster, stop=lambda: world.time.at > 1)
    assert [each.results[0].outcome for each in report.connectors] == [Outcome.DONE, Outcome.FAILED]
    assert not to_be_rolled_back(report)
    assert to_be_rolled_back(replace(report, told_to_stop=False))


@pytest.mark.parametrize("status", [404, 405])
def test_a_connect_that_knows_no_stop_deletes_at_once(status: int) -> None:
    """Before 3.5: there a delete is what ends the tasks."""
    world, desired = build([OWNED])
    cluster = FakeCluster(world.kafka, runs_tasks=True)

    def unknown(name: str, target: TargetState) -> None:
        raise refused("HTTP 404 Not Found", status)

    cluster.set_target = unknown  # type: ignore[method-assign]
    assert world.apply(desired, cluster=cluster).exit_code == 0
    check_end(world, desired, [OWNED])


def test_one_that_never_came_up_is_deleted() -> None:
    """Its class is missing: it says FAILED whatever it was asked."""
    world, desired = build([OWNED])
    cluster = FakeCluster(world.kafka, runs_tasks=True)
    failed = ConnectorStatus("a", InstanceStatus(State.FAILED, "w", "no such class"), {}, "unknown")
    cluster.statuses["a"] = [failed, None]
    assert world.apply(desired, cluster=cluster).exit_code == 0
    check_end(world, desired, [OWNED])


def kills(case: Case) -> Iterator[tuple[int, bool]]:
    """Every call to cluster and ledger, before and after it took effect."""
    world, desired = build([case])
    doom = Doom(0, before=True)
    assert not world.killed(desired, doom, runs_tasks=True)
    for at in range(1, doom.calls + 1):
        yield from ((at, True), (at, False))


def test_a_delete_that_was_killed_comes_to_its_end_or_is_taken_back() -> None:
    """Kills between stop and delete too: a spec that is back has its connector run again."""
    back = DesiredConnector("a", CONFIG, Location("a.yaml", 1, 1))
    for at, before in kills(OWNED):
        for specs in ((), (back,)):
            world, desired = build([OWNED])
            assert world.killed(desired, Doom(at, before), runs_tasks=True)
            again = desired_of(*specs)
            report = world.apply(again, cluster=FakeCluster(world.kafka, runs_tasks=True))
            assert report.exit_code == 0, (at, before, report)
            check_end(world, again, [Case("a", OWNED.live, specs[0] if specs else None)])


def test_a_rename_that_was_killed_comes_to_its_end() -> None:
    """The old one is stopped, its tasks are gone, and so is it in the end."""
    spec = DesiredConnector(
        "a", CONFIG, Location("a.yaml", 1, 1), TargetState.RUNNING, renamed_from="a-old"
    )
    renamed = Case("a", OWNED.live, spec)
    for at, before in kills(renamed):
        world, desired = build([renamed])
        assert world.killed(desired, Doom(at, before), runs_tasks=True)
        report = world.apply(desired, cluster=FakeCluster(world.kafka, runs_tasks=True))
        assert report.exit_code == 0, (at, before, report)
        check_end(world, desired, [renamed])
