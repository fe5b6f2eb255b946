"""Converts between Connect's JSON and our values: the server writes it, an HTTP client reads it.

Reading accepts newer servers' additional fields and older ones' missing fields. Field order is
Connect's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.herder.verbs import (
    ConnectorInfo,
    ConnectorStatus,
    InstanceStatus,
    RuntimeInfo,
    TaskInfo,
)
from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.desired import OffsetEntry

Json = dict[str, Any]

# The version of a plugin without one: Connect omits the field then.
UNDEFINED_VERSION = "undefined"


def task_id_json(task: TaskId) -> Json:
    return {"connector": task.connector, "task": task.task}


def task_id_from_json(value: Mapping[str, Any]) -> TaskId:
    return TaskId(value["connector"], value["task"])


def connector_info_json(info: ConnectorInfo) -> Json:
    return {
        "name": info.name,
        "config": config_json(info),
        "tasks": [task_id_json(task) for task in info.tasks],
        "type": info.type,
    }


def config_json(info: ConnectorInfo) -> Json:
    return {**info.config, **dict.fromkeys(info.null_keys)}


def connector_info_from_json(value: Mapping[str, Any]) -> ConnectorInfo:
    return ConnectorInfo(
        name=value["name"],
        config={key: text for key, text in value["config"].items() if text is not None},
        tasks=tuple(map(task_id_from_json, value["tasks"])),
        type=value.get("type") or "unknown",
        null_keys=tuple(key for key, text in value["config"].items() if text is None),
    )


def tasks_json(tasks: Sequence[TaskInfo]) -> list[Json]:
    return [{"id": task_id_json(task.id), "config": dict(task.config)} for task in tasks]


def connector_status_json(status: ConnectorStatus) -> Json:
    return {
        "name": status.name,
        "connector": _instance_json(status.connector),
        "tasks": [
            task_status_json(number, status.tasks[number]) for number in sorted(status.tasks)
        ],
        "type": status.type,
    }


def connector_status_from_json(value: Mapping[str, Any]) -> ConnectorStatus:
    return ConnectorStatus(
        name=value["name"],
        connector=_instance_from_json(value["connector"]),
        tasks={task["id"]: _instance_from_json(task) for task in value["tasks"]},
        type=value.get("type") or "unknown",
    )


def task_status_json(number: int, status: InstanceStatus) -> Json:
    return {"id": number, **_instance_json(status)}


def _instance_json(status: InstanceStatus) -> Json:
    version = {} if status.version == UNDEFINED_VERSION else {"version": status.version}
    trace = {"trace": status.trace} if status.trace else {}
    return {"state": status.state.value, "worker_id": status.worker_id, **version, **trace}


def _instance_from_json(value: Mapping[str, Any]) -> InstanceStatus:
    return InstanceStatus(
        state=State(value["state"]),
        worker_id=value.get("worker_id") or "",
        trace=value.get("trace"),
        version=value.get("version"),
    )


def offsets_json(offsets: Sequence[OffsetEntry]) -> Json:
    return {
        "offsets": [
            {
                "partition": None if entry.partition is None else dict(entry.partition),
                "offset": None if entry.offset is None else dict(entry.offset),
            }
            for entry in offsets
        ]
    }


def offsets_from_json(value: Mapping[str, Any]) -> tuple[OffsetEntry, ...]:
    return tuple(
        OffsetEntry(entry.get("partition"), entry.get("offset")) for entry in value["offsets"]
    )


def runtime_json(runtime: RuntimeInfo) -> Json:
    return {
        "leader": runtime.leader,
        "leading": runtime.leading,
        "term": runtime.term,
        "slots": runtime.slots,
        "running": runtime.running,
        "waiting": [task_id_json(task) for task in runtime.waiting],
        "problem": runtime.problem,
        "paused_tasks_release_slots": runtime.paused_release,
        "not_confirmed": [task_id_json(task) for task in runtime.unconfirmed],
        "not_confirmed_since": runtime.unconfirmed_since,
        "plugin_problems": list(runtime.plugin_problems),
        "own_jvms": [task_id_json(task) for task in runtime.own_jvms],
    }


def runtime_from_json(value: Mapping[str, Any]) -> RuntimeInfo:
    return RuntimeInfo(
        leader=value["leader"],
        leading=value["leading"],
        term=value["term"],
        slots=value["slots"],
        running=value["running"],
        waiting=tuple(map(task_id_from_json, value["waiting"])),
        problem=value.get("problem"),
        paused_release=value.get("paused_tasks_release_slots") is True,
        unconfirmed=tuple(map(task_id_from_json, value.get("not_confirmed", ()))),
        unconfirmed_since=value.get("not_confirmed_since"),
        plugin_problems=tuple(value.get("plugin_problems", ())),
        own_jvms=tuple(map(task_id_from_json, value.get("own_jvms", ()))),
    )
