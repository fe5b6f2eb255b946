"""Answers or refuses requests: entities of reads, and records or effects of changes. Pure.

Any runtime answers reads, from a view of the topics. Sequences of records and texts are Connect's
(connect-facts 1.6, 4.3 to 4.5, 5.2 and 5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from connect_runtime.herder.earlier_attempts import NOTED_S, may_write, not_confirmed
from connect_runtime.herder.effects import (
    ConnectorStatusIs,
    Effect,
    ForgetFailure,
    ForgetRun,
    StopInstance,
    StopRun,
    TaskStatusIs,
    Unassign,
)
from connect_runtime.herder.runs import InstancePhase, RunPhase
from connect_runtime.herder.verbs import (
    ConnectorInfo,
    ConnectorStatus,
    InstanceStatus,
    Refusal,
    RequestError,
    TaskInfo,
)
from connect_runtime.herder.view import View
from connect_runtime.java.scalars import java_text, parse_integer
from connect_runtime.settings.connector_topics import TopicTracking
from connect_runtime.storage import config_topic, status_topic
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offsets_topic import check_map
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    State,
    Status,
    StatusSnapshot,
    TaskId,
)
from connect_runtime.traces import names_own_jvm
from connect_specs.desired import Offset, OffsetEntry, Partition, TargetState
from connect_specs.diagnostics import Failed

NOT_FOUND = "Connector {} not found"


def find_connector(snapshot: ConfigSnapshot, name: str, text: str) -> ConnectorState:
    """Returns the connector, or raises 404 with Connect's text for this situation (`{}` is the
    name)."""
    state = snapshot.connectors.get(name)
    if state is None:
        raise RequestError(404, text.format(name))
    return state


def create(
    snapshot: ConfigSnapshot,
    topic: str,
    name: str,
    config: Mapping[str, str | None],
    initial_state: TargetState | None,
) -> Sequence[NewRecord]:
    """Writes the target state first, in the same transaction as the config (KIP-980)."""
    if name in snapshot.connectors:
        raise RequestError(409, f"Connector {name} already exists")
    record = config_topic.connector_record(topic, name, config)
    if initial_state is None:
        return (record,)
    return (config_topic.target_state_record(topic, name, initial_state), record)


def put_config(
    snapshot: ConfigSnapshot, topic: str, name: str, config: Mapping[str, str | None]
) -> Sequence[NewRecord]:
    """Writes the config even if it is unchanged, as Connect does."""
    return (config_topic.connector_record(topic, name, config),)


def put_patched(
    snapshot: ConfigSnapshot,
    topic: str,
    name: str,
    config: Mapping[str, str | None],
    patched: ConnectorState,
) -> Sequence[NewRecord]:
    """Writes the config, unless the connector's is not the one that was `patched`."""
    state = find_connector(snapshot, name, NOT_FOUND)
    if (state.config, state.null_keys) != (patched.config, patched.null_keys):
        raise RequestError(
            409,
            "Cannot complete request momentarily due to stale configuration (typically caused by a "
            "concurrent config change)",
        )
    return put_config(snapshot, topic, name, config)


