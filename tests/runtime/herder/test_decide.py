"""Tables for the herder's decision: a view in, the next effects out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from connect_runtime.herder.decide import decide, next_look
from connect_runtime.herder.effects import (
    ConnectorStatusIs,
    Fail,
    FailInstance,
    Fence,
    ForgetFailure,
    ForgetInstance,
    ForgetRun,
    Identify,
    KillRun,
    Launch,
    PublishTasks,
    Reassign,
    RecordFencing,
    StartInstance,
    StopInstance,
    StopRun,
    TaskStatusIs,
    Unassign,
    Wait,
)
from connect_runtime.herder.runs import (
    Failure,
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
from connect_specs.states import TargetState

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
NOW = 100.0
T0, T1 = TaskId("c", 0), TaskId("c", 1)
CONFIG = {"name": "c", "connector.class": "FileStreamSource"}
SINK = {"name": "c", "connector.class": "FileStreamSink", "topics": "t"}
ODD = {**CONFIG, "topics": "t"}
CLASSES = ("FileStreamSource", "FileStreamSink")
TASK = {"task.class": "x"}


def connector(**changes: Any) -> ConnectorState:
    published = ConnectorState(
        name="c",
        config=CONFIG,
        task_configs=(TASK,),
        task_count=1,
        generation=3,
        applied_config=CONFIG,
        task_count_record=1,
    )
    return replace(published, **changes)


NEW = connector(
    task_configs=(), task_count=0, generation=-1, applied_config=None, task_count_record=None
)


def started(**changes: Any) -> Instance:
    return replace(Instance(1, InstancePhase.STARTED, CONFIG, "source", "1", (TASK,)), **changes)


def run(task: TaskId = T0, **changes: Any) -> Run:
    return replace(Run(task, attempt=7, generation=3, state=RUNNING), **changes)


def ended(how: AttemptEnd, **changes: Any) -> Run:
    return run(phase=RunPhase.ENDED, outcome=Outcome(T0, 7, how, "why"), **changes)


def status(state: State, trace: str | None = None, version: str | None = "1") -> Status:
    return Status(state, "w", 5, trace, version)


def view(
    state: ConnectorState | None,
    instance: Instance | None = None,
    runs: tuple[Run, ...] = (),
    *,
    connector_status: Status | None = None,
    tasks: dict[TaskId, Status] | None = None,
    assigned: tuple[TaskId, ...] = (),
    slots: int | None = 8,
    versions: dict[str, str | None] | None = None,
) -> View:
    """`versions` None: that of each class was asked for, and is not known."""
    known = {} if connector_status is None else {"c": connector_status}
    return View(
        config=ConfigSnapshot(connectors={} if state is None else {"c": state}),
        status=StatusSnapshot(connectors=known, tasks=tasks or {}),
        assignments=AssignmentSnapshot(
            tasks={task: Assignment(7, "http://w", RUNNING, 3) for task in assigned}
        ),
        instances={} if instance is None else {"c": instance},
        runs={r.id: r for r in runs},
        versions=dict.fromkeys(CLASSES) if versions is None else versions,
        slots=slots,
        worker_id="w",
        term=5,
    )


def with_outdated(given: View) -> View:
    return replace(given, status=replace(given.status, outdated=frozenset({T0})))


def released(given: View) -> View:
    return replace(given, paused_release=True)


def failed(state: ConnectorState | None, **changes: Any) -> dict[str, Failure]:
    return {"c": replace(Failure("boom", state), **changes)}


CONNECTOR_FAILED = (
    "The task is not launched, because the connector has failed. The connector's trace says why."
)
FULL = (
    "The task waits for a slot: all 8 are taken. Each task takes one, also while it is paused. "
    "Give the runtime more (`connect up --slots`; on a Spark cluster, more cores), or stop "
    "connectors."
)
LATE = (
    "Attempt 7 of task c-0 may still write: it has not reported its end, and without exactly-once"
    " support nothing can fence it. The task starts once the attempt is known to have ended. If you"
    " know that its process is gone, restart the connector with its tasks: POST"
    " /connectors/c/restart?includeTasks=true"
)
UP = status(State.RUNNING)
HALTED = status(State.STOPPED, version=None)
RESTING = status(State.PAUSED, version=None)
PAUSED_C = connector(target=PAUSED)

CASES: dict[str, tuple[View, tuple[object, ...]]] = {
    "a new connector gets an instance": (view(NEW), (StartInstance("c"),)),
    "an answer is published once": (
        view(NEW, started(), connector_status=UP),
        (PublishTasks("c", (TASK,)),),
    ),
    "an instance that starts is waited for": (
        view(NEW, started(phase=InstancePhase.STARTING)),
        (),
    ),
    "the first tasks of a source need only the record, in the transaction of their launch": (
        view(
            connector(task_count_record=None, pending_fencing=True),
            started(),
            connector_status=UP,
        ),
        (RecordFencing("c", 1), Launch(T0, 3, RUNNING)),
    ),
    "one task after one task fences by itself": (
        view(connector(pending_fencing=True), started(), connector_status=UP),
        (RecordFencing("c", 1), Launch(T0, 3, RUNNING)),
    ),
    "more predecessors are fenced": (
        view(
            connector(pending_fencing=True, task_count_record=2),
            started(),
            connector_status=UP,
        ),
        (Fence("c", 2, 3),),
    ),
    "earlier leaders' attempts lose their assignments before they are fenced": (
        view(
            connector(pending_fencing=True, task_count_record=2),
            started(),
            connector_status=UP,
            assigned=(T0,),
        ),
        (Unassign(T0), Fence("c", 2, 3)),
    ),
    "after a stop the record says zero": (
        view(
            connector(pending_fencing=True, task_count_record=0),
            started(),
            connector_status=UP,
        ),
        (RecordFencing("c", 1), Launch(T0, 3, RUNNING)),
    ),
    "fencing waits for attempts of the old generation": (
        view(
            connector(pending_fencing=True, task_count_record=2),
            started(),
            (run(T1, phase=RunPhase.STOPPING, deadline=NOW + 1),),
            connector_status=UP,
        ),
        (),
    ),
    "sinks are not fenced": (
        view(
            connector(config=SINK, applied_config=SINK, pending_fencing=True),
            started(config=SINK, kind="sink"),
            connector_status=UP,
        ),
        (Launch(T0, 3, RUNNING),),
    ),
    "a source whose config has the key of sinks is fenced": (
        view(
            connector(config=ODD, applied_config=ODD, pending_fencing=True, task_count_record=2),
            started(config=ODD),
            connector_status=UP,
        ),
        (Fence("c", 2, 3),),
    ),
    "without an instance the class says whether to fence": (
        view(connector(target=PAUSED, pending_fencing=True), connector_status=RESTING),
        (Identify("c", "FileStreamSource"),),
    ),
    "a class that is being looked up is waited for": (
        replace(
            view(connector(target=PAUSED, pending_fencing=True), connector_status=RESTING),
            kinds={"FileStreamSource": None},
        ),
        (),
    ),
    "the class is known: a sink": (
        replace(
            view(connector(target=PAUSED, pending_fencing=True), connector_status=RESTING),
            kinds={"FileStreamSource": "sink"},
        ),
        (Launch(T0, 3, PAUSED),),
    ),
    "a class that cannot be loaded is fenced like a source": (
        replace(
            view(
                connector(target=PAUSED, pending_fencing=True, task_count_record=2),
                connector_status=RESTING,
            ),
            kinds={"FileStreamSource": "unknown"},
        ),
        (Fence("c", 2, 3),),
    ),
    "a round of fencing is waited for": (
        replace(
            view(
                connector(pending_fencing=True, task_count_record=2),
                started(),
                connector_status=UP,
            ),
            fencings={"c": Fencing(1, 3, {})},
        ),
        (),
    ),
    "what was fenced is recorded": (
        replace(
            view(
                connector(pending_fencing=True, task_count_record=2),
                started(),
                connector_status=UP,
            ),
            fencings={"c": Fencing(1, 3, {}, done=True)},
        ),
        (RecordFencing("c", 1), Launch(T0, 3, RUNNING)),
    ),
    "a round for older task configs does not count": (
        replace(
            view(
                connector(pending_fencing=True, task_count_record=2),
                started(),
                connector_status=UP,
            ),
            fencings={"c": Fencing(1, 2, {}, done=True)},
        ),
        (Fence("c", 2, 3),),
    ),
    "an instance that takes too long to start has failed": (
        view(NEW, started(phase=InstancePhase.STARTING, deadline=NOW)),
        (FailInstance("c", "The connector did not start in time"),),
    ),
    "an instance that takes too long to stop is left behind": (
        view(NEW, started(phase=InstancePhase.STOPPING, deadline=NOW)),
        (ForgetInstance("c"),),
    ),
    "also where the connector is to be stopped": (
        view(
            connector(target=STOPPED, task_configs=(), task_count=0),
            started(phase=InstancePhase.STOPPING, deadline=NOW),
            connector_status=HALTED,
        ),
        (ForgetInstance("c"),),
    ),
    "one that still starts with an older config is replaced": (
        view(NEW, started(phase=InstancePhase.STARTING, config={"old": "1"})),
        (StopInstance("c"),),
    ),
    "an answer that is not read back as it was written": (
        view(
            connector(task_configs=({"other": "1"},)),
            started(published=3),
            (run(),),
            connector_status=UP,
        ),
        (
            Fail(
                "c",
                "The task configs that the connector returned differ when they are read back "
                "written",
            ),
        ),
    ),
    "an answer is published again after somebody else's task configs": (
        view(
            connector(task_configs=({"other": "1"},)),
            started(published=2),
            (run(),),
            connector_status=UP,
        ),
        (PublishTasks("c", (TASK,)),),
    ),
    "a failure is said, and nothing new begins": (
        replace(view(connector(), started(), connector_status=UP), failures=failed(connector())),
        (
            TaskStatusIs(T0, Status(State.UNASSIGNED, "w", 5, CONNECTOR_FAILED)),
            ConnectorStatusIs("c", Status(State.FAILED, "w", 5, "boom", "1")),
        ),
    ),
    "a failure that cannot even be said": (
        replace(
            view(connector(), started(), connector_status=UP),
            failures=failed(connector(), not_reported=True),
        ),
        (),
    ),
    "a failure is over when something else is asked for": (
        replace(
            view(connector(), started(), connector_status=UP),
            failures=failed(connector(config={"other": "1"})),
        ),
        (ForgetFailure("c"), Launch(T0, 3, RUNNING)),
    ),
    "a failure that Kafka caused is tried again in time": (
        replace(
            view(connector(), started(), connector_status=UP),
            failures=failed(connector(), retry_at=NOW),
        ),
        (ForgetFailure("c"), Launch(T0, 3, RUNNING)),
    ),
    "a failed connector can be stopped": (
        replace(
            view(
                connector(target=STOPPED, task_configs=(), task_count=0),
                started(),
                (run(),),
                connector_status=UP,
            ),
            failures=failed(connector(target=STOPPED)),
        ),
        (
            StopRun(T0),
            StopInstance("c"),
            ConnectorStatusIs("c", Status(State.FAILED, "w", 5, "boom", "1")),
        ),
    ),
    "published tasks are launched": (
        view(connector(), started(), connector_status=UP),
        (Launch(T0, 3, RUNNING),),
    ),
    "after a failover tasks do not wait for the instance": (
        view(connector(), connector_status=UP),
        (StartInstance("c"), Launch(T0, 3, RUNNING)),
    ),
    "tasks of an older config wait for their successors": (
        view(connector(applied_config={"other": "1"}), connector_status=UP),
        (StartInstance("c"),),
    ),
    "a changed config replaces the instance": (
        view(connector(), started(config={"old": "1"}), (run(),), connector_status=UP),
        (StopInstance("c"),),
    ),
    "a new generation ends the old attempt first": (
        view(connector(generation=4), started(), (run(),), connector_status=UP),
        (StopRun(T0),),
    ),
    "an attempt that does not end is killed": (
        view(
            connector(generation=4),
            started(),
            (run(phase=RunPhase.STOPPING, deadline=NOW),),
            connector_status=UP,
        ),
        (KillRun(T0),),
    ),
    "fewer tasks than before": (
        view(
            connector(),
            started(),
            (run(), run(T1)),
            connector_status=UP,
            tasks={T1: status(State.RUNNING)},
            assigned=(T0, T1),
        ),
        (StopRun(T1),),
    ),
    "what a task that is gone left is removed": (
        view(
            connector(),
            started(),
            (run(),),
            connector_status=UP,
            tasks={T1: status(State.UNASSIGNED)},
            assigned=(T0, T1),
        ),
        (Unassign(T1), TaskStatusIs(T1, None)),
    ),
    "everything runs: nothing to do": (
        view(connector(), started(), (run(),), connector_status=UP, assigned=(T0,)),
        (),
    ),
    "a failed task stays failed": (
        view(
            connector(),
            started(),
            (ended(AttemptEnd.FAILED),),
            connector_status=UP,
            tasks={T0: status(State.FAILED)},
        ),
        (),
    ),
    "a failed task that could not say so": (
        view(
            connector(),
            started(),
            (ended(AttemptEnd.FAILED),),
            connector_status=UP,
            tasks={T0: status(State.RUNNING)},
        ),
        (TaskStatusIs(T0, Status(State.FAILED, "w", 5, "why", attempt=7)),),
    ),
    "a lost attempt waits": (
        view(
            connector(),
            started(),
            (ended(AttemptEnd.LOST, deadline=NOW + 1),),
            connector_status=UP,
            tasks={T0: status(State.UNASSIGNED)},
        ),
        (),
    ),
    "and is launched again": (
        view(
            connector(),
            started(),
            (ended(AttemptEnd.LOST, deadline=NOW, failures=2),),
            connector_status=UP,
        ),
        (Launch(T0, 3, RUNNING, failures=2),),
    ),
    "pause stops the instance and tells the running attempt": (
        view(connector(target=PAUSED), started(), (run(),), connector_status=status(State.PAUSED)),
        (StopInstance("c"), Reassign(T0, PAUSED)),
    ),
    "a pause stops an instance that is still starting": (
        view(
            connector(target=PAUSED),
            started(phase=InstancePhase.STARTING),
            (run(state=PAUSED),),
            connector_status=status(State.PAUSED),
        ),
        (StopInstance("c"),),
    ),
    "a paused connector's instance that takes too long to stop is left behind": (
        view(
            connector(target=PAUSED),
            started(phase=InstancePhase.STOPPING, deadline=NOW),
            (run(state=PAUSED),),
            connector_status=status(State.PAUSED),
        ),
        (ForgetInstance("c"),),
    ),
    "a paused connector that has failed stays so": (
        view(
            connector(target=PAUSED),
            started(phase=InstancePhase.FAILED, trace="boom"),
            (run(state=PAUSED),),
            connector_status=status(State.FAILED, "boom"),
        ),
        (),
    ),
    "a resumed connector gets an instance, and its attempt is told": (
        view(connector(), None, (run(state=PAUSED),), connector_status=status(State.PAUSED)),
        (StartInstance("c"), Reassign(T0, RUNNING)),
    ),
    "created paused: no instance, no tasks": (
        view(replace(NEW, target=PAUSED)),
        (ConnectorStatusIs("c", Status(State.PAUSED, "w", 5, None, None)),),
    ),
    "a paused connector's tasks run paused after a failover": (
        view(connector(target=PAUSED), connector_status=RESTING),
        (Launch(T0, 3, PAUSED),),
    ),
    "a failed connector keeps its tasks": (
        view(
            connector(),
            started(phase=InstancePhase.FAILED, trace="boom"),
            (run(),),
            connector_status=UP,
        ),
        (ConnectorStatusIs("c", Status(State.FAILED, "w", 5, "boom", "1")),),
    ),
    "stop ends everything": (
        view(
            connector(target=STOPPED, task_configs=(), task_count=0),
            started(),
            (run(),),
            connector_status=UP,
            tasks={T0: status(State.RUNNING)},
            assigned=(T0,),
        ),
        (StopRun(T0), StopInstance("c")),
    ),
    "stopped, its task gone": (
        view(
            connector(target=STOPPED, task_configs=(), task_count=0),
            connector_status=UP,
            tasks={T0: status(State.UNASSIGNED)},
        ),
        (
            TaskStatusIs(T0, None),
            ConnectorStatusIs("c", Status(State.STOPPED, "w", 5, None, None)),
        ),
    ),
    "stopped and quiet": (
        view(connector(target=STOPPED, task_configs=(), task_count=0), connector_status=HALTED),
        (),
    ),
    "with a null in its config, no instance starts": (
        view(connector(null_keys=("file", "x")), None, (run(),), tasks={T0: UP}, assigned=(T0,)),
        (Fail("c", "Non-string value found in original settings for key file: null"),),
    ),
    "with a null in its new config, the instance stops": (
        view(
            connector(null_keys=("file",)),
            started(),
            (run(),),
            connector_status=UP,
            tasks={T0: UP},
            assigned=(T0,),
        ),
        (StopInstance("c"),),
    ),
    "the version of a stopped connector is found out": (
        view(
            connector(target=STOPPED, task_configs=(), task_count=0),
            connector_status=HALTED,
            versions={},
        ),
        (Identify("c", "FileStreamSource"),),
    ),
    "a version that is being found out is not asked for again": (
        replace(
            view(
                connector(target=STOPPED, task_configs=(), task_count=0),
                connector_status=HALTED,
                versions={},
            ),
            kinds={"FileStreamSource": None},
        ),
        (),
    ),
    "the status of a stopped connector gets its version": (
        view(
            connector(target=STOPPED, task_configs=(), task_count=0),
            connector_status=status(State.STOPPED, version=None),
            versions={"FileStreamSource": "2"},
        ),
        (ConnectorStatusIs("c", status(State.STOPPED, version="2")),),
    ),
    "a connector that was created paused has its version": (
        view(replace(NEW, target=PAUSED), versions={"FileStreamSource": "2"}),
        (ConnectorStatusIs("c", status(State.PAUSED, version="2")),),
    ),
    "a failure before the version was known stays without it": (
        view(
            connector(),
            started(phase=InstancePhase.FAILED, trace="t", version=None),
            (run(),),
            connector_status=status(State.FAILED, "t", version=None),
            tasks={T0: UP},
            assigned=(T0,),
            versions={"FileStreamSource": "2"},
        ),
        (),
    ),
    "stopped: what ended is forgotten": (
        view(
            connector(target=STOPPED, task_configs=(), task_count=0),
            None,
            (ended(AttemptEnd.FAILED),),
            connector_status=HALTED,
        ),
        (ForgetRun(T0),),
    ),
    "an earlier leader's assignment of a stopped connector is withdrawn": (
        view(
            connector(target=STOPPED, task_configs=(), task_count=0),
            connector_status=HALTED,
            assigned=(T0,),
        ),
        (Unassign(T0),),
    ),
    "deleted: everything ends, statuses last": (
        view(
            None,
            started(),
            (run(),),
            connector_status=UP,
            tasks={T0: status(State.RUNNING)},
            assigned=(T0,),
        ),
        (StopRun(T0), StopInstance("c")),
    ),
    "deleted and gone": (
        view(None, connector_status=UP, tasks={T0: status(State.UNASSIGNED)}),
        (TaskStatusIs(T0, None), ConnectorStatusIs("c", None)),
    ),
    "no slot: unassigned, not launched": (
        view(connector(), started(), connector_status=UP, slots=0),
        (TaskStatusIs(T0, Status(State.UNASSIGNED, "w", 5, "Spark is not running yet.")),),
    ),
    "no slot, and why": (
        replace(view(connector(), started(), connector_status=UP, slots=0), obstacle="no Java"),
        (TaskStatusIs(T0, Status(State.UNASSIGNED, "w", 5, "no Java")),),
    ),
    "no slot, for longer than the status says": (
        replace(
            view(
                connector(),
                started(),
                connector_status=UP,
                tasks={T0: status(State.UNASSIGNED, "no answer for 12 s")},
                slots=0,
            ),
            obstacle="no answer for 13 s",
        ),
        (),
    ),
    "no slot for what an earlier leader runs: it ends": (
        replace(
            view(
                connector(),
                started(),
                connector_status=UP,
                tasks={T0: status(State.UNASSIGNED, FULL)},
                assigned=(T0,),
            ),
            occupied=8,
        ),
        (Unassign(T0),),
    ),
    "a pause that finds no slot ends what an earlier leader runs": (
        view(
            connector(target=PAUSED),
            connector_status=RESTING,
            tasks={T0: status(State.UNASSIGNED, "Spark is not running yet.")},
            assigned=(T0,),
            slots=0,
        ),
        (Unassign(T0),),
    ),
    "a paused task that releases its slot ends": (
        released(view(PAUSED_C, None, (run(),), connector_status=RESTING)),
        (StopRun(T0),),
    ),
    "it has ended: paused": (
        released(
            view(PAUSED_C, connector_status=RESTING, tasks={T0: status(State.UNASSIGNED)}),
        ),
        (TaskStatusIs(T0, status(State.PAUSED)),),
    ),
    "an earlier leader's attempt at it ends, too": (
        released(
            view(
                PAUSED_C,
                connector_status=RESTING,
                tasks={T0: status(State.PAUSED)},
                assigned=(T0,),
            ),
        ),
        (Unassign(T0),),
    ),
    "one that nobody can fence is said to be": (
        replace(
            released(
                view(
                    PAUSED_C,
                    connector_status=RESTING,
                    tasks={T0: status(State.RUNNING)},
                    assigned=(T0,),
                    versions={"FileStreamSource": "1"},
                ),
            ),
            exactly_once=False,
        ),
        (Unassign(T0), Fail("c", LATE, 5.0)),
    ),
    "its version is that of its class, where its status has none": (
        released(
            view(
                PAUSED_C,
                connector_status=replace(RESTING, version="1"),
                tasks={T0: status(State.UNASSIGNED, version=None)},
                versions={"FileStreamSource": "1"},
            ),
        ),
        (TaskStatusIs(T0, status(State.PAUSED)),),
    ),
    "one that failed stays FAILED": (
        released(
            view(
                PAUSED_C,
                None,
                (ended(AttemptEnd.FAILED),),
                connector_status=RESTING,
                tasks={T0: status(State.FAILED)},
            ),
        ),
        (),
    ),
    "one that was lost as it was paused": (
        released(view(PAUSED_C, None, (ended(AttemptEnd.LOST),), connector_status=RESTING)),
        (ForgetRun(T0),),
    ),
    "resumed, it is launched": (
        released(
            view(connector(), started(), connector_status=UP, tasks={T0: status(State.PAUSED)}),
        ),
        (Launch(T0, 3, RUNNING),),
    ),
    "slots are about to come: what an earlier leader runs goes on": (
        replace(
            view(
                connector(),
                started(),
                connector_status=UP,
                tasks={T0: status(State.RUNNING)},
                assigned=(T0,),
                slots=0,
            ),
            led_at=NOW - 9,
        ),
        (),
    ),
    "what a late attempt said is overwritten": (
        with_outdated(
            view(
                connector(),
                started(),
                (run(),),
                connector_status=UP,
                tasks={T0: status(State.RUNNING)},
                assigned=(T0,),
            )
        ),
        (TaskStatusIs(T0, status(State.RUNNING), again=True),),
    ),
    "no launcher: an earlier runtime's claims are withdrawn": (
        view(
            connector(),
            connector_status=UP,
            tasks={T0: status(State.RUNNING)},
            assigned=(T0,),
            slots=None,
        ),
        (
            Unassign(T0),
            TaskStatusIs(T0, Status(State.UNASSIGNED, "w", 5)),
            ConnectorStatusIs("c", Status(State.UNASSIGNED, "w", 5, None, None)),
        ),
    ),
    "inconsistent task configs are published again, and not run": (
        view(connector(inconsistent=True), started(), connector_status=UP),
        (PublishTasks("c", (TASK,)),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_next_effects(name: str) -> None:
    given, expected = CASES[name]
    # when waits are said is tested in test_resting_tasks.py
    effects = tuple(each for each in decide(given, NOW) if not isinstance(each, Wait))
    assert effects == expected


def test_what_cannot_be_decided_for_one_connector_is_its_own_failure() -> None:
    broken = replace(connector(), name="b", task_configs=None)
    given = replace(
        view(connector(), started(), connector_status=UP),
        config=ConfigSnapshot(connectors={"b": broken, "c": connector()}),
    )
    first, *others = decide(given, NOW)
    assert isinstance(first, Fail) and first.name == "b"
    assert others == [Launch(T0, 3, RUNNING)]


def test_time_alone_is_looked_at_again() -> None:
    assert next_look(view(connector(), started(), (run(),)), NOW) == math.inf
    waiting = view(connector(), started(), (ended(AttemptEnd.LOST, deadline=NOW + 3),))
    assert next_look(waiting, NOW) == NOW + 3
    assert next_look(replace(waiting, led_at=NOW - 8), NOW) == NOW + 2
    assert next_look(replace(waiting, waits={"c": NOW - 9}), NOW) == NOW + 1
    lost = (ended(AttemptEnd.LOST, ended_at=NOW - 8, deadline=NOW + 3),)
    assert next_look(view(connector(), started(), lost), NOW) == NOW + 2
    stopping = view(NEW, started(phase=InstancePhase.STOPPING, deadline=NOW + 2))
    assert next_look(stopping, NOW) == NOW + 2
    retried = replace(view(connector()), failures=failed(connector(), retry_at=NOW + 1))
    assert next_look(retried, NOW) == NOW + 1


def test_slots_are_shared_by_all_connectors() -> None:
    states = {
        name: replace(
            connector(),
            name=name,
            config={**SINK, "name": name},
            applied_config={**SINK, "name": name},
        )
        for name in ("a", "b", "c")
    }
    instances = {name: started(config=state.config, kind="sink") for name, state in states.items()}
    given = View(
        config=ConfigSnapshot(connectors=states),
        status=StatusSnapshot(connectors=dict.fromkeys(states, UP)),
        instances=instances,
        slots=2,
        worker_id="w",
        term=5,
    )
    launched = [e.task.connector for e in decide(given, NOW) if isinstance(e, Launch)]
    assert launched == ["a", "b"]
