"""The leader's decisions: a view in, the next effects out. The cases are in decisions.yaml."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_runtime.herder.decide import decide, next_look
from connect_runtime.herder.effects import Effect, Fail, Launch, Wait
from connect_runtime.herder.runs import (
    ConnectorFailure,
    Fencing,
    Instance,
    InstancePhase,
    Run,
    RunPhase,
)
from connect_runtime.herder.view import View
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
from connect_runtime.tasks.launch import AttemptEnd, Outcome
from connect_specs.desired import TargetState

CASES = yaml.safe_load(Path(__file__).with_name("decisions.yaml").read_text())
NOW = 100.0
SOURCE_CLASS, SINK_CLASS = "FileStreamSource", "FileStreamSink"
CONFIGS = {
    "source": {"name": "c", "connector.class": SOURCE_CLASS},
    "sink": {"name": "c", "connector.class": SINK_CLASS, "topics": "t"},
    "source with topics": {"name": "c", "connector.class": SOURCE_CLASS, "topics": "t"},
}
TASK = {"task.class": "x"}
STOPPED = {"target": "stopped", "task_configs": [], "task_count": 0}
NEVER_STARTED = {
    "task_configs": [],
    "task_count": 0,
    "generation": -1,
    "applied_config": None,
    "task_count_record": None,
}


def config(text: Any) -> Any:
    return CONFIGS[text] if isinstance(text, str) else text


def connector(row: Any = None) -> ConnectorState | None:
    if row == "deleted":
        return None
    changes = STOPPED if row == "stopped" else {"new": True} if row == "new" else dict(row or {})
    if changes.pop("new", False):
        changes = NEVER_STARTED | changes
    state: dict[str, Any] = {
        "config": "source",
        "applied_config": "source",
        "task_configs": [TASK],
        "task_count": 1,
        "generation": 3,
        "task_count_record": 1,
        "target": "running",
        **changes,
    }
    for key in ("config", "applied_config"):
        state[key] = config(state[key])
    for key in ("task_configs", "null_keys"):
        state[key] = tuple(state.get(key, ()))
    return ConnectorState(name="c", **{**state, "target": TargetState(state["target"])})


def instance(row: Any) -> Instance:
    changes = {} if row == "started" else dict(row)
    phase = InstancePhase[changes.pop("phase", "STARTED")]
    started = Instance(1, phase, config(changes.pop("config", "source")), "source", "1", (TASK,))
    return replace(started, **changes)


def run(row: Mapping[str, Any]) -> Run:
    """A run of attempt 7; one that has `ended` did so with a trace."""
    changes = dict(row)
    task = TaskId("c", changes.pop("task", 0))
    phase = RunPhase[changes.pop("phase", "LAUNCHED")]
    state = TargetState(changes.pop("state", "running"))
    if "ended" in changes:
        phase = RunPhase.ENDED
        end, dead = AttemptEnd[changes.pop("ended")], changes.pop("dead", True)
        changes["outcome"] = Outcome(task, 7, end, "why", dead=dead)
    return Run(task, attempt=7, state=state, phase=phase, **{"generation": 3, **changes})


def status(row: Any) -> Status:
    """A status of this leader's term, of version 1."""
    row = {"state": row} if isinstance(row, str) else row
    return Status(
        State(row["state"]),
        "w",
        5,
        row.get("trace"),
        row.get("version", "1"),
        attempt=row.get("attempt"),
    )


def view(row: Mapping[str, Any]) -> View:
    """Returns the view of a case. Without `versions`, no class has a version, as was found out."""
    row = {key: value for key, value in row.items() if key not in ("case", "effects")}
    state = connector(row.pop("connector", None))
    tasks = {TaskId("c", number): status(text) for number, text in row.pop("tasks", {}).items()}
    outdated = frozenset({TaskId("c", 0)} if row.pop("outdated", False) else ())
    more: dict[str, Any] = {}
    if "instance" in row:
        more["instances"] = {"c": instance(row.pop("instance"))}
    if "fencing" in row:
        more["fencings"] = {"c": Fencing(1, config={}, **row.pop("fencing"))}
    if "failure" in row:
        failure = dict(row.pop("failure"))
        failed = connector(failure.pop("connector", None))
        more["failures"] = {"c": ConnectorFailure("boom", failed, **failure)}
    reported = {"c": status(row.pop("status"))} if "status" in row else {}
    assigned = {
        TaskId("c", number): Assignment(7, "http://w", TargetState.RUNNING, 3)
        for number in row.pop("assigned", ())
    }
    return View(
        config=ConfigSnapshot(connectors={} if state is None else {"c": state}),
        status=StatusSnapshot(connectors=reported, tasks=tasks, outdated=outdated),
        assignments=AssignmentSnapshot(tasks=assigned),
        runs={each.id: each for each in map(run, row.pop("runs", ()))},
        worker_id="w",
        term=5,
        **{"slots": 8, "versions": dict.fromkeys((SOURCE_CLASS, SINK_CLASS))} | more | row,
    )


