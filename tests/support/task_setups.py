"""Launches of tasks as a herder makes them, and their setups."""

from __future__ import annotations

from typing import Any

from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import TaskLaunch
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.names import ClusterTopics


def task_launch(connector: str = "c", /, *, task: int = 0, **fields: Any) -> TaskLaunch:
    """Returns the first attempt at a connector's task. `config`, where only it is among `fields`,
    is the connector's as well."""
    group = fields.setdefault("group_id", "g")
    config = fields.setdefault("config", {})
    defaults = {
        "attempt": 1,
        "generation": 0,
        "leader_term": 1,
        "assignments_offset": 0,
        "topics": ClusterTopics.of(group),
        "worker_id": "host:8083",
        "connector_config": config,
        "worker": {},
        "sink": bool({"topics", "topics.regex"} & fields.get("connector_config", config).keys()),
    }
    return TaskLaunch(TaskId(connector, task), **(defaults | fields))


def task_setup(connector: str = "c", /, **fields: Any) -> TaskSetup:
    """Returns the setup of such a launch."""
    return TaskSetup(task_launch(connector, **fields))
