"""The page that /metrics serves: what this runtime runs, its tasks' counts, and its JVM.

As in Connect, a worker tells of its own connectors and tasks. Here the leader runs them all, so the
other runtimes of a group tell of none, and sums over a group's runtimes are right. Names and labels
are those that Strimzi's rules for the JMX exporter give Connect's MBeans (its example
`kafka-connect-metrics.yaml`), which its dashboard for Connect queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connect_runtime.herder.view import View, class_of
from connect_runtime.metrics.exposition import Families, labels_text
from connect_runtime.metrics.help import HELP
from connect_runtime.spark.jvm import JvmFigures
from connect_runtime.storage.snapshots import State, TaskId

_WORKER: Final = "kafka_connect_worker_"
_REBALANCE: Final = "kafka_connect_worker_rebalance_"
_COORDINATOR: Final = "kafka_connect_coordinator_"
_CONNECTOR: Final = "kafka_connect_connector_"
_UNDEFINED_VERSION: Final = "undefined"
# Connect's order; no task here is ever destroyed, and the dashboard queries it
_COUNTED: Final = ("running", "paused", "failed", "unassigned", "restarting", "destroyed")


@dataclass(frozen=True, slots=True)
class Observed:
    """One moment of a runtime. `leader` is the leader's URL, None while it is not known; `readings`
    what each task counted last (`TaskMetrics.reading`)."""

    view: View
    leading: bool
    leader: str | None
    readings: Mapping[TaskId, Mapping[str, Any]] = field(default_factory=dict)
    jvm: JvmFigures | None = None


def page(seen: Observed) -> str:
    """Returns the page in Prometheus' text format."""
    families = Families()
    tasks = _tasks(seen)
    _add_worker(families, seen, tasks)
    if seen.leading:
        _add_connectors(families, seen.view, tasks)
        _add_tasks(families, seen, tasks)
    if seen.jvm is not None:
        _add_jvm(families, seen.jvm)
    return families.text(HELP)


def _tasks(seen: Observed) -> Mapping[str, list[tuple[TaskId, str]]]:
    """Returns the tasks of each connector with their states; none if another runtime leads."""
    if not seen.leading:
        return {}
    statuses = seen.view.status.tasks

    def state_of(task: TaskId) -> str:
        found = statuses.get(task)
        return (State.UNASSIGNED if found is None else found.state).value.lower()

    return {
        name: [
            (task, state_of(task))
            for task in (TaskId(name, number) for number in range(len(state.task_configs)))
        ]
        for name, state in seen.view.config.connectors.items()
    }


def _add_worker(
    families: Families, seen: Observed, tasks: Mapping[str, list[tuple[TaskId, str]]]
) -> None:
    number = sum(map(len, tasks.values()))
    families.add(f"{_WORKER}connector_count", len(tasks))
    families.add(f"{_WORKER}task_count", number)
    families.add(f"{_COORDINATOR}assigned_connectors", len(tasks))
    families.add(f"{_COORDINATOR}assigned_tasks", number)
    families.add(f"{_REBALANCE}rebalancing", int(seen.leader is None))
    families.add(f"{_REBALANCE}epoch", seen.view.term)
    if seen.leader is not None:
        families.add(f"{_REBALANCE}leader_name", 1, labels_text([("leader_name", seen.leader)]))


def _add_connectors(
    families: Families, view: View, tasks: Mapping[str, list[tuple[TaskId, str]]]
) -> None:
    for name, state in view.config.connectors.items():
        ours = labels_text([("connector", name)])
        found = Counter(state for _, state in tasks[name])
        families.add(f"{_WORKER}connector_total_task_count", len(tasks[name]), ours)
        for each in _COUNTED:
            families.add(f"{_WORKER}connector_{each}_task_count", found[each], ours)
        status, instance = view.status.connectors.get(name), view.instances.get(name)
        version = (status and status.version) or (instance and instance.version)
        kind = instance.kind if instance else view.kinds.get(class_of(state))
        for attribute, value in (
            ("status", (status.state if status else State.UNASSIGNED).value.lower()),
            ("connector_class", class_of(state)),
            ("connector_type", kind or "unknown"),
            ("connector_version", version or _UNDEFINED_VERSION),
        ):
            labels = labels_text([("connector", name), (attribute, value)])
            families.add(f"{_CONNECTOR}{attribute}", 1, labels)


def _add_tasks(
    families: Families, seen: Observed, tasks: Mapping[str, list[tuple[TaskId, str]]]
) -> None:
    for ours in tasks.values():
        for task, state in ours:
            labels = [("connector", task.connector), ("task", str(task.task))]
            families.add(f"{_CONNECTOR}task_status", 1, labels_text([*labels, ("status", state)]))
            reading = seen.readings.get(task)
            if reading is not None:
                text = labels_text(labels)
                for name, value in reading["metrics"].items():
                    families.add(name, value, text)
                for client in reading["clients"]:
                    _add_client(families, client)


def _add_client(families: Families, client: Mapping[str, Any]) -> None:
    kind, of = client["kind"], ("clientid", client["client_id"])
    labels = labels_text([of])
    families.add(f"kafka_{kind}_connection_count", client["connections"], labels)
    direction = "outgoing" if kind == "producer" else "incoming"
    families.add(f"kafka_{kind}_{direction}_byte_total", client["bytes"], labels)
    for topic, partition, lag in client["lags"]:
        at = labels_text([of, ("topic", topic), ("partition", partition)])
        families.add("kafka_consumer_fetch_manager_records_lag", lag, at)


def _add_jvm(families: Families, jvm: JvmFigures) -> None:
    for area, used in jvm.memory.items():
        families.add("jvm_memory_used_bytes", used, labels_text([("area", area)]))
    families.add("jvm_threads_current", jvm.threads)
    for name, (count, seconds) in jvm.collections.items():
        labels = labels_text([("gc", name)])
        families.add_summary("jvm_gc_collection_seconds", count, seconds, labels)
