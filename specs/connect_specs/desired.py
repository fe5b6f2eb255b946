"""Desired: the specs after loading, as plain frozen values, which every later step reads.

`Offset` and `Partition` are JSON objects of primitive values as KIP-875 writes them: for a sink
`{"kafka_topic": str, "kafka_partition": int}` and `{"kafka_offset": int}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NewType, TypeAlias

from connect_specs.diagnostics import Diagnostic, Location, Severity
from connect_specs.names import ClusterTopics

JsonScalar: TypeAlias = str | int | float | bool | None
Partition: TypeAlias = Mapping[str, JsonScalar]
Offset: TypeAlias = Mapping[str, JsonScalar]
# A partition as JSON with sorted keys; see `partition_key`
PartitionKey = NewType("PartitionKey", str)
# A place in every partition of a sink's topics; a number is a timestamp in ms since 1970
Position: TypeAlias = Literal["earliest", "latest"] | int

# Pin ids of renames and rollbacks in ledgers and plan files; specs cannot use them
RENAME_PIN, ROLLBACK_PIN = "renamed_from:", "rollback"
RESERVED_PINS: Final = (RENAME_PIN, ROLLBACK_PIN)
SINK_PARTITION_KEYS: Final = frozenset({"kafka_topic", "kafka_partition"})


class TargetState(StrEnum):
    """The state that a connector should have, unlike its status (KIP-875, KIP-980)."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One partition and the offset to set; `None` resets that partition."""

    partition: Partition
    offset: Offset | None


@dataclass(frozen=True, slots=True)
class Pin:
    """Offsets that a spec sets, once: `reset`, entries in `set`, or for a sink `to`.

    With both `to` and `set`, an earlier plan resolved `to` to these entries.
    """

    id: str
    set: tuple[OffsetEntry, ...] = ()
    reset: bool = False
    where: Location | None = None
    to: Position | None = None


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """One connector as its spec declares it.

    `config` always holds `name`. `state` None: created running, not managed after that. `ignore`
    holds glob patterns such as `config.consumer.override.*`; `sensitive` names further config keys
    whose values are never shown, and `secrets` texts that are never shown: the secrets among the
    values that its file was rendered with. `renamed_from` is the name that it had before: its
    offsets move here, and the connector of that name is deleted. `allow_zero_tasks`: it is
    healthy without tasks.
    """

    name: str
    config: Mapping[str, str]
    where: Location
    state: TargetState | None = None
    pin: Pin | None = None
    prevent_delete: bool = False
    ignore: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    key_locations: Mapping[str, Location] = field(default_factory=dict)
    renamed_from: str | None = None
    renamed_from_where: Location | None = None
    allow_zero_tasks: bool = False


# The effects of changing a config key, from nothing to reading the whole source again
Consequence: TypeAlias = Literal[
    "none", "restart", "new-group", "new-offsets-topic", "redelivery", "reread"
]
ConnectorKind: TypeAlias = Literal["source", "sink"]


