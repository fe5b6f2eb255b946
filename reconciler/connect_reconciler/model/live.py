"""Live: everything about the cluster that planning uses, observed once, as one frozen value.

From here to the plan everything is pure: even `now_ms` is part of the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from connect_reconciler.model.journal import Unfinished
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.topic_logs import TopicLogs
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic
from connect_specs.plugin_definitions import CLASS_KEY
from connect_specs.states import TargetState

Kind: TypeAlias = Literal["source", "sink", "unknown"]
RenameStage: TypeAlias = Literal["begun", "carried"]


@dataclass(frozen=True, slots=True)
class LiveConnector:
    """One connector as the cluster holds it now.

    `config` as stored, references unresolved. `target` is the target state, never a passing status.
    `state` and `task_states` are the statuses, for display and waiting only. `failure` is why the
    connector or one of its tasks failed, on one line and redacted. `offsets` as KIP-875
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


@dataclass(frozen=True, slots=True)
class Owned:
    """Ledger key `connector/<name>`: which project manages it, and what it applied last.

    `config` holds fingerprints of sensitive values in place of the values. `restore_to` is set
    while an apply has stopped the connector for its own purposes: the target state to return to;
    on disk it is called `held_from`. `resuming` is set with it when an apply was about to restore
    that state and nothing tells whether it did: it marks the offsets that the connector had then.
    `env` is the environment that it was last applied with, if any. `applied_ms` is 0 where a
    creation began and nothing says that it took place.
    """

    project: str
    config: Mapping[str, str]
    state: TargetState | None
    prevent_delete: bool = False
    restore_to: TargetState | None = None
    applied_ms: int = 0
    resuming: str | None = None
    env: str | None = None


@dataclass(frozen=True, slots=True)
class AppliedPin:
    """Ledger key `pin/<name>/<id>`: a pin that was applied, with what it resolved to.

    `resolved` is what the connector's offsets were set to (None for a reset). `held`: the spec said
    stopped when it was applied, and no apply has resumed or paused the connector since, so its
    offsets must still be those of the pin.
    """

    content_hash: str
    resolved: tuple[OffsetEntry, ...] | None
    applied_ms: int = 0
    held: bool = False

    def moved(self, offsets: Offsets) -> tuple[OffsetEntry, ...]:
        """The changes that would restore the pin's offsets; none while they are in place."""
        asked = offsets.removed() if self.resolved is None else self.resolved
        return tuple(each for each in asked if not offsets.hold((each,)))


@dataclass(frozen=True, slots=True)
class Renaming:
    """Ledger key `rename/<name>/<old>`: a connector that replaces `old`, which still exists.

    `begun` from before the connector is created, `carried` once it has the offsets of `old`.
    `held`: no apply has resumed or paused the connector since it was created.
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
class Live:
    """All that was observed.

    `orphan_offsets` are those of deleted connectors. `offsets_after_change` has connectors whose
    config is to change so that they look for offsets in another place: those that are there.
    `unread_offsets` says, by connector, why its offsets could not be read: `offsets` is then empty.

    `logs` are those on the worker's Kafka cluster; `logs_elsewhere`, by connector, those that sinks
    read on other clusters. `logs_of` picks the right ones.

    `kinds` by class as the spec writes it, for connectors that are to be created or change class.
    `password_keys` by connector: config keys that hold secrets, most by their type. `errors` and
    `warnings` are what observing found, such as the cluster's validation answers; the plan passes
    them on. `rest_alone`: no Kafka could be asked, so that logs and what deleted connectors left
    are not known, and the ledger lies in the configs. `version` is Connect's, where a REST API told
    it. `ours`: our runtime runs the connectors, or will.
    """

    connectors: Mapping[str, LiveConnector] = field(default_factory=dict)
    ledger: LedgerState = field(default_factory=LedgerState)
    logs: TopicLogs = field(default_factory=TopicLogs)
    orphan_offsets: Mapping[str, Offsets] = field(default_factory=dict)
    offsets_after_change: Mapping[str, Offsets] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    password_keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    now_ms: int = 0
    cluster_id: str = ""
    rest_alone: bool = False
    version: str = ""
    ours: bool = False
    logs_elsewhere: Mapping[str, TopicLogs] = field(default_factory=dict)
    unread_offsets: Mapping[str, str] = field(default_factory=dict)

    @property
    def key_comes(self) -> bool:
        """Whether the project's key is made by the next apply, the first of all on this cluster."""
        empty = not self.ledger.connectors and not self.ledger.pins
        return empty and self.ledger.fingerprint_key is None and not self.rest_alone

    def offsets_of(self, name: str) -> Offsets:
        """The offsets of a connector, also those that a deleted one left behind."""
        connector = self.connectors.get(name)
        return connector.offsets if connector else self.orphan_offsets.get(name, Offsets())

    def logs_of(self, name: str) -> TopicLogs:
        """The logs on the Kafka cluster that one connector works on."""
        if name in self.unread_offsets:
            return TopicLogs(complete=False)
        logs = self.logs_elsewhere.get(name, self.logs)
        return replace(logs, complete=False) if self.rest_alone else logs


def kind_of(
    config: Mapping[str, str], live: LiveConnector | None, kinds: Mapping[str, Kind]
) -> Kind:
    """The kind that the connector has under `config`; `kinds` by class, as the cluster says."""
    name = config.get(CLASS_KEY, "")
    if live is not None and live.kind != "unknown" and live.config.get(CLASS_KEY) == name:
        return live.kind
    known: Kind = kinds.get(name, "unknown")
    if known != "unknown":
        return known
    simple = name.rpartition(".")[2].lower()
    if ("sink" in simple) is not ("source" in simple):
        return "sink" if "sink" in simple else "source"
    # Sources may have `topics` too, but only sinks may have a pattern
    return "sink" if "topics.regex" in config else "unknown"