def shown(effects: Iterable[Effect]) -> list[Any]:
    """Returns effects as decisions.yaml has them, without waits."""
    return [_shown(effect) for effect in effects if not isinstance(effect, Wait)]


def _shown(effect: Effect) -> Any:
    values = {
        field.name: _value(getattr(effect, field.name))
        for field in fields(effect)
        if field.default is MISSING or getattr(effect, field.name) != field.default
    }
    assert values.pop("name", "c") == "c"
    return {type(effect).__name__: values} if values else type(effect).__name__


def _value(value: Any) -> Any:
    match value:
        case TaskId(connector="c", task=number):
            return number
        case Enum():
            return value.value
        case Status(worker_id="w", generation=5):
            row = {"state": value.state.value}
            row |= {} if value.trace is None else {"trace": value.trace}
            row |= {} if value.version == "1" else {"version": value.version}
            row |= {} if value.attempt is None else {"attempt": value.attempt}
            return row if len(row) > 1 else row["state"]
        case tuple():
            return list(value)
        case None | int() | float() | str():
            return value
    raise AssertionError(value)


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_next_effects(case: Mapping[str, Any]) -> None:
    assert shown(decide(view(case), NOW)) == case["effects"]


def test_a_connector_that_cannot_be_decided_fails_alone() -> None:
    given = view({"instance": "started", "status": "RUNNING"})
    good = given.config.connectors["c"]
    broken = replace(good, name="b", task_configs=None)
    given = replace(given, config=ConfigSnapshot(connectors={"b": broken, "c": good}))
    first, *others = decide(given, NOW)
    assert isinstance(first, Fail) and first.name == "b"
    assert others == [Launch(TaskId("c", 0), 3, TargetState.RUNNING)]


@pytest.mark.parametrize(
    ("row", "at"),
    [
        ({"runs": [{}]}, math.inf),
        ({"runs": [{"ended": "LOST", "deadline": NOW + 3}]}, NOW + 3),
        ({"runs": [{"ended": "LOST", "deadline": NOW + 3}], "led_at": NOW - 8}, NOW + 2),
        ({"runs": [{"ended": "LOST", "deadline": NOW + 3}], "waits": {"c": NOW - 9}}, NOW + 1),
        ({"runs": [{"ended": "LOST", "deadline": NOW + 3, "ended_at": NOW - 8}]}, NOW + 2),
        ({"connector": "new", "instance": {"phase": "STOPPING", "deadline": NOW + 2}}, NOW + 2),
        ({"failure": {"retry_at": NOW + 1}}, NOW + 1),
    ],
)
def test_a_view_is_looked_at_again_when_time_alone_may_change_it(
    row: Mapping[str, Any], at: float
) -> None:
    assert next_look(view({"instance": "started", **row}), NOW) == at


def test_slots_are_shared_by_all_connectors() -> None:
    sink = {**CONFIGS["sink"]}
    state = connector({"config": sink, "applied_config": sink})
    assert state is not None
    names = ("a", "b", "c")
    given = View(
        config=ConfigSnapshot(connectors={name: replace(state, name=name) for name in names}),
        status=StatusSnapshot(connectors=dict.fromkeys(names, status("RUNNING"))),
        instances=dict.fromkeys(names, instance({"config": sink, "kind": "sink"})),
        slots=2,
        worker_id="w",
        term=5,
    )
    launched = [e.task.connector for e in decide(given, NOW) if isinstance(e, Launch)]
    assert launched == ["a", "b"]