@dataclass(frozen=True, slots=True)
class ConsequenceRule:
    """The effect of changing the keys that match `key`, for classes that match, and its text."""

    key: str
    consequence: Consequence
    says: str
    connector_class: str = "*"
    kind: ConnectorKind | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """All connectors of a project, by name, sorted by name.

    `consequences` are the project's own rules; the first that fits a changed key explains it.
    `warnings` of the files are passed on by a plan. `environments` are those that the files can be
    read with. `secrets` are the texts of the project's secret values.
    """

    project: str
    connectors: Mapping[str, DesiredConnector]
    consequences: tuple[ConsequenceRule, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    environments: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class RestTarget:
    """A Connect cluster reached through its REST API: `url` without a trailing slash.

    `user` and `password` are for basic authentication. `ca_file` replaces the system's certificate
    authorities; `cert_file` and `key_file` (PEM) say who we are; `ssl`, of our own runtime, are the
    properties of its https listeners instead. Times are in seconds: `connect_s`
    to be connected, `answer_s` for an answer. None of the secrets is in its repr.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    connect_s: float = 5.0
    answer_s: float = 100.0
    ssl: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DeleteLimits:
    """Limits of a plan's deletes.

    `most` is the highest number of deletes, None for any; `where` its location in connect.yaml.
    Without `allow_empty`, the specs must name at least one connector that the project owns.
    """

    most: int | None = None
    allow_empty: bool = False
    where: Location | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """Checks of plans that the command line overrides.

    `take_over` names connectors whose owner cannot be seen, and which become this project's.
    `change_env`: the project may be applied with another environment than last time. `apply_pin`
    names connectors whose pins may have been applied before a ledger was lost.
    """

    take_over: tuple[str, ...] = ()
    change_env: bool = False
    apply_pin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """connect.yaml: the cluster, and the places of the specs.

    `kafka` holds client properties in Java's names (`bootstrap.servers`, `security.protocol`, ...),
    or None for the embedded broker, which asks for a login with `embedded_authentication`.
    `target` None means our runtime. `worker` holds worker properties for `connect up` in Apache's
    names (`value.converter`, `offset.flush.interval.ms`, `listeners`, ...). `policies` name policy
    files as `specs` name specs. `deletes` says how much a plan may delete, `overrides` which checks
    the command line overrides, and `unknown_keys` how severe a config key is that no plugin
    defines. `env` is the environment whose values the files were read with, `given` what `--var`
    set in them, and `secrets` the texts of those that are never shown. `…_locations` say where
    connect.yaml names an entry. `warnings` are what reading connect.yaml found.
    """

    name: str
    file: Path
    group_id: str
    topics: ClusterTopics
    kafka: Mapping[str, str] | None
    target: RestTarget | None
    worker: Mapping[str, str]
    specs: tuple[str, ...]
    specs_locations: Mapping[str, Location] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    policies_locations: Mapping[str, Location] = field(default_factory=dict)
    kafka_locations: Mapping[str, Location] = field(default_factory=dict)
    worker_locations: Mapping[str, Location] = field(default_factory=dict)
    cluster_locations: Mapping[str, Location] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    env: str | None = None
    given: tuple[str, ...] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    embedded_authentication: bool = False
    deletes: DeleteLimits = DeleteLimits()
    overrides: Overrides = Overrides()
    unknown_keys: Severity = "warning"

    @property
    def uses_runtime(self) -> bool:
        """Returns True if our runtime runs the connectors, not a Connect cluster of Apache's."""
        return self.target is None

    @property
    def rest_only(self) -> bool:
        """Returns True if only the REST API of the Connect cluster is known, not its Kafka."""
        return self.target is not None and not self.kafka

    @property
    def folder(self) -> Path:
        """Returns the folder that holds connect.yaml."""
        return self.file.parent

    @property
    def data(self) -> Path:
        """Returns the folder of the embedded broker's and the runtime's files."""
        return self.folder / ".connect"

    @property
    def plugins(self) -> Path:
        """Returns the folder of the Java plugins that are installed for the project's runtime."""
        return self.data / "plugins"


# --- partitions and pins, compared as JSON, whatever the order of their keys or entries ---


def partition_key(partition: Partition) -> PartitionKey:
    """Returns a key that equal partitions share: JSON with sorted keys.

    `1`, `1.0`, `"1"` and true differ, as they do in Connect's offset keys.
    """
    return PartitionKey(_canonical(dict(partition)))


def is_sink_partition(partition: Partition) -> bool:
    """Returns True for a partition of a topic, as KIP-875 writes a sink's partitions."""
    return partition.keys() >= SINK_PARTITION_KEYS


def sink_entry(at: tuple[str, int], offset: int) -> OffsetEntry:
    """Returns a sink's offset in a partition of a topic, as KIP-875 writes it."""
    return OffsetEntry({"kafka_topic": at[0], "kafka_partition": at[1]}, {"kafka_offset": offset})


def content_hash(pin: Pin) -> str:
    """Returns SHA-256, in hex, over the offsets that the pin sets, without its id and place."""
    if pin.reset:
        return sha256(_canonical({"reset": True}).encode()).hexdigest()
    if pin.to is not None:
        return sha256(_canonical({"to": pin.to}).encode()).hexdigest()
    entries = [
        {"partition": dict(e.partition), "offset": None if e.offset is None else dict(e.offset)}
        for e in sorted(pin.set, key=lambda entry: partition_key(entry.partition))
    ]
    return sha256(_canonical({"set": entries}).encode()).hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
