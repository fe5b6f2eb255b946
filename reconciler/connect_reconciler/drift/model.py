"""Drift as a value: the differences, where each was made, and the records that made it. Pure.

Kafka compacts older records away, so a change can be older than the record that is found of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from connect_reconciler.ledger.journal import JournalEntry
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.ledger.topic import reduce_all as reduce_ledger
from connect_reconciler.model.config_values import Value
from connect_reconciler.model.live import Live
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import ConfigSnapshot
from connect_specs.desired import PartitionKey, partition_key
from connect_specs.diagnostics import Location

# Config records have the time of the cluster's leader, journal entries that of the apply
_CLOCKS_DIFFER_MS = 2_000


class FindingKind(StrEnum):
    """Subject of a finding.

    `connector`: its existence. `unmanaged`: a connector without a spec that no project owns.
    `left-offsets`: those of a deleted connector. `failed`: a connector of this project, or some of
    its tasks, have failed.
    """

    CONNECTOR = "connector"
    CONFIG = "config"
    STATE = "state"
    OFFSETS = "offsets"
    UNMANAGED = "unmanaged"
    LEFT_OFFSETS = "left-offsets"
    FAILED = "failed"


class ChangedIn(StrEnum):
    """Side that changed since the last apply: the specs, the cluster, or both.

    `unknown`: no ledger holds the last apply.
    """

    SPECS = "specs"
    CLUSTER = "cluster"
    BOTH = "both"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Mark:
    """A record's time, and its place in a topic."""

    timestamp_ms: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class ApplyRun:
    """An apply. `work` by connector: the start of its first action and the end of its last one."""

    id: str
    project: str
    by: str
    work: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)

    def wrote(self, connector: str, mark: Mark) -> bool:
        """Returns whether the record was written while the apply was changing that connector."""
        if connector not in self.work:
            return False
        since_ms, until_ms = self.work[connector]
        return since_ms - _CLOCKS_DIFFER_MS <= mark.timestamp_ms <= until_ms + _CLOCKS_DIFFER_MS


@dataclass(frozen=True, slots=True)
class History:
    """The records of the latest changes.

    `keys` by connector and config key, including removed keys; `connectors` by name: of the last
    creation or deletion; `offsets` by connector and partition.
    """

    keys: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    connectors: Mapping[str, Mark] = field(default_factory=dict)
    targets: Mapping[str, Mark] = field(default_factory=dict)
    offsets: Mapping[tuple[str, PartitionKey], Mark] = field(default_factory=dict)
    runs: tuple[ApplyRun, ...] = ()

    def run_of(self, connector: str, mark: Mark | None) -> ApplyRun | None:
        """Returns the recorded apply that wrote the record about this connector, if any."""
        if mark is None:
            return None
        return next((run for run in reversed(self.runs) if run.wrote(connector, mark)), None)


@dataclass(frozen=True, slots=True)
class LiveWithHistory:
    """The observed facts of a comparison.

    `left_groups` counts the partitions of consumer groups without a connector, by the name that
    the connector had. `groups_hidden`: Kafka did not show the offsets of sinks.
    """

    live: Live
    history: History = field(default_factory=History)
    left_groups: Mapping[str, int] = field(default_factory=dict)
    groups_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference, or a fact worth knowing, whose `changed_in` is None.

    `applied`, `desired` and `live` are None if absent. `key` is the config key or the pin. `detail`
    is a sentence about more than these values, and `reason` the cause of a failure. `since` is the
    record that made the difference, and `run` the apply that wrote the record. `location` is the
    place in the spec, None without a spec.
    """

    kind: FindingKind
    connector: str
    changed_in: ChangedIn | None = None
    key: str = ""
    applied: Value | None = None
    desired: Value | None = None
    live: Value | None = None
    detail: str = ""
    reason: str = ""
    since: Mark | None = None
    run: ApplyRun | None = None
    location: Location | None = None

    @property
    def drifted(self) -> bool:
        """Returns whether it was changed outside connect, or may have been."""
        return self.changed_in in (ChangedIn.CLUSTER, ChangedIn.BOTH, ChangedIn.UNKNOWN)

    def counts_as(self, category: ChangedIn | FindingKind) -> bool:
        """Returns whether it was changed in this side, or is of this kind."""
        return category in (self.changed_in, self.kind)

    @property
    def identity(self) -> Finding:
        """Returns the finding without the fields that may change while it lasts: a task may fail
        for another reason."""
        return replace(self, reason="", since=None, run=None, location=None)


@dataclass(frozen=True, slots=True)
class Drift:
    """All findings of one comparison.

    `managed` are the connectors that were compared: those of the specs and those that the project
    owns. `other_projects` counts the connectors of each. `unfinished` are applies in
    progress or interrupted. `groups_hidden`: offsets of sinks were not compared. `values_hidden`
    counts keys whose values are not shown because a request for their types failed: `unanswered`.
    `ledger_policy` is the cleanup policy of the ledger's topic, empty if unknown.
    """

    project: str
    now_ms: int
    findings: tuple[Finding, ...] = ()
    managed: frozenset[str] = frozenset()
    other_projects: Mapping[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    groups_hidden: bool = False
    values_hidden: int = 0
    unanswered: str = ""
    ledger_policy: str = ""

    @property
    def drifted(self) -> bool:
        """Returns whether anything was changed outside connect, or may have been."""
        return any(finding.drifted for finding in self.findings)

    def connectors(self) -> dict[str, int]:
        """Returns the numbers of connectors in sync, drifted, and pending: changed in the specs."""
        drifted = {finding.connector for finding in self.findings if finding.drifted}
        changed = {
            finding.connector for finding in self.findings if finding.changed_in is ChangedIn.SPECS
        }
        return {
            "in_sync": len(self.managed - drifted - changed),
            "drifted": len(drifted),
            "pending": len(changed - drifted),
        }

    def keys(self) -> dict[str, int]:
        """Returns each drifted config key with its number of connectors, the most first."""
        counts = Counter(
            finding.key
            for finding in self.findings
            if finding.kind is FindingKind.CONFIG and finding.drifted
        )
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def count(self, category: ChangedIn | FindingKind) -> int:
        """Returns the number of findings that were changed in this side, or are of this kind."""
        return sum(finding.counts_as(category) for finding in self.findings)


def changes(previous: Drift, current: Drift) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Returns the findings that appeared, and those that disappeared."""
    return _missing(current, previous), _missing(previous, current)


