"""Live: everything about the cluster that planning uses, observed once, as one frozen value; and
what each version of Connect can do.

From here to the plan everything is pure: even `now_ms` is part of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.offsets import Offsets, TopicPartition
from connect_runtime import KAFKA_VERSION
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Diagnostic
from connect_specs.plugin_definitions import CLASS_KEY

Kind: TypeAlias = Literal["source", "sink", "unknown"]


@dataclass(frozen=True, slots=True)
class LiveConnector:
    """One connector as the cluster holds it now.

    `config` as stored, references unresolved. `target` is the target state, never a passing status.
    `state` and `task_states` are the statuses, for display and waiting only. `failure` is why the
    connector or one of its tasks failed, and `error` what one that runs reports, such as a poll
    that it repeats; both on one line and redacted. `offsets` as KIP-875
    shows them; those that a deleted connector left behind are in `Live.orphan_offsets`.
    """

    name: str
    kind: Kind
    config: Mapping[str, str]
    target: TargetState
    offsets: Offsets = field(default_factory=Offsets)
    state: str | None = None
    task_states: tuple[str, ...] = ()
    failure: str = ""
    error: str = ""

    @property
    def failed(self) -> bool:
        """Returns whether it is to run, and it or one of its tasks has failed."""
        runs = self.target is TargetState.RUNNING
        return runs and "FAILED" in (self.state, *self.task_states)


class RecordAt(NamedTuple):
    """A record's place in a topic; at the log's end, the place of the next record."""

    topic: str
    partition: int
    offset: int


class TimeAt(NamedTuple):
    """A time, in ms since 1970, in a partition of a topic."""

    topic: str
    partition: int
    time_ms: int


class GroupMember(NamedTuple):
    """A consumer, as it says itself who it is, and from which address."""

    client_id: str
    host: str

    def __str__(self) -> str:
        return f"{self.client_id} at {self.host.lstrip('/')}"


@dataclass(frozen=True, slots=True)
class LogRange:
    """A partition's log: `earliest` is the first offset still there, `latest` the next to come."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class TopicLogs:
    """The logs on one Kafka cluster.

    `ranges` covers every topic partition that a sink or a pin names. `topics` holds how many
    partitions the topics have that a new, changed or pinned sink reads, without those that do not
    exist. `timestamps` are those of records, to tell durations; at the log's end that of the newest
    record. `first_since` holds the offset of the first record from a time on, or the log's end.
    Unless `complete`, there may be logs that are not in it.
    """

    ranges: Mapping[TopicPartition, LogRange] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    timestamps: Mapping[RecordAt, int] = field(default_factory=dict)
    first_since: Mapping[TimeAt, int] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Live:
    """All that was observed.

    `orphan_offsets` are those of deleted connectors. `offsets_after_change` has connectors whose
    config is to change so that they look for offsets in another place: those that are there.
    `unread_offsets` says, by connector, why its offsets could not be read: `offsets` is then empty.

    `keys_since` says by connector and config key, and `targets_since` by connector, since when (in
    ms) what differs from what was applied last is as it is; nothing over REST alone.

    `logs` are those on the worker's Kafka cluster; `logs_elsewhere`, by connector, those that sinks
    read on other clusters. `logs_of` picks the right ones.

    `kinds` by class as the spec writes it, for connectors that are to be created or change class;
    `classes` are the full names of classes, by those that configs have.
    `password_keys` by connector: config keys that hold secrets, most by their type. Among them are
    `untyped_keys`: those whose types could not be asked for, each with the request that failed, so
    that their values are hidden. `errors` and
    `warnings` are what observing found, such as the cluster's validation answers; the plan passes
    them on. `rest_alone`: no Kafka could be asked, so that logs and what deleted connectors left
    are not known, and the ledger lies in the configs. `version` is Connect's, where a REST API told
    it. `ours`: our runtime runs the connectors, or will. `strangers`, by sink, are members of its
    consumer group that are no tasks of this cluster. `ledger_policy` is the cleanup policy of the
    ledger's topic, where it is there and tells. `unknown_keys` by connector: keys of configs that
    are to be written, and that no plugin defines.
    """

    connectors: Mapping[str, LiveConnector] = field(default_factory=dict)
    ledger: LedgerState = field(default_factory=LedgerState)
    logs: TopicLogs = field(default_factory=TopicLogs)
    orphan_offsets: Mapping[str, Offsets] = field(default_factory=dict)
    offsets_after_change: Mapping[str, Offsets] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    password_keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    untyped_keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    now_ms: int = 0
    cluster_id: str = ""
    rest_alone: bool = False
    version: str = ""
    ours: bool = False
    logs_elsewhere: Mapping[str, TopicLogs] = field(default_factory=dict)
    unread_offsets: Mapping[str, str] = field(default_factory=dict)
    keys_since: Mapping[tuple[str, str], int] = field(default_factory=dict)
    targets_since: Mapping[str, int] = field(default_factory=dict)
    unknown_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strangers: Mapping[str, tuple[GroupMember, ...]] = field(default_factory=dict)
    ledger_policy: str = ""

    @property
    def key_comes(self) -> bool:
        """Returns whether the next apply, the first on this cluster, makes the project's key."""
        empty = not self.ledger.connectors and not self.ledger.pins
        return empty and self.ledger.fingerprint_key is None and not self.rest_alone

    def offsets_of(self, name: str) -> Offsets:
        """Returns the offsets of a connector, also those that a deleted one left behind."""
        connector = self.connectors.get(name)
        return connector.offsets if connector else self.orphan_offsets.get(name, Offsets())

    def logs_of(self, name: str) -> TopicLogs:
        """Returns the logs on the Kafka cluster that one connector works on."""
        if name in self.unread_offsets:
            return TopicLogs(complete=False)
        logs = self.logs_elsewhere.get(name, self.logs)
        return replace(logs, complete=False) if self.rest_alone else logs


