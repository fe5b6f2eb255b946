"""Finds why a node cannot run a task, and why an attempt was lost.

A node that has another Python than the driver, or lacks a plugin, is left for another one, once.
After that the task fails until the packages are installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

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
_NO_PYTHON: Final = re.compile(r'Cannot run program "[^"]*": .*')
_DAEMON_SAID: Final = re.compile(r"Error from python worker:\s*(.*?)\s*PYTHONPATH was:", re.DOTALL)
_CANNOT_IMPORT: Final = ("ModuleNotFoundError", "ImportError", "No module named")
# The daemon's own refusal begins so
WRONG_PYTHON: Final = "This node runs Python"


class NodeMissingPlugin(Exception):
    """A node cannot run a task; the message says why."""


def check_plugins(launch: TaskLaunch) -> None:
    """Raises NodeMissingPlugin if a class that the task needs is not on this node, where the driver
    has it."""
    allow_modules(launch.worker)
    try:
        if "task.class" in launch.config:
            registry.task(launch.config["task.class"])
        config = {**launch.worker, **launch.connector_config}
        for kind, key in registry.class_keys(config):
            name = config.get(key, "").strip()
            if name and not holds_reference(name):
                registry.plugin(kind, key, name)
    except ConnectorError as error:
        raise NodeMissingPlugin(str(error)) from error


def wrong_python(message: str) -> NodeMissingPlugin | None:
    """Returns what Spark's error for a task says about the node's Python; None if it is another
    error."""
    if match := _NO_PYTHON.search(message):
        return NodeMissingPlugin(match[0])
    output = _DAEMON_SAID.search(message)
    last = output[1].strip().splitlines()[-1].strip() if output and output[1].strip() else ""
    if last.startswith(WRONG_PYTHON) or any(text in last for text in _CANNOT_IMPORT):
        return NodeMissingPlugin(last)
    return None


def node_failure_line(task: TaskId, node: str, reason: NodeMissingPlugin) -> str:
    """Returns a sentence without a full stop."""
    return f"Task {task} cannot run on node {node}: {reason}"


def node_failures_trace(task: TaskId, tried: Iterable[tuple[str, NodeMissingPlugin]]) -> str:
    """Returns a task's trace: `tried` are nodes, and why each cannot run it."""
    return "\n".join((*(node_failure_line(task, *failure) for failure in tried), _WHAT_TO_DO))


def failure_cause(error: Exception) -> str:
    """Returns the cause of Spark's stage failure in a line or two."""
    thrown: Any = getattr(error, "java_exception", None)
    if thrown is None:
        return f"{type(error).__name__}: {error}"
    try:
        message = (thrown.getCause() or thrown).getMessage()
    except Exception:
        return str(error)
    return str(message).split("Consider setting")[0].split("\nDriver stacktrace")[0].strip()
