"""Rules of the tables: for which keys of which connectors, and what follows from their change; and
the setting that rules look at: a connector's configs, and the cluster around it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from connect_reconciler.model.live import Kind, Live, LiveConnector, TopicLogs
from connect_reconciler.model.offsets import sink_offset, sink_partition
from connect_reconciler.model.reasons import Effect, EffectCode, Effects, effect
from connect_reconciler.plan.diff import ConnectorDiff
from connect_reconciler.plan.offsets.sink_positions import sink_topics
from connect_specs.desired import Consequence


@dataclass(frozen=True, slots=True)
class Setting:
    """One connector's configs before and after, and the cluster around it.

    Secrets are in it only as what hides them, and their keys in `hidden`: nothing that a rule says
    can tell one. `old_name` is whose config `old` is: another one's where the connector is renamed,
    and gets the offsets of that one.
    """

    name: str
    old_name: str
    kind: Kind
    old_kind: Kind
    old: Mapping[str, str]
    new: Mapping[str, str]
    hidden: frozenset[str]
    live: Live
    worker: Mapping[str, str]

    @classmethod
    def of(
        cls,
        changes: ConnectorDiff,
        live: Live,
        worker: Mapping[str, str],
        before: LiveConnector | None = None,
    ) -> Setting:
        """The setting of one connector's changes; `before` is what it was under its old name."""
        before = before or changes.live
        old = changes.redactor.shown(before.config if before else {})
        old_kind = before.kind if before else "unknown"
        old_name = before.name if before else changes.name
        written = changes.written or {}
        new = changes.redactor.shown(written)
        hidden = frozenset(key for key, text in written.items() if new[key] != text)
        return cls(changes.name, old_name, changes.kind, old_kind, old, new, hidden, live, worker)

    @property
    def logs(self) -> TopicLogs:
        """The logs on the Kafka cluster that it works on."""
        return self.live.logs_of(self.name)

    @property
    def renamed(self) -> bool:
        """Whether another connector's offsets are carried to this one."""
        return self.old_name != self.name


def sink_start(config: Mapping[str, str], worker: Mapping[str, str]) -> str:
    """Where a sink begins in a partition without an offset. Connect's default is the beginning."""
    return (
        config.get("consumer.override.auto.offset.reset")
        or worker.get("consumer.auto.offset.reset")
        or "earliest"
    )


def first_start(setting: Setting) -> Effect:
    """Where a sink begins whose group has no offsets yet."""
    start = sink_start(setting.new, setting.worker)
    if start == "latest":
        return effect("start-at-end")
    if start != "earliest":
        return effect("start-by-reset", start=start)
    topics = sink_topics(setting.new, setting.logs.topics)
    amount = to_deliver(topics, setting.logs)
    count = _delivered(topics, setting) if amount else 0
    again = effect("of-them-again", count=count) if count else None
    return effect("start-at-beginning", amount=amount, again=again)


def _delivered(topics: Collection[str], setting: Setting) -> int:
    """How much of those topics the sink has delivered that is still in them."""
    connector = setting.live.connectors.get(setting.name)
    found = 0
    for entry in () if connector is None else connector.offsets:
        partition, at = sink_partition(entry.partition), sink_offset(entry.offset)
        log = None if partition is None else setting.logs.ranges.get(partition)
        if partition is not None and partition[0] in topics and at is not None and log is not None:
            found += max(0, min(at, log.latest) - log.earliest)
    return found


def to_deliver(topics: Collection[str], logs: TopicLogs) -> Effect | None:
    """How much is in those topics; None unless every partition's log was observed."""
    partitions = [(topic, n) for topic in topics for n in range(logs.topics.get(topic, 0))]
    known = topics and all(topic in logs.topics for topic in topics)
    if not known or any(at not in logs.ranges for at in partitions):
        return None
    ranges = [logs.ranges[at] for at in partitions]
    return effect("to-deliver", count=sum(log.latest - log.earliest for log in ranges))


# What follows, or None where the rule does not hold after all
Explain: TypeAlias = Callable[[Setting], Effect | Effects | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """Holds for keys that match one of the globs in `keys`, separated by spaces.

    `effect` can be a map: effects by the key's new value, where `default` is what it means left
    out; for other values the rule does not hold. `classes` are globs for the value of
    connector.class. Without an effect, the consequence alone says what there is to say.
    """

    keys: str
    consequence: Consequence
    effect: EffectCode | Effects | Mapping[str, EffectCode] | Explain = ()
    kind: Kind | None = None
    classes: str = "*"
    default: str = ""

    def covers(self, key: str, setting: Setting) -> bool:
        """Whether the rule is about this key of this connector."""
        name = setting.new.get("connector.class", "")
        return (
            self.kind in (None, setting.kind)
            and any(fnmatchcase(key, glob) for glob in self.keys.split())
            and any(fnmatchcase(name, glob) for glob in self.classes.split())
        )

    @property
    def looks_at_values(self) -> bool:
        """Whether it needs to know what the key was set to."""
        return callable(self.effect) or isinstance(self.effect, Mapping)

    def effects(self, setting: Setting) -> Effects | None:
        """What the change does here, or None where the rule does not hold."""
        found = self.effect(setting) if callable(self.effect) else self.effect
        if isinstance(found, Mapping):
            found = found.get(setting.new.get(self.keys, self.default).strip().lower())
        if isinstance(found, str):
            return (effect(found),)
        return (found,) if isinstance(found, Effect) else found


def rules_of(kind: Kind, classes: str, *rules: Rule) -> tuple[Rule, ...]:
    """The rules, for connectors of one kind and these classes."""
    return tuple(replace(rule, kind=kind, classes=classes) for rule in rules)
