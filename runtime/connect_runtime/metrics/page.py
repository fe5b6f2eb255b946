"""The page that /metrics serves: the connectors and tasks of this runtime, its tasks' counts, and
its JVM, in Prometheus' text format, version 0.0.4
(https://prometheus.io/docs/instrumenting/exposition_formats/).

As in Connect, a worker reports its own connectors and tasks. Here the leader runs them all, so the
other runtimes of a group report none, and sums over a group's runtimes are right. Names and labels
are those that Strimzi's rules for the JMX exporter give Connect's MBeans (its example
`kafka-connect-metrics.yaml`), which its dashboard for Connect queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias

from connect_runtime.herder.view import View, class_of
from connect_runtime.metrics.jvm_metrics import Sample
from connect_runtime.spark.jvm import JvmFigures
from connect_runtime.storage.snapshots import State, TaskId

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_WORKER: Final = "kafka_connect_worker_"
_REBALANCE: Final = "kafka_connect_worker_rebalance_"
_COORDINATOR: Final = "kafka_connect_coordinator_"
_CONNECTOR: Final = "kafka_connect_connector_"
_UNDEFINED_VERSION: Final = "undefined"
# Connect's order; no task here is ever destroyed, and the dashboard queries it
_COUNTED: Final = ("running", "paused", "failed", "unassigned", "restarting", "destroyed")
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
# One line about each metric whose name does not describe it
_HELP: Final[Mapping[str, str]] = {
    "kafka_connect_worker_connector_count": "Connectors that this runtime runs",
    "kafka_connect_worker_task_count": "Tasks of these connectors",
    "kafka_connect_worker_rebalance_rebalancing": "1 while no leader is known",
    "kafka_connect_worker_rebalance_epoch": "The term of the leader",
    "kafka_connect_worker_rebalance_leader_name": "The URL of the leader",
    "kafka_connect_connector_status": "The status of the connector, as a label",
    "kafka_connect_connector_task_status": "The status of the task, as a label",
    "kafka_connect_connector_task_batch_size_avg": "Records in a batch, on average",
    "kafka_connect_connector_task_batch_size_max": "Records in the largest recent batch",
    "kafka_connect_source_task_source_record_poll_total": "Records that the task returned",
    "kafka_connect_source_task_source_record_poll_rate": "Records a second that the task returned",
    "kafka_connect_source_task_source_record_write_total": (
        "Records written to Kafka, without those that transformations dropped"
    ),
    "kafka_connect_source_task_source_record_write_rate": "Records a second written to Kafka",
    "kafka_connect_source_task_source_record_active_count": "Records sent and not committed yet",
    "kafka_connect_sink_task_sink_record_read_total": "Records read from Kafka",
    "kafka_connect_sink_task_sink_record_read_rate": "Records a second read from Kafka",
    "kafka_connect_sink_task_sink_record_send_total": (
        "Records that the task took, without those that transformations dropped"
    ),
    "kafka_connect_sink_task_sink_record_send_rate": "Records a second that the task took",
    "kafka_connect_sink_task_sink_record_active_count": (
        "Offsets between what the task took and what is committed"
    ),
    "kafka_connect_sink_task_partition_count": "Topic partitions assigned to the task",
    "kafka_connect_task_error_total_record_failures": "Failed attempts at a record",
    "kafka_connect_task_error_total_record_errors": "Records that failed for good",
    "kafka_connect_task_error_total_records_skipped": "Failed records that were tolerated",
    "kafka_connect_task_error_total_retries": "Polls, puts and records that were tried again",
    "kafka_connect_task_error_last_error_timestamp": (
        "When a record, a poll or a put failed last, Unix ms; 0: never"
    ),
    "kafka_consumer_fetch_manager_records_lag": (
        "Records between what the task has read and the end of the partition"
    ),
    "kafka_consumer_incoming_byte_total": "Bytes that the consumer of a task received",
    "kafka_producer_outgoing_byte_total": "Bytes that the producer of a task sent",
    "kafka_consumer_connection_count": "Connections of the consumer of a task",
    "kafka_producer_connection_count": "Connections of the producer of a task",
    "jvm_memory_used_bytes": "Memory used in the JVM of Spark's driver",
    "jvm_threads_current": "Threads of the JVM of Spark's driver",
}

# The tasks of each connector, with their states
_Tasks: TypeAlias = Mapping[str, Sequence[tuple[TaskId, str]]]


@dataclass(frozen=True, slots=True)
class Observed:
    """One moment of a runtime. `leader` is the leader's URL, None while it is not known; `readings`
    the latest counts of each task (`TaskMetrics.reading`); `samples` come from Java connectors."""

    view: View
    leading: bool
    leader: str | None
    readings: Mapping[TaskId, Mapping[str, Any]] = field(default_factory=dict)
    jvm: JvmFigures | None = None
    samples: Sequence[Sample] = ()


def page(observed: Observed) -> str:
    """Returns the page in Prometheus' text format."""
    families = _Families()
    tasks = _tasks(observed)
    _add_worker(families, observed, tasks)
    if observed.leading:
        _add_connectors(families, observed.view, tasks)
        _add_tasks(families, observed, tasks)
    _add_samples(families, observed.samples)
    if observed.jvm is not None:
        _add_jvm(families, observed.jvm)
    return families.text()


