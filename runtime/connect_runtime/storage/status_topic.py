"""Encodes and decodes the statuses of connectors and tasks, and the topics that they use.

Connect's format, keys in plain text and values in compact JSON, any number of partitions. The rule
in `reduce_all` keeps a late worker from hiding newer statuses. No I/O; values are never logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson

from connect_runtime.java.jackson import read_json
from connect_runtime.storage.config_topic import task_id
from connect_runtime.storage.log import LogRecord, MalformedRecord, NewRecord
from connect_runtime.storage.snapshots import State, Status, StatusSnapshot, TaskId

_log = logging.getLogger(__name__)

_CONNECTOR = "status-connector-"
_TASK = "status-task-"
_TOPIC = "status-topic-"
_TOPIC_SEPARATOR = ":connector-"
# In characters of at most four bytes: far below a record's limit
_TRACE_MAX = 100_000
_TRACE_GAP = 50


def connector_record(topic: str, name: str, status: Status | None) -> NewRecord:
    """Returns a connector's status record; None removes its status."""
    return NewRecord(topic, f"{_CONNECTOR}{name}".encode(), _encode(status))


def task_record(
    topic: str, task: TaskId, status: Status | None, *, again: bool = False
) -> NewRecord:
    """Returns a task's status record; None removes its status. `again`: the leader repeats what it
    has read, and the attempt may have written something newer since."""
    return NewRecord(topic, f"{_TASK}{task}".encode(), _encode(status, again=again))


def topic_in_use_record(
    topic: str, used: str, connector: str, *, task: int, discovered_ms: int
) -> NewRecord:
    """Records that a connector reads or writes the topic `used`, seen first by one of its tasks."""
    value = {
        "topic": {
            "name": used,
            "connector": connector,
            "task": task,
            "discoverTimestamp": discovered_ms,
        }
    }
    return NewRecord(topic, _topic_key(used, connector), orjson.dumps(value))


def topic_unused_record(topic: str, used: str, connector: str) -> NewRecord:
    """Removes the topic `used` from a connector's topics."""
    return NewRecord(topic, _topic_key(used, connector), None)


def subject(key: bytes | None) -> str | None:
    """Returns the connector of a connector's or task's status record; None for topics in use."""
    text = "" if key is None else key.decode(errors="replace")
    if text.startswith(_CONNECTOR):
        return text.removeprefix(_CONNECTOR)
    task = task_id(text.removeprefix(_TASK)) if text.startswith(_TASK) else None
    return None if task is None else task.connector


def task_of(key: bytes | None) -> TaskId | None:
    """Returns the task of a task's status record."""
    text = "" if key is None else key.decode(errors="replace")
    return task_id(text.removeprefix(_TASK)) if text.startswith(_TASK) else None


def storable_trace(trace: str) -> str:
    """Returns the trace in a form that a record can hold: a plugin may put anything into it, of any
    length."""
    text = trace.encode("utf-8", "replace").decode()
    if len(text) <= _TRACE_MAX:
        return text
    half = _TRACE_MAX // 2 - _TRACE_GAP
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


def newest_generation(snapshot: StatusSnapshot) -> int:
    """Returns the largest generation of all statuses, -1 if there are none."""
    statuses = (*snapshot.connectors.values(), *snapshot.tasks.values())
    return max((status.generation for status in statuses), default=-1)


def reduce_all(snapshot: StatusSnapshot, records: Iterable[LogRecord]) -> StatusSnapshot:
    """Returns the snapshot after `records`. Unknown or malformed ones are logged and change
    nothing.

    A record of an older attempt than the known one is ignored: a late attempt wrote it. UNASSIGNED
    does not replace RUNNING of the same or a newer generation: it comes from the worker that had
    the task before, unless it is of the attempt that was RUNNING.
    """
    fold = _StatusFold(snapshot)
    for record in records:
        try:
            fold.apply(record)
        except MalformedRecord as reason:
            _log.warning(
                "Status topic %s-%d, offset %d is ignored: %s",
                record.topic,
                record.partition,
                record.offset,
                reason,
            )
    return StatusSnapshot(
        connectors=fold.connectors,
        tasks=fold.tasks,
        topics=fold.topics,
        outdated=frozenset(fold.outdated),
    )


