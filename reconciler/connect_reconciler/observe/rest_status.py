"""What do connectors and tasks do, asked over REST? In the shape in which the topics tell it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from connect_reconciler.cluster.rest_alone import target_of
from connect_reconciler.cluster.rest_client import RestClient
from connect_reconciler.observe.rest import connectors_over_rest
from connect_runtime.herder.values import InstanceStatus
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    Status,
    StatusSnapshot,
    TaskId,
)
from connect_specs.desired import RestTarget
from connect_specs.states import TargetState

_AT_ONCE = 4


def status_over_rest(target: RestTarget) -> tuple[ConfigSnapshot, StatusSnapshot]:
    """All connectors with their statuses. Raises Unreachable, RequestError."""
    with (
        RestClient(target) as client,
        ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="status") as pool,
    ):
        client.about()
        found = connectors_over_rest(client, pool)
    configs = {
        name: ConnectorState(
            name,
            each.info.config,
            target_of(each.status) or TargetState.RUNNING,
            task_configs=tuple({} for _ in each.info.tasks),
            task_count=len(each.info.tasks),
        )
        for name, each in found.items()
    }
    statuses = {name: each.status for name, each in found.items() if each.status is not None}
    return ConfigSnapshot(configs), StatusSnapshot(
        {name: _status(each.connector) for name, each in statuses.items()},
        {
            TaskId(name, number): _status(task)
            for name, each in statuses.items()
            for number, task in each.tasks.items()
        },
    )


def _status(told: InstanceStatus) -> Status:
    return Status(told.state, told.worker_id, 0, told.trace, told.version)
