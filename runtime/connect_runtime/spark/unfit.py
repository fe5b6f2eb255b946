"""Says why a node cannot run a task: it has another Python than the driver, or lacks a plugin.

Such a task is tried once on another node. After that only somebody who installs something can help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from connect_runtime.api import ConnectorError
from connect_runtime.config_providers.references import holds_reference
from connect_runtime.plugins import registry
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import TaskLaunch

_WHAT_TO_DO: Final = (
    "Install the same packages on every node, or send them with Spark: `connect package` "
    "(docs/spark-cluster.md)."
)
_CONVERTERS: Final[Mapping[str, Callable[[str, str], object]]] = {
    "key.converter": registry.converter,
    "value.converter": registry.converter,
    "header.converter": registry.header_converter,
}
_CHAINS: Final[Mapping[str, Callable[[str, str], object]]] = {
    "transforms": registry.transformation,
    "predicates": registry.predicate,
}
_NO_PYTHON: Final = re.compile(r'Cannot run program "[^"]*": .*')
_DAEMON_SAID: Final = re.compile(r"Error from python worker:\s*(.*?)\s*PYTHONPATH was:", re.DOTALL)
_CANNOT_IMPORT: Final = ("ModuleNotFoundError", "ImportError", "No module named")
# How the daemon's own refusal begins
WRONG_PYTHON: Final = "This node runs Python"


class Unfit(Exception):
    """A node cannot run a task; the message says why."""


def check_plugins(launch: TaskLaunch) -> None:
    """Raises Unfit if a class that the task needs is not on this node, where the driver has it."""
    allow_modules(launch.worker)
    try:
        if "task.class" in launch.config:
            registry.task(launch.config["task.class"])
        for find, key, name in _named({**launch.worker, **launch.connector_config}):
            if name and not holds_reference(name):
                find(key, name)
    except ConnectorError as error:
        raise Unfit(str(error)) from error


def _named(
    config: Mapping[str, str],
) -> Iterator[tuple[Callable[[str, str], object], str, str]]:
    for key, find in _CONVERTERS.items():
        yield find, key, config.get(key, "").strip()
    for chain, find in _CHAINS.items():
        for alias in config.get(chain, "").split(","):
            key = f"{chain}.{alias.strip()}.type"
            yield find, key, config.get(key, "").strip()


def unfit_python(message: str) -> Unfit | None:
    """Returns what Spark's error for a task says about the node's Python; None if it is another
    error."""
    if found := _NO_PYTHON.search(message):
        return Unfit(found[0])
    said = _DAEMON_SAID.search(message)
    last = said[1].strip().splitlines()[-1].strip() if said and said[1].strip() else ""
    if last.startswith(WRONG_PYTHON) or any(each in last for each in _CANNOT_IMPORT):
        return Unfit(last)
    return None


def unfit_line(task: TaskId, node: str, why: Unfit) -> str:
    """Returns a sentence without a full stop."""
    return f"Task {task} cannot run on node {node}: {why}"


def unfit_trace(task: TaskId, tried: Iterable[tuple[str, Unfit]]) -> str:
    """Returns a task's trace: `tried` are nodes, and why each cannot run it."""
    return "\n".join((*(unfit_line(task, *each) for each in tried), _WHAT_TO_DO))
