"""Desired: the specs after loading, as plain frozen values. What every later step reads.

`Offset` and `Partition` are JSON objects of primitive values as KIP-875 writes them: for a sink
`{"kafka_topic": str, "kafka_partition": int}` and `{"kafka_offset": int}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from connect_specs.diagnostics import Diagnostic, Location, Severity
from connect_specs.names import ClusterTopics
from connect_specs.states import TargetState

JsonScalar: TypeAlias = str | int | float | bool | None
Partition: TypeAlias = Mapping[str, JsonScalar]
Offset: TypeAlias = Mapping[str, JsonScalar]
# A place in every partition of a sink's topics; a number is a timestamp in ms since 1970
Position: TypeAlias = Literal["earliest", "latest"] | int


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


# What changing a config key can do, from nothing to reading the whole source again
Consequence: TypeAlias = Literal[
    "none", "restart", "new-group", "new-offsets-topic", "redelivery", "reread"
]
ConnectorKind: TypeAlias = Literal["source", "sink"]


@dataclass(frozen=True, slots=True)
class ConsequenceRule:
    """What changing the keys that match `key` does, for classes that match, in words."""

    key: str
    consequence: Consequence
    says: str
    connector_class: str = "*"
    kind: ConnectorKind | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """All connectors of a project, by name, sorted by name.

    `consequences` are the project's own rules; the first that fits a changed key explains it.
    `warnings` are what reading the files found; a plan passes them on. `environments` are those
    that the files can be read with. `secrets` are the texts of the project's secret values.
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
    """How much a plan may delete.

    `most` is the highest number of deletes, None for any; `where` says where connect.yaml gives it.
    Without `allow_empty`, the specs must name at least one connector that the project owns.
    """

    most: int | None = None
    allow_empty: bool = False
    where: Location | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line allows in spite of a check of plans.

    `take_over` names connectors whose owner cannot be seen, and which become this project's.
    `change_env`: the project may be applied with another environment than last time. `apply_pin`
    names connectors whose pins may have been applied before a ledger was lost.
    """

    take_over: tuple[str, ...] = ()
    change_env: bool = False
    apply_pin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """connect.yaml: which cluster, and where the specs are.

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
        """Whether our runtime runs the connectors, and not a Connect cluster of Apache's."""
        return self.target is None

    @property
    def rest_only(self) -> bool:
        """Whether only the REST API of the Connect cluster is known, and not its Kafka."""
        return self.target is not None and not self.kafka

    @property
    def folder(self) -> Path:
        """The folder that holds connect.yaml."""
        return self.file.parent

    @property
    def data(self) -> Path:
        """Where the embedded broker and the runtime of this project keep everything."""
        return self.folder / ".connect"
