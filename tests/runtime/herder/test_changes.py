"""What may need a decision after each kind of change; nothing that may is left out."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from connect_runtime.herder.runs import (
    ConnectorFailure,
    Fencing,
    Instance,
    InstancePhase,
    Run,
    RunPhase,
)
from connect_runtime.herder.view import View, changed
from connect_runtime.storage.snapshots import (
    Assignment,
    AssignmentSnapshot,
    ConfigSnapshot,
    ConnectorState,
    State,
    Status,
    StatusSnapshot,
    TaskId,
)
from connect_specs.desired import TargetState

TASK, OTHER = TaskId("a", 0), TaskId("b", 0)
RUN = Run(TASK, 1, 0, TargetState.RUNNING)
STATUS = Status(State.RUNNING, "w", 1)
ASSIGNED = Assignment(1, "w", TargetState.RUNNING, 0)
INSTANCE = Instance(1, InstancePhase.STARTED, {})

VIEW = View(
    config=ConfigSnapshot(connectors={name: ConnectorState(name, {}) for name in "ab"}),
    status=StatusSnapshot(
        connectors={"a": STATUS, "b": STATUS},
        tasks={TASK: STATUS, OTHER: STATUS},
        outdated=frozenset({OTHER}),
    ),
    assignments=AssignmentSnapshot(tasks={TASK: ASSIGNED, OTHER: ASSIGNED}),
    instances={"a": INSTANCE, "b": INSTANCE},
    runs={TASK: RUN, OTHER: replace(RUN, id=OTHER)},
    fencings={"b": Fencing(1, 0, {})},
    failures={"b": ConnectorFailure("", None)},
    published={"a": "1", "b": "1"},
    waits={"b": 1.0},
    dead={OTHER: 1},
    slots=3,
    worker_id="w",
    term=1,
)
A, NONE_OF_THEM, ALL = frozenset("a"), frozenset[str](), None


def _without(mapping: Any) -> Any:
    return {key: value for key, value in mapping.items() if key not in ("a", TASK)}


def _status(**changes: Any) -> Any:
    return {"status": replace(VIEW.status, **changes)}


CHANGES: dict[str, tuple[Any, frozenset[str] | None]] = {
    "config": (
        {
            "config": ConfigSnapshot(
                {**VIEW.config.connectors, "a": ConnectorState("a", {"k": "v"})}
            )
        },
        A,
    ),
    "config-gone": ({"config": ConfigSnapshot(_without(VIEW.config.connectors))}, A),
    "status": (_status(connectors={**VIEW.status.connectors, "a": replace(STATUS, trace="")}), A),
    "status-gone": (_status(connectors=_without(VIEW.status.connectors)), A),
    "status-of-task": (_status(tasks={**VIEW.status.tasks, TASK: replace(STATUS, trace="")}), A),
    "status-of-task-gone": (_status(tasks=_without(VIEW.status.tasks)), A),
    "status-outdated": (_status(outdated=frozenset({TASK, OTHER})), A),
    "status-topics": (_status(topics={"a": frozenset({"t"})}), NONE_OF_THEM),
    "assignments": ({"assignments": AssignmentSnapshot(_without(VIEW.assignments.tasks))}, A),
    "instances": ({"instances": {**VIEW.instances, "a": replace(INSTANCE, serial=2)}}, A),
    "instances-replaced-by-another": (
        {"instances": {**_without(VIEW.instances), "c": INSTANCE}},
        frozenset("ac"),
    ),
    "runs": ({"runs": {**VIEW.runs, TASK: replace(RUN, attempt=2)}}, A),
    "runs-begun": ({"runs": {**VIEW.runs, TaskId("a", 1): replace(RUN, id=TaskId("a", 1))}}, A),
    "runs-gone": ({"runs": _without(VIEW.runs)}, ALL),
    "runs-with-a-slot-more": (
        {"runs": {**VIEW.runs, TASK: replace(RUN, phase=RunPhase.ENDED)}},
        ALL,
    ),
    "fencings": ({"fencings": {**VIEW.fencings, "a": Fencing(2, 0, {})}}, A),
    "failures": ({"failures": {**VIEW.failures, "a": ConnectorFailure("", None)}}, A),
    "published": ({"published": {**VIEW.published, "a": "2"}}, A),
    "waits": ({"waits": {**VIEW.waits, "a": 1.0}}, A),
    "led_at": ({"led_at": 1.0}, ALL),
    "led_time": ({"led_time": 1.0}, ALL),
    "dead": ({"dead": {**VIEW.dead, TASK: 1}}, A),
    "kinds": ({"kinds": {"class": "source"}}, ALL),
    "versions": ({"versions": {"class": "1"}}, ALL),
    "exactly_once": ({"exactly_once": False}, ALL),
    "paused_release": ({"paused_release": True}, ALL),
    "slots": ({"slots": 2}, ALL),
    "occupied": ({"occupied": 3}, NONE_OF_THEM),
    "obstacle": ({"obstacle": "why"}, ALL),
    "worker_id": ({"worker_id": "v"}, ALL),
    "term": ({"term": 2}, ALL),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_concerns(name: str) -> None:
    change, concerned = CHANGES[name]
    assert changed(replace(VIEW, **change), VIEW) == concerned


def test_a_free_slot_concerns_all() -> None:
    assert changed(VIEW, replace(VIEW, occupied=3)) is None


def test_each_part_of_a_view_is_judged() -> None:
    assert {each.name for each in fields(View)} == {each.split("-")[0] for each in CHANGES}
