"""Drift as a value: what differs, and where each difference was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias

from connect_reconciler.drift.topic_history import History, Mark, Run
from connect_reconciler.model.config_values import Value
from connect_reconciler.model.live import Live
from connect_specs.diagnostics import Location


class FindingKind(StrEnum):
    """What a finding is about.

    `connector`: whether it exists. `unmanaged`: a connector without a spec that no project owns.
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
    """Where something changed since the last apply: in the specs, in the cluster, or in both.

    `unknown`: no ledger says what was applied.
    """

    SPECS = "specs"
    CLUSTER = "cluster"
    BOTH = "both"
    UNKNOWN = "unknown"


DetailCode: TypeAlias = Literal[
    "renamed-to",
    "renamed-from",
    "adopted-with-next-change",
    "delete-refused",
    "stopped-by-apply",
    "perhaps-stopped-since",
    "ambiguous-status",
    "offsets-unread",
    "source-offsets",
    "group-offsets",
    "failed",
    "owners-unseen",
]


@dataclass(frozen=True, slots=True)
class Detail:
    """What a finding says besides its values: a code, and a name or numbers that it is about."""

    code: DetailCode
    about: str = ""
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """All that was observed for a comparison.

    `left_groups` counts the partitions of consumer groups without a connector, by the name that
    the connector had. `groups_hidden`: Kafka did not show the offsets of sinks.
    """

    live: Live
    history: History = field(default_factory=History)
    left_groups: Mapping[str, int] = field(default_factory=dict)
    groups_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference, or one thing worth knowing, which was `changed_in` nothing.

    `applied`, `desired` and `live` are None where there is nothing. `key` is the config key or the
    pin. `detail` says what the three cannot, and `reason` why it failed. `since` is the record that
    made it so, and `run` the apply that wrote the record. `where` is the place in the spec, None
    without a spec.
    """

    kind: FindingKind
    connector: str
    changed_in: ChangedIn | None = None
    key: str = ""
    applied: Value | None = None
    desired: Value | None = None
    live: Value | None = None
    detail: Detail | None = None
    reason: str = ""
    since: Mark | None = None
    run: Run | None = None
    where: Location | None = None

    @property
    def drifted(self) -> bool:
        """Whether it was changed outside connect, or may have been."""
        return self.changed_in in (ChangedIn.CLUSTER, ChangedIn.BOTH, ChangedIn.UNKNOWN)

    def counts_as(self, what: ChangedIn | FindingKind) -> bool:
        """Whether it was changed there, or is of this kind."""
        return what in (self.changed_in, self.kind)

    @property
    def identity(self) -> Finding:
        """What stays the same while the finding does; a task may fail again for another reason."""
        return replace(self, reason="", since=None, run=None, where=None)


@dataclass(frozen=True, slots=True)
class Drift:
    """All findings of one look at the cluster.

    `managed` are the connectors that were compared: those of the specs, and what the project owns.
    `others` counts connectors by the project that owns them. `unfinished` are applies that are
    under way or ended early. `groups_hidden`: whether sinks' offsets moved could not be told.
    `values_hidden` counts keys whose values are not shown because a request for their types failed:
    `unanswered`. `ledger_policy` is the cleanup policy of the ledger's topic, where that is known.
    """

    project: str
    now_ms: int
    findings: tuple[Finding, ...] = ()
    managed: frozenset[str] = frozenset()
    others: Mapping[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    groups_hidden: bool = False
    values_hidden: int = 0
    unanswered: str = ""
    ledger_policy: str = ""

    @property
    def drifted(self) -> bool:
        """Whether anything of this project was changed outside connect, or may have been."""
        return any(finding.drifted for finding in self.findings)

    def connectors(self) -> dict[str, int]:
        """How many connectors are in sync, have drifted, or only wait for an apply."""
        drifted = {each.connector for each in self.findings if each.drifted}
        pending = {
            each.connector for each in self.findings if each.changed_in is ChangedIn.SPECS
        } - drifted
        return {
            "in_sync": len(self.managed - drifted - pending),
            "drifted": len(drifted),
            "pending": len(pending),
        }

    def keys(self) -> dict[str, int]:
        """In how many connectors each config key has drifted, the most first."""
        found = Counter(
            each.key for each in self.findings if each.kind is FindingKind.CONFIG and each.drifted
        )
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def count(self, what: ChangedIn | FindingKind) -> int:
        """How many findings were changed there, or are of this kind."""
        return sum(each.counts_as(what) for each in self.findings)


def changes(before: Drift, now: Drift) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings that are new, and those that are gone."""
    old = {finding.identity for finding in before.findings}
    new = {finding.identity for finding in now.findings}
    return (
        tuple(each for each in now.findings if each.identity not in old),
        tuple(each for each in before.findings if each.identity not in new),
    )
