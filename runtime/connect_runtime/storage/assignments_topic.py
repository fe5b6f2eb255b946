"""Encodes and decodes the assignments topic, in which the leader tells each task what to do.

The topic is ours: key `<connector>-<task>`, value a JSON object, null for stop. A task runs only
while the newest record names its attempt. The record of key `leader` holds the newest leader's
term. No I/O; values are never logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import orjson

from connect_runtime.storage.config_topic import task_id
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.snapshots import Assignment, AssignmentSnapshot, TaskId
from connect_specs.desired import TargetState

_log = logging.getLogger(__name__)

_TERM: Final = b"leader"


def assignment_record(topic: str, task: TaskId, assignment: Assignment | None) -> NewRecord:
    """Returns a record that tells a task what to do; None, or STOPPED, tells it to stop."""
    value = None
    if assignment is not None:
        value = orjson.dumps(
            {
                "attempt": assignment.attempt,
                "leader": assignment.leader,
                "state": assignment.state.value,
                "generation": assignment.generation,
            }
        )
    return NewRecord(topic, str(task).encode(), value)


def term_record(topic: str, term: int, leader: str) -> NewRecord:
    """Returns the record of the newest leader's term. Its key names no task, and none has it."""
    return NewRecord(topic, _TERM, orjson.dumps({"term": term, "leader": leader}))


def reduce_all(snapshot: AssignmentSnapshot, records: Iterable[LogRecord]) -> AssignmentSnapshot:
    """Returns the snapshot after `records`, which follow it. Malformed ones are logged and change
    only the offset."""
    tasks = dict(snapshot.tasks)
    attempts = dict(snapshot.attempts)
    ending = dict(snapshot.ending)
    offset, term = snapshot.offset, snapshot.term
    for record in records:
        offset = max(offset, record.offset + 1)
        if record.key == _TERM:
            term = max(term, _term(record.value))
            continue
        task = None if record.key is None else task_id(record.key.decode(errors="replace"))
        assignment = None if record.value is None else _decode(record.value)
        if task is None or (assignment is None and record.value is not None):
            _log.warning(
                "Assignments topic %s, offset %d is ignored: %s",
                record.topic,
                record.offset,
                "its key names no task" if task is None else "its value is not an assignment",
            )
        elif assignment is None:
            tasks.pop(task, None)
            ending.pop(task, None)
        else:
            tasks.pop(task, None)
            ending.pop(task, None)
            if assignment.state is TargetState.STOPPED:
                ending[task] = assignment.attempt
            else:
                tasks[task] = assignment
            attempts[task] = max(attempts.get(task, assignment.attempt), assignment.attempt)
    return AssignmentSnapshot(tasks, attempts, offset, term, ending)


def _term(value: bytes | None) -> int:
    try:
        return int(orjson.loads(value or b"")["term"])
    except (KeyError, TypeError, ValueError):
        return -1


def _decode(value: bytes) -> Assignment | None:
    try:
        fields = orjson.loads(value)
        return Assignment(
            attempt=int(fields["attempt"]),
            leader=str(fields["leader"]),
            state=TargetState(fields["state"]),
            generation=int(fields["generation"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
