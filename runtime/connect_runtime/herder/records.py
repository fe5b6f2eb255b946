"""Builds the records that carry out effects, in the order of the effects. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from connect_runtime.herder import effects
from connect_runtime.herder.earlier_attempts import may_write
from connect_runtime.herder.effects import Effect
from connect_runtime.herder.view import View
from connect_runtime.storage import assignments_topic, config_topic, status_topic
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import Assignment, State, Status, TaskId
from connect_specs.desired import TargetState
from connect_specs.names import ClusterTopics

# Even a slow Kafka takes this in less time than a transaction of the leader may last
_AT_ONCE_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class ConnectorWrite:
    """One connector's part of a round: effects, their records, and the attempts that it
    launches."""

    name: str
    effects: Sequence[Effect]
    records: Sequence[NewRecord]
    attempts: Mapping[TaskId, int]


def split_for_transactions(records: Sequence[NewRecord], topic: str) -> list[list[NewRecord]]:
    """Splits records that are too many for one transaction: task configs in the config `topic` come
    first, in several ones. Without the commit record, which is in the last one, they have no
    effect. Kafka aborts a
    transaction after 10 s, and takes the leader for a former one."""
    if sum(map(_size, records)) <= _AT_ONCE_BYTES:
        return [list(records)]
    batches: list[list[NewRecord]] = [[]]
    further, size = [], 0
    for record in records:
        if not config_topic.is_task_config(record, topic):
            further.append(record)
            continue
        if size > 0 and size + _size(record) > _AT_ONCE_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(record)
        size += _size(record)
    return [*filter(None, batches), further]


def _size(record: NewRecord) -> int:
    return len(record.key) + len(record.value or b"")


def connector_write(
    name: str, steps: Sequence[Effect], view: View, topics: ClusterTopics, leader: str
) -> ConnectorWrite:
    """Returns what one connector's effects write. Raises if a value cannot be encoded."""
    # higher than every earlier attempt's, even after compaction: each launch writes a record, so
    # the log's end has passed all of them
    highest, end = view.assignments.attempts, view.assignments.offset
    launched = [effect.task for effect in steps if isinstance(effect, effects.Launch)]
    attempts = {task: max(highest.get(task, 0) + 1, end) for task in launched}
    records = [
        record for effect in steps for record in records_of(effect, view, topics, leader, attempts)
    ]
    return ConnectorWrite(name, steps, records, attempts)


def unassigned_records(view: View, topic: str) -> list[NewRecord]:
    """Returns UNASSIGNED records for all that was running or paused, until a runtime leads."""
    records: list[NewRecord] = []
    gone = Status(State.UNASSIGNED, view.worker_id, view.term)
    for name, status in view.status.connectors.items():
        if status.busy:
            records.append(status_topic.connector_record(topic, name, gone))
    for task, status in view.status.tasks.items():
        state = view.config.connectors.get(task.connector)
        # a task that may still write reports its own end
        if status.busy and may_write(view, state, task) is None:
            records.extend(task_status_records(topic, task, gone, status))
    return records


def task_status_records(
    topic: str, task: TaskId, status: Status | None, current: Status | None
) -> tuple[NewRecord, ...]:
    """Returns a task's status, written on its behalf. Readers ignore UNASSIGNED after RUNNING of
    the same term, as a late record of an earlier worker, unless RUNNING is removed first."""
    record = status_topic.task_record(topic, task, status)
    if (
        status is None
        or current is None
        or (status.state, current.state) != (State.UNASSIGNED, State.RUNNING)
        or current.generation < status.generation
    ):
        return (record,)
    return (status_topic.task_record(topic, task, None), record)


def _stop_assignment(view: View, task: TaskId) -> Assignment | None:
    """Returns what tells an attempt to stop: None, or the attempt, where nothing can fence it. It
    is then remembered until its end is known."""
    state = view.config.connectors.get(task.connector)
    assignment = view.assignments.tasks.get(task)
    if assignment is None or may_write(view, state, task) is None:
        return None
    return replace(assignment, state=TargetState.STOPPED)


def records_of(
    effect: Effect, view: View, topics: ClusterTopics, leader: str, attempts: Mapping[TaskId, int]
) -> tuple[NewRecord, ...]:
    """Returns the records that `effect` writes; none for effects in memory only. `attempts` numbers
    the launches."""
    match effect:
        case effects.PublishTasks(name=name, task_configs=configs):
            return (
                *config_topic.task_config_records(topics.config, name, configs),
                config_topic.commit_record(topics.config, name, len(configs)),
            )
        case effects.RecordFencing(name=name, tasks=tasks):
            return (config_topic.fencing_record(topics.config, name, tasks),)
        case effects.Launch(task=task, generation=generation, state=state):
            attempt = Assignment(attempts[task], leader, state, generation)
            return (assignments_topic.assignment_record(topics.assignments, task, attempt),)
        case effects.Reassign(task=task, state=state):
            run = view.runs[task]
            assignment = Assignment(run.attempt, leader, state, run.generation)
            return (assignments_topic.assignment_record(topics.assignments, task, assignment),)
        case effects.StopRun(task=task) | effects.Unassign(task=task):
            stop = _stop_assignment(view, task)
            return (assignments_topic.assignment_record(topics.assignments, task, stop),)
        case effects.ConnectorStatusIs(name=name, status=status):
            gone = () if status is not None else view.status.topics.get(name, frozenset())
            return (
                status_topic.connector_record(topics.status, name, status),
                *(status_topic.topic_unused_record(topics.status, used, name) for used in gone),
            )
        case effects.TaskStatusIs(task=task, status=status, again=True):
            return (status_topic.task_record(topics.status, task, status, again=True),)
        case effects.TaskStatusIs(task=task, status=status):
            return task_status_records(topics.status, task, status, view.status.tasks.get(task))
        case (
            effects.StartInstance()
            | effects.StopInstance()
            | effects.ForgetInstance()
            | effects.FailInstance()
            | effects.AskTasks()
            | effects.Identify()
            | effects.Fence()
            | effects.Fail()
            | effects.ForgetFailure()
            | effects.Wait()
            | effects.KillRun()
            | effects.ForgetRun()
        ):
            return ()
        case _:
            assert_never(effect)
