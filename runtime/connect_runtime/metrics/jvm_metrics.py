"""Gives what the JVM of a Java task counts the names that metrics have on the page.

Connect's own numbers and those of its Kafka clients are named as those of a Python task. Those of
plugins' MBeans are named as by Prometheus' JMX exporter: domain, type and attribute, with the other
key properties as labels; Debezium's as in its example for that exporter; those of KIP-877 by their
MBean `kafka.connect:type=plugins`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from connect_runtime.api import ConnectorError
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.waiting import TakesTooLong

# Name, labels, value
Sample: TypeAlias = tuple[str, Mapping[str, str], float]
_Row: TypeAlias = Mapping[str, Any]

_GROUPS: Final = {
    "connector-task-metrics": "kafka_connect_connector_task_",
    "source-task-metrics": "kafka_connect_source_task_",
    "sink-task-metrics": "kafka_connect_sink_task_",
    "task-error-metrics": "kafka_connect_task_error_",
}
_PLUGINS: Final = "plugins"
_DEBEZIUM: Final = "debezium."
# Key properties by the labels of Debezium's example
_DEBEZIUM_LABELS: Final = {"server": "name", "key": "table"}
_OMITTED: Final = "kafka_connect_plugin_values_omitted"
# A JVM that starts, or is frozen, holds a page up no longer
_CALL_S: Final = 1.0
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_]")
# Labels that begin so are Prometheus' own
_RESERVED: Final = re.compile("^__+")


def task_reading(task: TaskId, rows: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the reading of a task (`TaskMetrics.reading`) from the answer of its JVM."""
    metrics = {
        f"{_GROUPS[row['group']]}{row['name'].replace('-', '_')}": row["value"]
        for row in rows["connect"]
        if row["group"] in _GROUPS
    }
    identity = {"connector": task.connector, "task": str(task.task)}
    samples = plugin_samples(rows["plugins"], identity)
    return {"metrics": metrics, "clients": _clients(rows["clients"]), "samples": samples}


def plugin_samples(rows: Mapping[str, Any], identity: Mapping[str, str]) -> list[Sample]:
    """Returns the numbers of plugins, with the labels `identity`."""
    samples = [_sample(row, identity) for row in rows["measurements"]]
    if rows["left"]:
        samples.append((_OMITTED, identity, rows["left"]))
    return samples


def samples_of(jvms: Iterable[PluginJvm]) -> list[Sample]:
    """Returns the numbers of plugins in JVMs that run no task, such as those of connectors, whose
    tags name the connector (KIP-877). One that does not answer has none."""
    samples: list[Sample] = []
    for jvm in jvms:
        with suppress(ConnectorError, TakesTooLong):
            samples += plugin_samples(jvm.call("metrics", _CALL_S)["plugins"], {})
    return samples


def _sample(row: _Row, identity: Mapping[str, str]) -> Sample:
    domain, attribute, tags = row["group"], row["name"], dict(row["tags"])
    if domain == _PLUGINS:
        return _legal(f"kafka_connect_plugins_{attribute}"), _labels(tags, identity), row["value"]
    kind = tags.pop("type", "")
    if domain.startswith(_DEBEZIUM):
        labels = {"plugin": domain.removeprefix(_DEBEZIUM)}
        labels |= {_DEBEZIUM_LABELS.get(tag, tag): value for tag, value in tags.items()}
        return _legal(f"debezium_metrics_{attribute}"), _labels(labels, identity), row["value"]
    words = filter(None, (domain, kind, attribute))
    return _legal("_".join(words).lower()), _labels(tags, identity), row["value"]


def _labels(tags: Mapping[str, str], identity: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the labels of tags beside those of the identity, which win; Prometheus calls a tag
    that one of these hides `exported_…`."""
    labels = dict(identity)
    for tag, value in tags.items():
        name = _RESERVED.sub("_", _legal(tag)) or "_"
        if identity.get(name, value) != value:
            name = f"exported_{name}"
        labels.setdefault(name, value)
    return labels


def _legal(name: str) -> str:
    legal = _ILLEGAL.sub("_", name)
    return f"_{legal}" if legal[:1].isdigit() else legal


def _clients(rows: Iterable[_Row]) -> list[Mapping[str, Any]]:
    """Returns Kafka clients in the form of `client_reading`."""
    clients: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["group"].removeprefix("kafka."), row["tags"].get("client-id", "")
        client = clients.setdefault(
            key,
            {"kind": key[0], "client_id": key[1], "connections": 0, "bytes": 0, "lags": []},
        )
        match row["name"]:
            case "connection-count":
                client["connections"] = row["value"]
            case "records-lag":
                tags = row["tags"]
                client["lags"].append((tags["topic"], int(tags["partition"]), row["value"]))
            case "outgoing-byte-total" if key[0] == "producer":
                client["bytes"] = row["value"]
            case "incoming-byte-total" if key[0] == "consumer":
                client["bytes"] = row["value"]
            case _:
                pass
    for client in clients.values():
        client["lags"] = list(_without_deprecated(client["lags"]))
    return list(clients.values())


def _without_deprecated(lags: list[tuple[str, int, float]]) -> Iterator[tuple[str, int, float]]:
    """Yields lags without those of deprecated names: Kafka's consumer counts a topic with a dot
    also under the name that has underscores instead (KIP-1109)."""
    deprecated = {(t.replace(".", "_"), partition) for t, partition, _ in lags if "." in t}
    return (lag for lag in lags if lag[:2] not in deprecated)
