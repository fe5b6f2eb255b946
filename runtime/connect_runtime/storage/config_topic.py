"""Encodes and decodes the config topic's records.

Connect's format: keys are plain text, values compact JSON. `reduce_all` folds records
into a ConfigSnapshot; the other functions make the records that a leader writes. Task configs count
only once a commit record covers all of them. Session keys are internal to Connect and are ignored.
No I/O; values are never logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson

from connect_runtime.java.jackson import read_json
from connect_runtime.storage.log import LogRecord, MalformedRecord, NewRecord, json_object
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    LoggerRequest,
    RestartRequest,
    TaskId,
)
from connect_specs.desired import TargetState

_log = logging.getLogger(__name__)

_TARGET_STATE = "target-state-"
_CONNECTOR = "connector-"
_TASK = "task-"
_COMMIT = "commit-"
_RESTART = "restart-connector-"
_FENCING = "tasks-fencing-"
_SESSION_KEY = "session-key"
_LOGGER = "logger-cluster-"

# Commands matter only to live readers; older ones would pile up forever.
_RESTARTS_KEPT = 4096

_STATES = {
    "STARTED": TargetState.RUNNING,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
# Workers before 3.5 do not know STOPPED; the first field is for them.
_STATE_VALUES = {
    TargetState.RUNNING: b'{"state":"STARTED","state.v2":"STARTED"}',
    TargetState.PAUSED: b'{"state":"PAUSED","state.v2":"PAUSED"}',
    TargetState.STOPPED: b'{"state":"PAUSED","state.v2":"STOPPED"}',
}


def connector_record(topic: str, name: str, config: Mapping[str, str | None]) -> NewRecord:
    """Creates the connector or replaces its config."""
    value = orjson.dumps({"properties": dict(config)})
    return NewRecord(topic, f"{_CONNECTOR}{name}".encode(), value)


def removal_records(topic: str, name: str) -> tuple[NewRecord, NewRecord]:
    """Deletes the connector; both belong in one transaction, in this order."""
    return (
        NewRecord(topic, f"{_CONNECTOR}{name}".encode(), None),
        NewRecord(topic, f"{_TARGET_STATE}{name}".encode(), None),
    )


def target_state_record(topic: str, name: str, state: TargetState) -> NewRecord:
    """Sets the target state. For a new connector it goes before the config (KIP-980)."""
    return NewRecord(topic, f"{_TARGET_STATE}{name}".encode(), _STATE_VALUES[state])


def task_config_records(
    topic: str, name: str, configs: Sequence[Mapping[str, str]]
) -> tuple[NewRecord, ...]:
    """Returns one record per task, 0 to n-1; without effect until the commit record for n tasks."""
    return tuple(
        NewRecord(
            topic,
            f"{_TASK}{TaskId(name, number)}".encode(),
            orjson.dumps({"properties": dict(config)}),
        )
        for number, config in enumerate(configs)
    )


def is_task_config(record: NewRecord, topic: str) -> bool:
    """Returns whether it is one of `task_config_records` for this topic."""
    return record.topic == topic and record.key.startswith(_TASK.encode())


def commit_record(topic: str, name: str, tasks: int) -> NewRecord:
    """Makes the task configs since the last commit the connector's set of tasks."""
    return NewRecord(topic, f"{_COMMIT}{name}".encode(), orjson.dumps({"tasks": tasks}))


def fencing_record(topic: str, name: str, tasks: int) -> NewRecord:
    """Records that earlier producers are fenced, and how many tasks there may be now."""
    return NewRecord(topic, f"{_FENCING}{name}".encode(), orjson.dumps({"task-count": tasks}))


def restart_record(topic: str, name: str, *, include_tasks: bool, only_failed: bool) -> NewRecord:
    """Asks the leader to restart a connector and some of its tasks (KIP-745)."""
    value = orjson.dumps({"include-tasks": include_tasks, "only-failed": only_failed})
    return NewRecord(topic, f"{_RESTART}{name}".encode(), value)