def strangers(members: Iterable[GroupMember], tasks: Mapping[str, int]) -> tuple[GroupMember, ...]:
    """Returns the members of a sink's group that are no tasks of this cluster: Kafka gives them a
    part of the sink's records, and moves no offsets while they are there. `tasks` are the numbers
    of tasks of the sinks that read with the group, by name.

    A client id can be configured, and then is the same for all tasks: if no member has the one
    that a task has by default, as many members are taken for tasks as there are.
    """
    ids = [f"connector-consumer-{name}-{n}" for name, count in tasks.items() for n in range(count)]
    missing, unmatched = list(ids), []
    for member in sorted(members):
        if member.client_id in missing:
            missing.remove(member.client_id)
        else:
            unmatched.append(member)
    return tuple(unmatched[len(ids) :] if missing == ids else unmatched)


def kind_of(
    config: Mapping[str, str], live: LiveConnector | None, kinds: Mapping[str, Kind]
) -> Kind:
    """Returns the connector's kind under `config`; `kinds` are those of the cluster, by class."""
    name = config.get(CLASS_KEY, "")
    if live is not None and live.kind != "unknown" and live.config.get(CLASS_KEY) == name:
        return live.kind
    kind: Kind = kinds.get(name, "unknown")
    if kind != "unknown":
        return kind
    simple = name.rpartition(".")[2].lower()
    if ("sink" in simple) is not ("source" in simple):
        return "sink" if "sink" in simple else "source"
    # Sources may have `topics` too, but only sinks may have a pattern
    return "sink" if "topics.regex" in config else "unknown"


# --- what a version of Connect can do; one that cannot be read is taken for a new one ---

Version: TypeAlias = tuple[int, int]

_NUMBERS = re.compile(r"\s*(\d+)\.(\d+)")
# Confluent's 7.6.1-ccs is Apache's 3.6.1
_CONFLUENT = re.compile(r"-(ccs|ce|cp)\d*", re.IGNORECASE)
_CONFLUENT_AHEAD = 4


class Feature(Enum):
    """A feature, with the version that brought it. `TASKS_FOLLOW`: each new config makes task
    configs be written again, also equal ones (KAFKA-9228); before, those tasks went on."""

    ALTER_OFFSETS = (3, 6)
    INITIAL_STATE = (3, 7)
    PATCH_CONFIG = (3, 8)
    TASKS_FOLLOW = (3, 9)


# The oldest version that is supported
OLDEST: Version = Feature.ALTER_OFFSETS.value


def parse(version: str) -> Version | None:
    """Returns Apache's major and minor version; None where the text does not begin with numbers."""
    match = _NUMBERS.match(version)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2])
    if _CONFLUENT.search(version) and major > _CONFLUENT_AHEAD:
        major -= _CONFLUENT_AHEAD
    return major, minor


# The one that tests run
NEWEST_TRIED: Version = parse(KAFKA_VERSION) or OLDEST


def shown(version: Version) -> str:
    """Returns a version such as `3.6`."""
    return ".".join(map(str, version))


def knows(version: str, feature: Feature) -> bool:
    """Returns whether a cluster that reports this version has the feature."""
    number = parse(version)
    return number is None or number >= feature.value