class _Families:
    """Collects samples by metric name, in the order of their first sample. Of samples with the same
    labels, such as those of clients with the same `client.id`, only the first is on the page, as of
    MBeans with the same name: Prometheus reports duplicates as an error of the page."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[str, Sequence[str]]] = {}
        self._summaries: set[str] = set()

    def add(self, name: str, value: float, labels: str = "") -> None:
        """Adds a counter, if the name ends in `_total`, or a gauge. `labels` are those of
        `_labels`."""
        self._samples.setdefault(name, {}).setdefault(labels, (f"{name}{labels} {value}",))

    def add_summary(self, name: str, count: int, total: float, labels: str) -> None:
        """Adds a summary without quantiles: a number of events, and their sum."""
        self._summaries.add(name)
        lines = (f"{name}_count{labels} {count}", f"{name}_sum{labels} {total}")
        self._samples.setdefault(name, {}).setdefault(labels, lines)

    def text(self) -> str:
        lines: list[str] = []
        for name, samples in self._samples.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            kind = "summary" if name in self._summaries else kind
            lines += [
                f"# HELP {name} {_HELP.get(name, name.replace('_', ' '))}",
                f"# TYPE {name} {kind}",
                *chain.from_iterable(samples.values()),
            ]
        return "".join(f"{line}\n" for line in lines)


def _labels(*labels: tuple[str, object]) -> str:
    """Returns labels as the text format has them."""
    inner = ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels)
    return f"{{{inner}}}"


def _tasks(observed: Observed) -> _Tasks:
    """Returns the tasks of each connector; none if another runtime leads."""
    if not observed.leading:
        return {}
    statuses = observed.view.status.tasks

    def state_of(task: TaskId) -> str:
        status = statuses.get(task)
        return (State.UNASSIGNED if status is None else status.state).value.lower()

    def tasks_of(name: str, count: int) -> Iterable[tuple[TaskId, str]]:
        tasks = (TaskId(name, number) for number in range(count))
        return ((task, state_of(task)) for task in tasks)

    return {
        name: [*tasks_of(name, len(state.task_configs))]
        for name, state in observed.view.config.connectors.items()
    }


def _add_worker(families: _Families, observed: Observed, tasks: _Tasks) -> None:
    number = sum(map(len, tasks.values()))
    families.add(f"{_WORKER}connector_count", len(tasks))
    families.add(f"{_WORKER}task_count", number)
    families.add(f"{_COORDINATOR}assigned_connectors", len(tasks))
    families.add(f"{_COORDINATOR}assigned_tasks", number)
    families.add(f"{_REBALANCE}rebalancing", int(observed.leader is None))
    families.add(f"{_REBALANCE}epoch", observed.view.term)
    if observed.leader is not None:
        families.add(f"{_REBALANCE}leader_name", 1, _labels(("leader_name", observed.leader)))


def _add_connectors(families: _Families, view: View, tasks: _Tasks) -> None:
    for name, state in view.config.connectors.items():
        connector = ("connector", name)
        labels = _labels(connector)
        counts = Counter(task_state for _, task_state in tasks[name])
        families.add(f"{_WORKER}connector_total_task_count", len(tasks[name]), labels)
        for counted in _COUNTED:
            families.add(f"{_WORKER}connector_{counted}_task_count", counts[counted], labels)
        status, instance = view.status.connectors.get(name), view.instances.get(name)
        version = (status and status.version) or (instance and instance.version)
        kind = instance.kind if instance else view.kinds.get(class_of(state))
        for attribute, value in (
            ("status", (status.state if status else State.UNASSIGNED).value.lower()),
            ("connector_class", class_of(state)),
            ("connector_type", kind or "unknown"),
            ("connector_version", version or _UNDEFINED_VERSION),
        ):
            families.add(f"{_CONNECTOR}{attribute}", 1, _labels(connector, (attribute, value)))


def _add_tasks(families: _Families, observed: Observed, tasks: _Tasks) -> None:
    for task, state in chain.from_iterable(tasks.values()):
        identity = (("connector", task.connector), ("task", str(task.task)))
        families.add(f"{_CONNECTOR}task_status", 1, _labels(*identity, ("status", state)))
        reading = observed.readings.get(task)
        if reading is not None:
            labels = _labels(*identity)
            for name, value in reading["metrics"].items():
                families.add(name, value, labels)
            for client in reading["clients"]:
                _add_client(families, client)
            _add_samples(families, reading.get("samples", ()))


def _add_samples(families: _Families, samples: Iterable[Sample]) -> None:
    for name, labels, value in samples:
        families.add(name, value, _labels(*labels.items()) if labels else "")


def _add_client(families: _Families, client: Mapping[str, Any]) -> None:
    kind, identity = client["kind"], ("clientid", client["client_id"])
    labels = _labels(identity)
    families.add(f"kafka_{kind}_connection_count", client["connections"], labels)
    direction = "outgoing" if kind == "producer" else "incoming"
    families.add(f"kafka_{kind}_{direction}_byte_total", client["bytes"], labels)
    for topic, partition, lag in client["lags"]:
        of_partition = _labels(identity, ("topic", topic), ("partition", partition))
        families.add("kafka_consumer_fetch_manager_records_lag", lag, of_partition)


def _add_jvm(families: _Families, jvm: JvmFigures) -> None:
    for area, used in jvm.memory.items():
        families.add("jvm_memory_used_bytes", used, _labels(("area", area)))
    families.add("jvm_threads_current", jvm.threads)
    for name, (count, seconds) in jvm.collections.items():
        families.add_summary("jvm_gc_collection_seconds", count, seconds, _labels(("gc", name)))
