"""Drift as a value: the differences, and where each was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from connect_reconciler.drift.topic_history import ApplyRun, History, Mark
from connect_reconciler.model.config_values import Value
from connect_reconciler.model.live import Live
from connect_specs.diagnostics import Location


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
