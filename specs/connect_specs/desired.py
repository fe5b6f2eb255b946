"""Desired: the specs after loading, as plain frozen values. What every later step reads.

`Offset` and `Partition` are JSON objects of primitive values as KIP-875 writes them: for a sink
`{"kafka_topic": str, "kafka_partition": int}` and `{"kafka_offset": int}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from connect_specs.diagnostics import Location
from connect_specs.names import ClusterTopics
from connect_specs.states import TargetState

JsonScalar: TypeAlias = str | int | float | bool | None
Partition: TypeAlias = Mapping[str, JsonScalar]
Offset: TypeAlias = Mapping[str, JsonScalar]


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One partition and the offset it is to have; `None` resets that partition."""

    partition: Partition
    offset: Offset | None


@dataclass(frozen=True, slots=True)
class Pin:
    """Offsets that a spec asks for, once. Either `reset`, or entries in `set`."""

    id: str
    set: tuple[OffsetEntry, ...] = ()
    reset: bool = False
    where: Location | None = None


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """One connector as its spec wants it.

    `config` always holds `name`. `state` None: created running, not managed after that. `ignore`
    holds glob patterns such as `config.consumer.override.*`; `sensitive` names further config keys
    whose values are never shown.
    """

    name: str
    config: Mapping[str, str]
    where: Location
    state: TargetState | None = None
    pin: Pin | None = None
    prevent_delete: bool = False
    ignore: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    key_locations: Mapping[str, Location] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Desired:
    """All connectors of a project, by name, sorted by name."""

    project: str
    connectors: Mapping[str, DesiredConnector]


@dataclass(frozen=True, slots=True)
class RestTarget:
    """A Connect cluster reached through its REST API: `url` without a trailing slash."""

    url: str


@dataclass(frozen=True, slots=True)
class Project:
    """connect.yaml: which cluster, and where the specs are.

    `kafka` holds client properties in Java's names (`bootstrap.servers`, `security.protocol`, ...),
    or None for the embedded broker. `target` None means our runtime. `worker` holds worker
    properties for `connect up` in Apache's names (`value.converter`, `offset.flush.interval.ms`,
    `listeners`, ...). `specs_locations` says where connect.yaml names an entry of `specs`.
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

    @property
    def folder(self) -> Path:
        """The folder that holds connect.yaml."""
        return self.file.parent

    @property
    def data(self) -> Path:
        """Where the embedded broker and the runtime of this project keep everything."""
        return self.folder / ".connect"