def logger_record(topic: str, namespace: str, level: str) -> NewRecord:
    """Asks all workers to set the level of loggers whose names begin with `namespace` (KIP-976)."""
    return NewRecord(topic, f"{_LOGGER}{namespace}".encode(), orjson.dumps({"level": level}))


def reduce_all(snapshot: ConfigSnapshot, records: Iterable[LogRecord]) -> ConfigSnapshot:
    """Returns the snapshot after `records`, which follow it in offset order.

    An unknown or malformed record changes only the offset and is logged, without its value.
    """
    fold = _ConfigFold(snapshot)
    for record in records:
        fold.apply(record)
    return fold.snapshot()


def task_id(text: str) -> TaskId | None:
    """Splits `<connector>-<task>` at its last dash; None if it is not a task id."""
    name, dash, number = text.rpartition("-")
    if dash and number.isascii() and number.isdigit():
        return TaskId(name, int(number))
    return None


def subject(key: bytes | None) -> tuple[Literal["config", "target-state"], str] | None:
    """Returns the connector of a record that holds or removes a config or a target state."""
    text = "" if key is None else key.decode(errors="replace")
    if text.startswith(_TARGET_STATE):
        return "target-state", text.removeprefix(_TARGET_STATE)
    if text.startswith(_CONNECTOR):
        return "config", text.removeprefix(_CONNECTOR)
    return None


