"""Are topics, versions and the group as a cluster needs them? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from connect_reconciler.doctor.facts import Finding, TopicFacts, TopicsSide
from connect_reconciler.plan.versions import NEWEST_TRIED, OLDEST, parse, too_old
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic

_ONE_PARTITION = ("config", "assignments", "ledger")
_CONNECTS = ("config", "offsets", "status")


def check_topics(project: Project, side: TopicsSide) -> Iterator[Finding]:
    """Each topic that the cluster has, and Connect's own that it lacks."""
    if project.target is None and not side.topics:
        what = "the cluster has no topics yet: the first apply or `connect up` makes them"
        yield Finding("warning", Diagnostic("doctor.new-cluster", what, project.group_id))
        return
    for kind in ("config", "offsets", "status", "assignments", "ledger"):
        name = getattr(project.topics, kind)
        facts = side.topics.get(name)
        if facts is not None:
            yield from _topic(kind, facts, side.brokers)
        elif kind in _CONNECTS:
            what = f"there is no {kind} topic of that name"
            hint = "check cluster.group.id and cluster.topics, or start the cluster once"
            yield Finding("error", Diagnostic("doctor.no-topic", what, name, hint=hint))


def _topic(kind: str, facts: TopicFacts, brokers: int) -> Iterator[Finding]:
    if facts.policy not in (None, "compact"):
        what = f"the {kind} topic has cleanup.policy={facts.policy}: old records are deleted"
        hint = "set cleanup.policy=compact on it"
        yield Finding("error", Diagnostic("doctor.not-compacted", what, facts.name, hint=hint))
    if kind in _ONE_PARTITION and facts.partitions != 1:
        what = f"the {kind} topic has {facts.partitions} partitions, and must have one"
        hint = "its order is the truth: it must be made anew with one partition"
        yield Finding("error", Diagnostic("doctor.partitions", what, facts.name, hint=hint))
    if brokers > 1 and facts.replication < min(3, brokers):
        copies = "one copy" if facts.replication == 1 else f"{facts.replication} copies"
        what = f"the {kind} topic has {copies} on {brokers} brokers"
        hint = f"raise its replication to {min(3, brokers)}"
        yield Finding("warning", Diagnostic("doctor.replication", what, facts.name, hint=hint))


def check_version(version: str, where: str) -> Iterator[Finding]:
    """Whether this version of Connect is one that plans are made for."""
    found = parse(version)
    oldest, newest = ".".join(map(str, OLDEST)), ".".join(map(str, NEWEST_TRIED))
    if too_old(version):
        what = f"the cluster runs Connect {version}, which cannot alter offsets"
        hint = f"versions from {oldest} on are supported"
        yield Finding("error", Diagnostic("doctor.old-connect", what, where, hint=hint))
    elif found is None:
        what = f"the cluster says that its version is {version or 'nothing'}"
        hint = "it is taken for a new one"
        yield Finding("warning", Diagnostic("doctor.version", what, where, hint=hint))
    elif found > NEWEST_TRIED:
        what = f"the cluster runs Connect {version}; the newest tried is {newest}"
        yield Finding("warning", Diagnostic("doctor.version", what, where))
