"""Drift as a value: what differs, and whose each difference is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from connect_reconciler.drift.history import History, Mark, Run
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.values import Value
from connect_specs.diagnostics import Location


class Kind(StrEnum):
    """What a finding is about.

    `connector`: that it exists. `unmanaged`: a connector of no spec and no project. `left-offsets`:
    those of a connector that is gone. `failed`: a connector of ours, or tasks of it, have failed.
    """

    CONNECTOR = "connector"
    CONFIG = "config"
    STATE = "state"
    OFFSETS = "offsets"
    UNMANAGED = "unmanaged"
    LEFT_OFFSETS = "left-offsets"
    FAILED = "failed"


class Whose(StrEnum):
    """Who moved away from what was applied last: the specs, the cluster by hand, or both.

    `unknown`: nothing tells, because no ledger says what was applied.
    """

    OURS = "ours"
    THEIRS = "theirs"
    BOTH = "both"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Seen:
    """All that was observed for a comparison.

    `left_groups` counts the partitions of consumer groups without a connector, by the name that
    the connector would have. `groups_hidden`: Kafka did not let us see the offsets of sinks.
    """

    live: Live
    history: History = field(default_factory=History)
    left_groups: Mapping[str, int] = field(default_factory=dict)
    groups_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference, or one thing worth knowing, which has no `whose`.

    `applied`, `desired` and `live` are None where there is nothing. `key` is the config key or the
    pin. `detail` says what the three cannot. `since` is the record that live is so since, and `run`
    the apply that did it. `where` is the spec's place that it is about, None without a spec.
    """

    kind: Kind
    connector: str
    whose: Whose | None = None
    key: str = ""
    applied: Value | None = None
    desired: Value | None = None
    live: Value | None = None
    detail: str = ""
    since: Mark | None = None
    run: Run | None = None
    where: Location | None = None

    @property
    def drifted(self) -> bool:
        """Whether somebody changed it by hand, or may have."""
        return self.whose in (Whose.THEIRS, Whose.BOTH, Whose.UNKNOWN)

    @property
    def identity(self) -> Finding:
        """What stays the same while the finding does."""
        return replace(self, since=None, run=None, where=None)


@dataclass(frozen=True, slots=True)
class Drift:
    """All findings of one look at the cluster.

    `managed` are the connectors that were compared: those of the specs, and what the project owns.
    `others` counts connectors by the project that owns them. `unfinished` are applies that are
    under way or ended early. `groups_hidden`: whether sinks' offsets moved could not be told.
    """

    project: str
    now_ms: int
    findings: tuple[Finding, ...] = ()
    managed: frozenset[str] = frozenset()
    others: Mapping[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    groups_hidden: bool = False

    @property
    def drifted(self) -> bool:
        """Whether anything of this project was changed by hand, or may have been."""
        return any(finding.drifted for finding in self.findings)

    def connectors(self) -> dict[str, int]:
        """How many connectors are in sync, have drifted, or only wait for an apply."""
        drifted = {each.connector for each in self.findings if each.drifted}
        pending = {each.connector for each in self.findings if each.whose is Whose.OURS} - drifted
        return {
            "in_sync": len(self.managed - drifted - pending),
            "drifted": len(drifted),
            "pending": len(pending),
        }

    def keys(self) -> dict[str, int]:
        """In how many connectors each config key has drifted, the most first."""
        found = Counter(
            each.key for each in self.findings if each.kind is Kind.CONFIG and each.drifted
        )
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def counts(self) -> dict[str, int]:
        """How many findings there are of each sort."""
        found = self.findings
        return {
            "theirs": sum(each.whose is Whose.THEIRS for each in found),
            "both": sum(each.whose is Whose.BOTH for each in found),
            "unknown": sum(each.whose is Whose.UNKNOWN for each in found),
            "ours": sum(each.whose is Whose.OURS for each in found),
            "unmanaged": sum(each.kind is Kind.UNMANAGED for each in found),
            "left_offsets": sum(each.kind is Kind.LEFT_OFFSETS for each in found),
            "failed": sum(each.kind is Kind.FAILED for each in found),
        }


def changes(before: Drift, now: Drift) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings that are new, and those that are gone."""
    old = {finding.identity for finding in before.findings}
    new = {finding.identity for finding in now.findings}
    return (
        tuple(each for each in now.findings if each.identity not in old),
        tuple(each for each in before.findings if each.identity not in new),
    )
