"""Whose offsets are it? A consumer group that several sinks read with has one set of them.

Kafka refuses to move them while any of the readers runs, which would leave the connector stopped
half-way; and where none runs, they move for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_reconciler.plan.checks.group_readers import Readers, other_readers
from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.offsets.positions import sink_topics
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.names import ledger_group, sink_group
from connect_specs.states import TargetState

_KAFKA = "consumer.override.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Groups:
    """All that is known of who reads with which group. `changes` by name."""

    changes: Mapping[str, Changes]
    live: Live
    worker: Mapping[str, str]
    readers: Readers
    project: str
    group_id: str

    def lease_error(self, changes: Changes) -> Diagnostic | None:
        """A sink in the group that keeps two applies apart would take the lease, or be fenced."""
        if changes.kind != "sink" or changes.written is None or self.live.rest_alone:
            return None
        lease = ledger_group(self.group_id)
        if sink_group(changes.name, changes.written, self.worker) != lease:
            return None
        return Diagnostic(
            "plan.lease-group",
            f"{changes.name} is to read with consumer group {lease}, which holds the lease of"
            f" applies to {self.group_id}",
            changes.spec.where if changes.spec else changes.name,
            hint="give it another name, or a consumer.override.group.id",
        )

    def error(self, changes: Changes) -> Diagnostic | None:
        """Why the connector's offsets, or those of its old name, cannot be moved."""
        for group in self._moved(changes):
            others = self._others(group, changes)
            reading = [name for name in others if self._reads_on(name, changes)]
            if reading:
                return _in_use(changes, reading)
            foreign = [name for name in others if self._foreign(name)]
            if foreign and changes.pin is not None:
                what = f"its pin moves offsets of consumer group {self._shown(changes, group)}"
                what += f", and {', '.join(foreign)} of another project reads with it too"
                hint = "give the connector a consumer group of its own"
                return Diagnostic("plan.owned-by-other", what, _where(changes), hint=hint)
        return None

    def moves_of_others(self, changes: Changes) -> Iterator[Diagnostic]:
        """A warning where its pin moves the offsets of other sinks as well."""
        if changes.kind != "sink" or changes.written is None or changes.pin is None:
            return
        group = sink_group(changes.name, changes.written, self.worker)
        if others := self._others(group, changes):
            moved = "are forgotten" if changes.pin.entries is None else "move"
            what = f"{', '.join(others)} reads with consumer group {self._shown(changes, group)}"
            what += f" too, so its offsets {moved} as well"
            yield Diagnostic("plan.shared-group", what, _where(changes))

    def shares(self, changes: Changes) -> Iterator[Diagnostic]:
        """A warning where it is going to get a part of its topics' records only."""
        if changes.kind != "sink" or changes.written is None or not self._joins(changes):
            return
        group = sink_group(changes.name, changes.written, self.worker)
        others = self._others(group, changes)
        if beside := [name for name in others if self._beside(name, group, changes)]:
            yield Diagnostic(
                "plan.shared-group",
                f"{changes.name} and {', '.join(beside)} read the same topics with consumer group"
                f" {self._shown(changes, group)}: each record is delivered to one of them only",
                _where(changes),
                hint="with a consumer group of its own, each gets all records",
            )

    def _moved(self, changes: Changes) -> Iterator[str]:
        if changes.kind != "sink" or changes.written is None:
            return
        if changes.pin is not None:
            yield sink_group(changes.name, changes.written, self.worker)
        old = changes.rename.live if changes.rename and changes.carries else None
        if old is not None and old.kind == "sink":
            yield sink_group(old.name, old.config, self.worker)

    def _others(self, group: str, changes: Changes) -> tuple[str, ...]:
        """Its other readers, without those that the plan deletes before."""
        gone = {each.name for each in self.changes.values() if each.existence == "delete"}
        if _is_new(changes):
            gone |= {each.rename.old for each in self.changes.values() if each.rename}
        old = changes.rename.old if changes.rename else changes.name
        found = other_readers(group, self.readers, changes.name, old)
        return tuple(name for name in found if name not in gone and self._same_kafka(name, changes))

    def _same_kafka(self, name: str, changes: Changes) -> bool:
        connector, found = self.live.connectors.get(name), self.changes.get(name)
        configs = (connector.config if connector else None, found.written if found else None)
        here = (changes.written or {}).get(_KAFKA)
        return any(config is not None and config.get(_KAFKA) == here for config in configs)

    def _reads_on(self, name: str, beside: Changes) -> bool:
        """Whether it may read while the offsets of `beside` move."""
        connector, found = self.live.connectors.get(name), self.changes.get(name)
        if connector is not None and connector.target is not TargetState.STOPPED:
            return True
        together = connector is not None or _is_new(beside)
        return together and found is not None and found.goal is not TargetState.STOPPED

    def _foreign(self, name: str) -> bool:
        owned = self.live.ledger.connectors.get(name)
        return owned is not None and owned.project != self.project

    def _beside(self, name: str, group: str, changes: Changes) -> bool:
        """Whether it is going to read the same topics with the group."""
        connector, found = self.live.connectors.get(name), self.changes.get(name)
        config = found.written if found else connector.config if connector else None
        target = found.goal if found else connector.target if connector else None
        if config is None or TargetState.STOPPED in (target, changes.goal):
            return False
        topics = self.live.around(changes.name).topics
        same = {*sink_topics(config, topics)} & {*sink_topics(changes.written or {}, topics)}
        return bool(same) and sink_group(name, config, self.worker) == group

    def _joins(self, changes: Changes) -> bool:
        """Whether the plan is what makes it read there."""
        if changes.live is None:
            return _is_new(changes)
        before = sink_group(changes.name, changes.live.config, self.worker)
        keys = {each.key for each in changes.config} & {"topics", "topics.regex"}
        return bool(keys) or before != sink_group(changes.name, changes.written or {}, self.worker)

    def _shown(self, changes: Changes, group: str) -> str:
        known = sink_group(changes.name, changes.cover.shown(changes.written or {}), self.worker)
        return group if known == group else known


def _is_new(changes: Changes) -> bool:
    """Whether it is created, which comes after all changes and renames."""
    return changes.existence == "create" and changes.rename is None


def _in_use(changes: Changes, reading: list[str]) -> Diagnostic:
    return Diagnostic(
        "plan.group-in-use",
        f"the offsets of {changes.name} cannot move while {', '.join(reading)} reads with the same"
        " consumer group",
        _where(changes),
        why="Kafka moves a group's offsets only while nobody reads with it",
        hint=f"apply state: stopped for {', '.join(reading)} first, or use a consumer group that"
        f" is {changes.name}'s alone",
    )


def _where(changes: Changes) -> Location | str:
    spec = changes.spec
    if spec is None:
        return changes.name
    if spec.pin is not None and changes.pin is not None and spec.pin.where is not None:
        return spec.pin.where
    return spec.renamed_from_where or spec.where
