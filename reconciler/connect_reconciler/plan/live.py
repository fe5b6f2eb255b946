"""Live: everything about the cluster that planning uses, observed once, as one frozen value.

From here to the plan everything is pure: even `now_ms` is part of the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from connect_reconciler.plan.journal import Unfinished
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic
from connect_specs.states import TargetState

Kind: TypeAlias = Literal["source", "sink", "unknown"]
TopicPartition: TypeAlias = tuple[str, int]
RenameStage: TypeAlias = Literal["begun", "carried"]


@dataclass(frozen=True, slots=True)
class LogRange:
    """A partition's log: `earliest` is the first offset still there, `latest` the next to come."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class LiveConnector:
    """One connector as the cluster holds it now.

    `config` as stored, references unresolved. `target` is the target state, never a passing status.
    `state` and `task_states` are the statuses, for display and waiting only. `offsets` as KIP-875
    shows them, also those that a deleted connector left behind are in `Live.orphan_offsets`.
    """

    name: str
    kind: Kind
    config: Mapping[str, str]
    target: TargetState
    offsets: tuple[OffsetEntry, ...] = ()
    state: str | None = None
    task_states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Owned:
    """Ledger key `connector/<name>`: which project manages it, and what it applied last.

    `config` holds fingerprints of sensitive values in place of the values. `held_from` is set while
    an apply has stopped the connector for its own purposes: the target state to go back to.
    `resuming` is set with it when an apply was about to let the connector go back and nothing tells
    whether it did: it marks the offsets that it had then. `env` is the environment that it was
    applied with last, if it was with one. `applied_ms` is 0 where a creation began and nothing says
    that it took place.
    """

    project: str
    config: Mapping[str, str]
    state: TargetState | None
    prevent_delete: bool = False
    held_from: TargetState | None = None
    applied_ms: int = 0
    resuming: str | None = None
    env: str | None = None


@dataclass(frozen=True, slots=True)
class AppliedPin:
    """Ledger key `pin/<name>/<id>`: a pin that was applied, with what it resolved to.

    `resolved` is what the connector's offsets were set to (None for a reset). `held`: applied while
    the spec said stopped, and no apply has let the connector run since, so that it must still be
    there. Whatever resumes or pauses the connector ends that.
    """

    content_hash: str
    resolved: tuple[OffsetEntry, ...] | None
    applied_ms: int = 0
    held: bool = False


@dataclass(frozen=True, slots=True)
class Renaming:
    """Ledger key `rename/<name>/<old>`: a connector that goes on from `old`, which is not gone yet.

    `begun` from before the connector is created, `carried` once it has the offsets of `old`.
    `held`: no apply has let the connector run since it was created.
    """

    stage: RenameStage
    applied_ms: int = 0
    held: bool = False


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The ledger topic, read to its end. `pins` by (connector, pin id), `renames` by (connector,
    old name).

    `unfinished` holds the applies that ended early, once observed those of the project.
    `fingerprint_key` None: the project has none yet; a plan then holds no fingerprints.
    """

    connectors: Mapping[str, Owned] = field(default_factory=dict)
    pins: Mapping[tuple[str, str], AppliedPin] = field(default_factory=dict)
    renames: Mapping[tuple[str, str], Renaming] = field(default_factory=dict)
    unfinished: tuple[Unfinished, ...] = ()
    fingerprint_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class ClusterLogs:
    """The logs of topics on another Kafka cluster, as `Live` has those on the worker's."""

    logs: Mapping[TopicPartition, LogRange] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    record_times: Mapping[tuple[str, int, int], int] = field(default_factory=dict)
    times: Mapping[tuple[str, int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Live:
    """All that was observed. `logs` covers every topic partition that a sink or a pin names.

    `new_offsets` by connector: what is where its spec has it look for its offsets, where
    that is another than now.

    `topics` holds how many partitions the topics have that a new, changed or pinned sink reads;
    those that do not exist are not in it. `times` by topic, partition and time in ms: the first
    record's offset from then on, or the log's end.

    `kinds` by class as the spec writes it, for connectors that are to be created or change class.
    `password_keys` by connector: config keys that hold secrets, most by their type. `record_times`
    by topic, partition and offset: a record's timestamp, to tell durations; at the
    log's end, the newest one. `errors` and `warnings`
    are what observing found, such as the cluster's validation answers; the plan passes them on.
    `rest_alone`: no Kafka could be asked, so that logs and what deleted connectors left are not
    known, and the ledger lies in the configs. `version` is Connect's, where a REST API told it.
    `ours`: our runtime runs the connectors, or will.

    `elsewhere` holds the logs of sinks that read another Kafka cluster, by connector. `unknown`
    says, by connector, why its offsets could not be read: having none in `offsets` then means
    nothing. `hidden` is that reason in what `around` returns.
    """

    connectors: Mapping[str, LiveConnector] = field(default_factory=dict)
    ledger: LedgerState = field(default_factory=LedgerState)
    logs: Mapping[TopicPartition, LogRange] = field(default_factory=dict)
    orphan_offsets: Mapping[str, tuple[OffsetEntry, ...]] = field(default_factory=dict)
    new_offsets: Mapping[str, tuple[OffsetEntry, ...]] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    password_keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    record_times: Mapping[tuple[str, int, int], int] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    times: Mapping[tuple[str, int, int], int] = field(default_factory=dict)
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    now_ms: int = 0
    cluster_id: str = ""
    rest_alone: bool = False
    version: str = ""
    ours: bool = False
    elsewhere: Mapping[str, ClusterLogs] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    hidden: str = ""

    @property
    def key_comes(self) -> bool:
        """Whether the project's key is made by the next apply, the first of all on this cluster."""
        empty = not self.ledger.connectors and not self.ledger.pins
        return empty and self.ledger.fingerprint_key is None and not self.rest_alone

    @property
    def logs_unknown(self) -> bool:
        """Whether logs that are not in `logs` may be there all the same."""
        return self.rest_alone or bool(self.hidden)

    def around(self, name: str) -> Live:
        """The same with the logs of the Kafka cluster that one connector works on."""
        hidden = self.unknown.get(name, "")
        if not hidden and name not in self.elsewhere:
            return self
        found = ClusterLogs() if hidden else self.elsewhere[name]
        return replace(
            self,
            logs=found.logs,
            topics=found.topics,
            record_times=found.record_times,
            times=found.times,
            hidden=hidden,
        )