def _missing(drift: Drift, reference: Drift) -> tuple[Finding, ...]:
    identities = {finding.identity for finding in reference.findings}
    return tuple(finding for finding in drift.findings if finding.identity not in identities)


# --- the latest changes, as topics hold them ---


def history_of(
    config: Iterable[LogRecord], offsets: Iterable[LogRecord], ledger: Iterable[LogRecord]
) -> History:
    """Returns the history in the records of three topics."""
    fold = _ConfigFold()
    for record in config:
        fold.apply(record)
    return History(fold.keys, fold.connectors, fold.targets, _offsets(offsets), _runs(ledger))


class _ConfigFold:
    """Keeps the record since which each config key, connector and target state is unchanged."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], Mark] = {}
        self.connectors: dict[str, Mark] = {}
        self.targets: dict[str, Mark] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._states: dict[str, str] = {}

    def apply(self, record: LogRecord) -> None:
        subject = config_topic.subject(record.key)
        if subject is None:
            return
        kind, name = subject
        # Only what this record holds, without the records before it
        snapshot = config_topic.reduce_all(ConfigSnapshot(), (record,))
        if kind == "config":
            state = snapshot.connectors.get(name)
            if state is not None or record.value is None:
                self._on_config(name, None if state is None else state.config, _mark(record))
        else:
            orphan = snapshot.orphans.get(name)
            target = "" if orphan is None else orphan.target.value
            if self._states.get(name) != target:
                self.targets[name] = _mark(record)
            self._states[name] = target

    def _on_config(self, name: str, config: Mapping[str, str] | None, mark: Mark) -> None:
        previous = self._configs.pop(name, None)
        if (previous is None) is not (config is None) or name not in self.connectors:
            self.connectors[name] = mark
        for key in (previous or {}).keys() | (config or {}).keys():
            if (previous or {}).get(key) != (config or {}).get(key):
                self.keys[name, key] = mark
        if config is not None:
            self._configs[name] = config


def _offsets(records: Iterable[LogRecord]) -> dict[tuple[str, PartitionKey], Mark]:
    marks: dict[tuple[str, PartitionKey], Mark] = {}
    # A busy source writes under the same few keys over and over
    newest = {record.key: record for record in records}
    for record in sorted(newest.values(), key=lambda record: record.timestamp_ms):
        subject = offsets_topic.subject(record.key)
        if subject is not None:
            connector, partition = subject
            marks[connector, partition_key(partition)] = _mark(record)
    return marks


def _runs(records: Iterable[LogRecord]) -> tuple[ApplyRun, ...]:
    snapshot = reduce_ledger(LedgerSnapshot(), records)
    return tuple(
        ApplyRun(apply.id, apply.project, apply.by, _work(snapshot.steps(apply.id)))
        for apply in snapshot.applies.values()
    )


def _work(steps: Iterable[JournalEntry]) -> dict[str, tuple[int, int]]:
    work: dict[str, tuple[int, int]] = {}
    for step in steps:
        # An interrupted one has no end: its change came soon after its start
        times = (step.started_ms, step.ended_ms or step.started_ms)
        work[step.connector] = (
            min(*times, *work.get(step.connector, times)),
            max(*times, *work.get(step.connector, times)),
        )
    return work


def _mark(record: LogRecord) -> Mark:
    return Mark(record.timestamp_ms, record.topic, record.partition, record.offset)
