"""Ctrl-C at each event of an apply, once or twice: exit code, journal, and that the next apply
completes what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from connect_reconciler.apply.report import Event, Finished, Outcome, Started
from connect_reconciler.ledger.journal import Ending
from connect_specs.desired import Pin
from connect_specs.diagnostics import ExitCode
from support.applying import Applying, desired_of, names
from support.fake_cluster import FakeCluster
from support.rollbacks import (
    PAUSED,
    RUNNING,
    SINK,
    SOURCE,
    STOPPED,
    apply,
    at,
    ledger,
    new_world,
    picture,
    spec,
)

FIRST = desired_of(
    spec("changed", SINK, RUNNING),
    spec("deleted", SOURCE, RUNNING),
    spec("ended", SOURCE, RUNNING),
    spec("old", SINK, RUNNING),
)
WANTED = desired_of(
    spec("changed", {**SINK, "file": "x"}, PAUSED, Pin("p", (at(3),))),
    spec("created", SINK, RUNNING, Pin("c", (at(4),))),
    spec("ended", SOURCE, STOPPED),
    spec("new", SINK, RUNNING, old="old"),
)


class At(list[Event]):
    """Does something at the event of this number."""

    def __init__(self, number: int, do: Callable[[], None]) -> None:
        super().__init__()
        self._number, self._do = number, do

    def append(self, event: Event) -> None:
        super().append(event)
        if len(self) == self._number:
            self._do()


def world_before() -> Applying:
    world = new_world()
    apply(world, FIRST)
    for name in ("changed", "old"):
        world.kafka.groups[f"connect-{name}"] = {("t", 0): 70}
    return world


def wanted() -> object:
    world = world_before()
    apply(world, WANTED)
    return picture(world, WANTED)


def interrupted() -> Iterator[int]:
    """The numbers of the events."""
    world = world_before()
    world.events.clear()
    world.apply(WANTED, cluster=FakeCluster(world.kafka, runs_tasks=True))
    return iter(range(1, len(world.events) + 1))


def test_the_first_ctrl_c_ends_the_apply_after_the_actions_that_run() -> None:
    after, codes = wanted(), set()
    for number in interrupted():
        world, asked = world_before(), []
        world.events = At(number, lambda: asked.append(True))  # noqa: B023
        report = world.apply(
            WANTED,
            cluster=FakeCluster(world.kafka, runs_tasks=True),
            stop=lambda: bool(asked),  # noqa: B023
        )
        journal = ledger(world).of_project("orders")[-1]
        begun = [each.number for each in world.events if isinstance(each, Started)]
        done = [
            each.number
            for each in world.events
            if isinstance(each, Finished) and each.result.outcome is Outcome.DONE
        ]
        codes.add(report.exit_code)
        assert set(begun) <= set(done), "what was begun is finished"
        complete = all(r.outcome is Outcome.DONE for c in report.connectors for r in c.results)
        if report.exit_code is ExitCode.INTERRUPTED:
            assert (journal.ending, journal.exit_code) == (Ending.INTERRUPTED, 130), number
        else:
            assert (report.exit_code, journal.ending, complete) == (0, Ending.DONE, True), number
        rerun(world, after, number)
    assert codes == {ExitCode.INTERRUPTED, ExitCode.OK}


def rerun(world: Applying, after: object, number: int) -> None:
    world.events = []
    world.lease.gone = False
    again = world.apply(WANTED, cluster=FakeCluster(world.kafka))
    assert again.exit_code is ExitCode.OK, number
    assert picture(world, WANTED) == after, number
    assert names(world.plan(WANTED)) == [], number
    assert all(each.ending is not None for each in ledger(world).of_project("orders")), number


def test_the_second_ctrl_c_ends_it_at_once_and_the_next_apply_completes_it() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    after = wanted()
    for number in interrupted():
        world = world_before()
        world.events = At(number, interrupt)
        try:
            report = world.apply(WANTED, cluster=FakeCluster(world.kafka, runs_tasks=True))
        except KeyboardInterrupt:
            pytest.fail(f"event {number} ended the apply without a report")
        assert report.exit_code is ExitCode.INTERRUPTED, number
        rerun(world, after, number)