class _StatusFold:
    """A snapshot being built: copied once, then changed in place."""

    def __init__(self, start: StatusSnapshot) -> None:
        self.connectors = dict(start.connectors)
        self.tasks = dict(start.tasks)
        self.topics = dict(start.topics)
        self.outdated = set(start.outdated)

    def apply(self, record: LogRecord) -> None:
        """Applies a record. Raises MalformedRecord."""
        key = "" if record.key is None else record.key.decode(errors="replace")
        if key.startswith(_CONNECTOR):
            self._on_connector(key.removeprefix(_CONNECTOR), record.value)
        elif key.startswith(_TASK):
            self._on_task(key.removeprefix(_TASK), record.value)
        elif key.startswith(_TOPIC):
            self._on_topic(key.removeprefix(_TOPIC), record.value)
        else:
            raise MalformedRecord("no such kind of key")

    def _on_connector(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.connectors.pop(name, None)
        else:
            self.connectors[name] = _decode(value)

    def _on_task(self, suffix: str, value: bytes | None) -> None:
        task = task_id(suffix)
        if task is None:
            raise MalformedRecord("its key names no task")
        if value is None:
            self.tasks.pop(task, None)
            self.outdated.discard(task)
            return
        status, current = _decode(value), self.tasks.get(task)
        if current is None:
            self.outdated.discard(task)
            self.tasks[task] = status
            return
        repeated = _json_object(value).get("again") is True
        # overtaken: the newer status must be written last
        overtaken = repeated and _said_more(current, status)
        if overtaken or _is_of_older_attempt(status, current):
            self.outdated.add(task)
            return
        self.outdated.discard(task)
        late = (
            not _is_of_older_attempt(current, status)
            and (current.attempt is None or current.attempt != status.attempt)
            and status.state is State.UNASSIGNED
            and current.state is State.RUNNING
            and current.generation >= status.generation
        )
        if not late:
            self.tasks[task] = status
        elif current.attempt is not None and status.attempt is None:
            # a former leader's: it must not stay the last one
            self.outdated.add(task)

    def _on_topic(self, suffix: str, value: bytes | None) -> None:
        used, _, tail = suffix.partition(":")
        connector = tail[len(_TOPIC_SEPARATOR) - 1 :]
        if not used or not connector:
            raise MalformedRecord("its key names no topic and connector")
        topics = self.topics.get(connector, frozenset())
        if value is None:
            topics -= {used}
        elif not isinstance(_json_object(value).get("topic"), dict):
            raise MalformedRecord("its value names no topic")
        else:
            topics |= {used}
        if topics:
            self.topics[connector] = topics
        else:
            self.topics.pop(connector, None)


def _said_more(current: Status, repeated: Status) -> bool:
    """Returns whether the attempt has written another status since the leader read the one that it
    repeats. To that, the leader may have added a trace."""
    return current.attempt == repeated.attempt and current != replace(repeated, trace=current.trace)


def _is_of_older_attempt(status: Status, second: Status) -> bool:
    """Returns whether both name their attempts, and `status` is of the older one."""
    return (
        status.attempt is not None
        and second.attempt is not None
        and status.attempt < second.attempt
    )


def _topic_key(used: str, connector: str) -> bytes:
    return f"{_TOPIC}{used}{_TOPIC_SEPARATOR}{connector}".encode()


def _encode(status: Status | None, *, again: bool = False) -> bytes | None:
    if status is None:
        return None
    value: dict[str, Any] = {
        "state": status.state.value,
        "trace": None if status.trace is None else storable_trace(status.trace),
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    if status.attempt is not None:
        # Apache's workers ignore unknown fields
        value["attempt"] = status.attempt
    if status.polled:
        value["polled"] = True
    if again:
        value["again"] = True
    return orjson.dumps(value)


def _decode(value: bytes) -> Status:
    """Raises MalformedRecord; optional fields of another type count as missing."""
    fields = _json_object(value)
    numbers = {key: content for key, content in fields.items() if type(content) is int}
    texts = {key: content for key, content in fields.items() if isinstance(content, str)}
    if texts.get("state") not in State.__members__ or "generation" not in numbers:
        raise MalformedRecord("its value is not a status")
    return Status(
        state=State(texts["state"]),
        worker_id=texts.get("worker_id", ""),
        generation=numbers["generation"],
        trace=texts.get("trace"),
        version=texts.get("version"),
        attempt=numbers.get("attempt"),
        polled=fields.get("polled") is True,
    )


def _json_object(value: bytes) -> dict[str, Any]:
    """Decodes a JSON object; empty for anything else."""
    try:
        content = read_json(value)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
