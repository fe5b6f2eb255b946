"""Resolves the references of a launch, in the process that runs the task and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from connect_runtime.api import ConfigError
from connect_runtime.config_providers.declared import PROVIDERS
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.config_providers.resolved import Resolved
from connect_runtime.tasks.launch import TaskLaunch

# Worker properties that no task reads: their files may exist only where the runtime runs
_OF_THE_RUNTIME: Final = ("admin.listeners", "listeners", "rest.", "spark.", f"{PROVIDERS}.")


def resolve_launch(launch: TaskLaunch) -> TaskLaunch:
    """Returns the launch with its references resolved, for this process alone; `given` holds them.

    Raises ConfigError for a reference that cannot be resolved here.
    """
    providers = ConfigProviders(launch.worker)
    try:
        worker = providers.worker
        _check(worker)
        connector = providers.resolve(launch.connector_config)
        task = providers.resolve(launch.config)
    finally:
        providers.close()
    given = {*worker.given.values(), *connector.given.values(), *task.given.values()}
    return replace(
        launch,
        config=task.config,
        connector_config=connector.config,
        worker=worker.config,
        given=frozenset(given),
    )


def _check(worker: Resolved) -> None:
    problems = [each for each in worker.problems if not each.key.startswith(_OF_THE_RUNTIME)]
    if problems:
        raise ConfigError(" ".join(each.text for each in problems))