def patch(state: ConnectorState, changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Returns the config with `changes` merged in; None removes a key (KIP-477)."""
    stored: dict[str, str | None] = {**state.config, **dict.fromkeys(state.null_keys)}
    unchanged = {key: value for key, value in stored.items() if key not in changes}
    return unchanged | {key: value for key, value in changes.items() if value is not None}


def delete(snapshot: ConfigSnapshot, topic: str, name: str) -> Sequence[NewRecord]:
    """Removes config and target state; task records, fencing counts and offsets stay."""
    find_connector(snapshot, name, "Connector {} not found")
    return config_topic.removal_records(topic, name)


def stop(snapshot: ConfigSnapshot, topic: str, name: str) -> Sequence[NewRecord]:
    """Writes an empty set of tasks, then the target state."""
    find_connector(snapshot, name, "Unknown connector {}")
    return (
        config_topic.commit_record(topic, name, 0),
        config_topic.target_state_record(topic, name, TargetState.STOPPED),
    )


def target(
    snapshot: ConfigSnapshot, topic: str, name: str, state: TargetState
) -> Sequence[NewRecord]:
    """Writes the target state to pause or resume."""
    find_connector(snapshot, name, "Unknown connector {}")
    return (config_topic.target_state_record(topic, name, state),)


def restartable_task(snapshot: ConfigSnapshot, name: str, task: int) -> None:
    """Raises if there is no such task: 409 for one that there was before the connector was stopped
    or got fewer tasks, which Connect takes for a task that is being moved."""
    state = find_connector(snapshot, name, "Unknown connector: {}")
    if not 0 <= task < max(state.tasks_ever, len(state.task_configs)):
        raise RequestError(404, f"Unknown task: {name}-{task}")
    if task >= len(state.task_configs):
        raise RequestError(
            409,
            "Cannot complete request momentarily due to no known leader URL, likely because a "
            "rebalance was underway.",
        )


def reset_topics(
    snapshot: StatusSnapshot, topic: str, name: str, tracking: TopicTracking
) -> Sequence[NewRecord]:
    """Forgets which topics a connector uses; there need not be such a connector."""
    check_tracked(tracking)
    if not tracking.may_reset:
        raise RequestError(403, "Topic tracking reset is disabled.")
    used = sorted(snapshot.topics.get(name, frozenset()))
    return tuple(status_topic.topic_unused_record(topic, used_topic, name) for used_topic in used)


def check_tracked(tracking: TopicTracking) -> None:
    """Raises unless tasks record which topics they use."""
    if not tracking.enabled:
        raise RequestError(403, "Topic tracking is disabled.")


def check_stopped(state: ConnectorState) -> None:
    """Raises unless the connector is stopped and has no tasks: only then may offsets move
    (KIP-875)."""
    if state.target is not TargetState.STOPPED or state.task_count:
        raise RequestError(
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified. This "
            "can be done for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{state.name}/stop' endpoint",
            Refusal.NOT_STOPPED,
        )


def info(view: View, name: str, kind: Callable[[str], str]) -> ConnectorInfo:
    """Returns the connector with its raw config. `kind` tells source from sink by connector
    class."""
    state = find_connector(view.config, name, NOT_FOUND)
    count = 0 if state.inconsistent else len(state.task_configs)
    ids = tuple(TaskId(name, number) for number in range(count))
    type_name = kind(state.config.get("connector.class", ""))
    return ConnectorInfo(name, state.config, ids, type_name, state.null_keys)


def tasks(view: View, name: str) -> Sequence[TaskInfo]:
    """Returns the tasks with their raw configs; none while inconsistent."""
    state = find_connector(view.config, name, NOT_FOUND)
    if state.inconsistent:
        return ()
    return tuple(
        TaskInfo(TaskId(name, number), config) for number, config in enumerate(state.task_configs)
    )


def status(view: View, name: str, kind: Callable[[str], str]) -> ConnectorStatus:
    """Returns the newest statuses of the connector and all its tasks, by number."""
    connector_status = view.status.connectors.get(name)
    if connector_status is None:
        raise RequestError(404, f"No status found for connector {name}")
    state = view.config.connectors.get(name)
    class_name = state.config.get("connector.class", "") if state else ""
    return ConnectorStatus(
        name=name,
        connector=_instance(connector_status),
        tasks={
            task.task: _instance(view.status.tasks[task])
            for task in _tasks_by_connector(view.status).get(name, ())
        },
        type=kind(class_name) if state else "unknown",
    )


def waiting_tasks(view: View, now: float) -> tuple[TaskId, ...]:
    """Returns the tasks that could run now if they had a slot: not those of failed connectors, nor
    those that pause between two attempts or wait for something else."""
    return tuple(
        task
        for task, status in sorted(view.status.tasks.items())
        if status.state is State.UNASSIGNED
        and view.failure_of(task.connector) is None
        and task.connector not in view.waits
        and (task not in view.runs or view.runs[task].may_be_followed(now))
    )


def tasks_with_own_jvms(view: View) -> tuple[TaskId, ...]:
    """Returns the tasks that have ended a JVM, and have one of their own since."""
    statuses = view.status.tasks.items()
    return tuple(sorted(task for task, status in statuses if names_own_jvm(status.trace)))


def unconfirmed_tasks(view: View, now: float) -> tuple[TaskId, ...]:
    """Returns the tasks of which the leader does not know whether they run, a while after it began
    to lead."""
    if now < view.led_at + NOTED_S:
        return ()
    return tuple(task for task in sorted(view.status.tasks) if not_confirmed(view, task))


def restarting_status(
    current: ConnectorStatus, *, include_tasks: bool, only_failed: bool
) -> ConnectorStatus:
    """Returns the status with RESTARTING on each part that the restart affects (KIP-745)."""

    def touched(entry: InstanceStatus) -> InstanceStatus:
        if only_failed and entry.state is not State.FAILED:
            return entry
        return replace(entry, state=State.RESTARTING)

    statuses = current.tasks.items()
    return replace(
        current,
        connector=touched(current.connector),
        tasks={number: touched(entry) if include_tasks else entry for number, entry in statuses},
    )


# The last indexed snapshot with its tasks: listing all connectors needs one snapshot many times.
# Any thread may replace it with an equally valid one.
_indexed: tuple[StatusSnapshot, Mapping[str, Sequence[TaskId]]] | None = None


def _tasks_by_connector(status: StatusSnapshot) -> Mapping[str, Sequence[TaskId]]:
    """Returns each connector's tasks, in order."""
    global _indexed
    newest = _indexed
    if newest is not None and newest[0] is status:
        return newest[1]
    by_connector: dict[str, list[TaskId]] = {}
    for task in sorted(status.tasks):
        by_connector.setdefault(task.connector, []).append(task)
    _indexed = (status, by_connector)
    return by_connector


def _instance(status: Status) -> InstanceStatus:
    return InstanceStatus(status.state, status.worker_id, status.trace, status.version)


def parse_sink_offsets(
    entries: Sequence[OffsetEntry],
) -> dict[tuple[str, int], int | None]:
    """Returns topic partitions with their offsets; None removes one. The last of two entries wins.

    Raises RequestError with Connect's text.
    """
    return {_sink_partition(_partition(entry)): _sink_offset(entry.offset) for entry in entries}


def parse_source_offsets(
    entries: Sequence[OffsetEntry],
) -> Sequence[tuple[Partition, Offset | None]]:
    """Returns partitions and offsets as given. Raises RequestError unless they are flat maps."""
    for entry in entries:
        if _partition(entry) is None and entry.offset is not None:
            raise RequestError(500, "Partition objects cannot be null")
        for fields in (entry.partition, entry.offset):
            try:
                check_map(fields)
            except Failed as error:
                raise RequestError(500, str(error)) from error
    return [(entry.partition, entry.offset) for entry in entries if _partition(entry) is not None]


def _partition(entry: OffsetEntry) -> Partition | None:
    """Returns the entry's partition. A REST body may omit it; specs never do."""
    return cast("Partition | None", entry.partition)


def _sink_partition(partition: Mapping[str, Any] | None) -> tuple[str, int]:
    if partition is None:
        raise RequestError(
            400, "The partition for a sink connector offset cannot be null or missing"
        )
    if not {"kafka_topic", "kafka_partition"} <= partition.keys():
        raise RequestError(
            400,
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
            "'kafka_partition'",
        )
    topic, number = partition["kafka_topic"], partition["kafka_partition"]
    if topic is None:
        raise RequestError(400, "Kafka topic names must be valid strings and may not be null")
    if number is None:
        raise RequestError(400, "Kafka partitions must be valid numbers and may not be null")
    try:
        return java_text(topic), parse_integer(java_text(number), 32)
    except ValueError:
        raise RequestError(
            400,
            "Failed to parse the following Kafka partition value in the provided offsets: "
            f"'{java_text(number)}'. Partition values for sink connectors need to be integers.",
        ) from None


def _sink_offset(offset: Mapping[str, Any] | None) -> int | None:
    if offset is None:
        return None
    if "kafka_offset" not in offset:
        raise RequestError(
            400,
            "The offset for a sink connector should either be null or contain the key "
            "'kafka_offset'",
        )
    text = java_text(offset["kafka_offset"])
    try:
        return parse_integer(text, 64)
    except ValueError:
        raise RequestError(
            400,
            "Failed to parse the following Kafka offset value in the provided offsets: "
            f"'{text}'. Offset values for sink connectors need to be integers.",
        ) from None


def restart_effects(
    view: View, name: str, *, include_tasks: bool = False, only_failed: bool = False
) -> Sequence[Effect]:
    """Restarts the connector's instance and, if requested, its tasks, or only the failed ones."""
    effects: list[Effect] = []
    status = view.status.connectors.get(name)
    instance = view.instances.get(name)
    failed = status is not None and status.state is State.FAILED
    live = instance is not None and instance.phase is not InstancePhase.STOPPING
    if name in view.failures:
        effects.append(ForgetFailure(name))
    if live and (failed or not only_failed):
        effects.append(StopInstance(name))
        if status is not None:
            effects.append(ConnectorStatusIs(name, replace(status, state=State.RESTARTING)))
    if include_tasks:
        tasks = {*view.status.tasks, *view.assignments.tasks, *view.assignments.ending}
        for task in sorted(candidate for candidate in tasks if candidate.connector == name):
            task_status = view.status.tasks.get(task)
            if not only_failed:
                effects.extend(task_restart_effects(view, task))
            elif task_status is not None and task_status.state is State.FAILED:
                effects.extend(task_restart_effects(view, task, confirmed_gone=False))
    return effects


def task_restart_effects(
    view: View, task: TaskId, *, confirmed_gone: bool = True
) -> Sequence[Effect]:
    """Restarts one task: a running attempt ends first; an ended one is forgotten.

    `confirmed_gone`: the user named the task or connector, and so confirms that an attempt that
    cannot be fenced is gone; a restart of all failed ones confirms nothing.
    """
    run = view.runs.get(task)
    status = view.status.tasks.get(task)
    effects: list[Effect] = []
    if task.connector in view.failures:
        effects.append(ForgetFailure(task.connector))
    if run is not None and run.phase is RunPhase.LAUNCHED:
        effects.append(StopRun(task))
    elif run is not None and run.phase is RunPhase.ENDED:
        effects.append(ForgetRun(task))
    state = view.config.connectors.get(task.connector)
    late = None if state is None or (run and run.active) else may_write(view, state, task)
    if late is not None and not confirmed_gone:
        return ()
    if late is not None:
        gone = Status(State.UNASSIGNED, view.worker_id, view.term, attempt=late)
        effects += [Unassign(task), TaskStatusIs(task, gone)]
    elif run is not None and run.phase in _RESTARTED and status is not None:
        effects.append(TaskStatusIs(task, replace(status, state=State.RESTARTING)))
    return effects


_RESTARTED = (RunPhase.LAUNCHED, RunPhase.ENDED)