class _ConfigFold:
    """A snapshot being built: copied once, then changed in place."""

    def __init__(self, start: ConfigSnapshot) -> None:
        self._connectors = dict(start.connectors)
        self._orphans = dict(start.orphans)
        self._deferred = {name: dict(tasks) for name, tasks in start.deferred.items()}
        self._restarts = list(start.restarts)
        self._loggers = dict(start.loggers)
        self._offset = start.offset
        # In Connect's order.
        self._kinds: tuple[tuple[str, Callable[[str, LogRecord], None]], ...] = (
            (_TARGET_STATE, self._on_target_state),
            (_CONNECTOR, self._on_connector),
            (_TASK, self._on_task),
            (_COMMIT, self._on_commit),
            (_RESTART, self._on_restart),
            (_FENCING, self._on_fencing),
            (_LOGGER, self._on_logger),
        )

    def snapshot(self) -> ConfigSnapshot:
        return ConfigSnapshot(
            connectors=self._connectors,
            deferred=self._deferred,
            orphans=self._orphans,
            restarts=tuple(self._restarts[-_RESTARTS_KEPT:]),
            loggers=self._loggers,
            offset=self._offset,
        )

    def apply(self, record: LogRecord) -> None:
        self._offset = max(self._offset, record.offset + 1)
        try:
            self._dispatch(record)
        except MalformedRecord as reason:
            _log.warning(
                "Config topic %s, offset %d, key %r is ignored: %s",
                record.topic,
                record.offset,
                None if record.key is None else record.key.decode(errors="replace"),
                reason,
            )

    def _dispatch(self, record: LogRecord) -> None:
        if record.key is None:
            raise MalformedRecord("it has no key")
        key = record.key.decode(errors="replace")
        for prefix, handle in self._kinds:
            if key.startswith(prefix):
                handle(key[len(prefix) :], record)
                return
        if key != _SESSION_KEY:
            raise MalformedRecord("no such kind of key")

    def _known(self, name: str) -> ConnectorState:
        return (
            self._connectors.get(name) or self._orphans.get(name) or ConnectorState(name, config={})
        )

    def _keep(self, state: ConnectorState) -> None:
        """Stores a connector's state, in the place that its connector record, or the lack of one,
        determines."""
        if state.name in self._connectors:
            self._connectors[state.name] = state
        elif state == ConnectorState(state.name, config={}):
            self._orphans.pop(state.name, None)
        else:
            self._orphans[state.name] = state

    def _on_target_state(self, name: str, record: LogRecord) -> None:
        removed, exists = record.value is None, name in self._connectors
        self._keep(
            replace(
                self._known(name),
                target=TargetState.RUNNING if removed else _target_state(record),
                target_given=not removed,
                target_timestamp_ms=record.timestamp_ms if exists or not removed else 0,
            )
        )

    def _on_connector(self, name: str, record: LogRecord) -> None:
        if record.value is None:
            self._remove(name)
            return
        # of a text that is none, the value is null: only this connector fails
        config = _properties(record, read_json)
        state = replace(
            self._known(name),
            config={key: value for key, value in config.items() if value is not None},
            null_keys=tuple(key for key, value in config.items() if value is None),
            config_timestamp_ms=record.timestamp_ms,
        )
        self._orphans.pop(name, None)
        self._connectors[name] = state

    def _remove(self, name: str) -> None:
        """Removes what belongs to a connector's config. Fencing and target state outlive it."""
        self._deferred.pop(name, None)
        state = self._connectors.pop(name, None)
        if state is not None:
            self._keep(
                replace(
                    state,
                    config={},
                    null_keys=(),
                    tasks_ever=0,
                    task_configs=(),
                    task_count=0,
                    applied_config=None,
                    config_timestamp_ms=0,
                )
            )

    def _on_task(self, suffix: str, record: LogRecord) -> None:
        task = task_id(suffix)
        if task is None:
            raise MalformedRecord("it does not end in a task number")
        if record.value is None:
            raise MalformedRecord("a task config cannot be removed")
        properties = _properties(record).items()
        config = {key: value for key, value in properties if value is not None}
        self._deferred.setdefault(task.connector, {})[task.task] = config

    def _on_commit(self, name: str, record: LogRecord) -> None:
        state = self._connectors.get(name)
        if state is None:
            # Its removal may have been compacted away, and its tasks must not reappear.
            self._remove(name)
            return
        count = _integer(record, "tasks")
        deferred = self._deferred.get(name)
        configs = deferred or {}
        state = replace(state, task_count=count, pending_fencing=True)
        if all(number in configs for number in range(count)):
            state = replace(
                state,
                task_configs=tuple(configs[number] for number in range(count)),
                tasks_ever=max(state.tasks_ever, count),
                # Connect also counts an empty set, but not before the first task config.
                generation=state.generation + (deferred is not None),
                applied_config=state.config,
                inconsistent=False,
            )
        else:
            state = replace(state, task_configs=(), inconsistent=True)
        if deferred is not None:
            self._deferred[name] = {}
        self._connectors[name] = state

    def _on_restart(self, name: str, record: LogRecord) -> None:
        value = json_object(record.value)
        self._restarts.append(
            RestartRequest(
                connector=name,
                include_tasks=value.get("include-tasks") is True,
                only_failed=value.get("only-failed") is True,
                offset=record.offset,
            )
        )

    def _on_fencing(self, name: str, record: LogRecord) -> None:
        count = _integer(record, "task-count")
        self._keep(replace(self._known(name), task_count_record=count, pending_fencing=False))

    def _on_logger(self, namespace: str, record: LogRecord) -> None:
        level = json_object(record.value).get("level")
        if not isinstance(level, str):
            raise MalformedRecord("it names no level")
        self._loggers[namespace] = LoggerRequest(namespace, level, record.offset)


def _properties(
    record: LogRecord, loads: Callable[[bytes], Any] = orjson.loads
) -> dict[str, str | None]:
    """Decodes a config map."""
    properties = json_object(record.value, loads).get("properties")
    if not isinstance(properties, dict):
        raise MalformedRecord("'properties' is not a JSON object")
    for key, value in properties.items():
        if not isinstance(value, str | None):
            raise MalformedRecord(f"the value of '{key}' is not a string")
    return properties


def _integer(record: LogRecord, field: str) -> int:
    number = json_object(record.value).get(field)
    if not isinstance(number, int) or isinstance(number, bool):
        raise MalformedRecord(f"'{field}' is not an integer")
    return number


def _target_state(record: LogRecord) -> TargetState:
    value = json_object(record.value)
    word = value.get("state.v2")
    if not isinstance(word, str):
        word = value.get("state")
    state = _STATES.get(word) if isinstance(word, str) else None
    if state is None:
        raise MalformedRecord("it names no target state")
    return state
