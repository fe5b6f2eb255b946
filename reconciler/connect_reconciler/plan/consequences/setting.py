"""What rules look at, and what they share: where a sink starts, and how much there is to read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.live import Kind, Live, LiveConnector
from connect_reconciler.plan.offsets.amounts import offsets
from connect_reconciler.plan.offsets.positions import sink_topics


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
        changes: Changes,
        live: Live,
        worker: Mapping[str, str],
        before: LiveConnector | None = None,
    ) -> Setting:
        """The setting of one connector's changes; `before` is what it was under its old name."""
        before = before or changes.live
        old = changes.cover.shown(before.config if before else {})
        old_kind = before.kind if before else "unknown"
        old_name = before.name if before else changes.name
        written = changes.written or {}
        new = changes.cover.shown(written)
        hidden = frozenset(key for key, text in written.items() if new[key] != text)
        around = live.around(changes.name)
        return cls(changes.name, old_name, changes.kind, old_kind, old, new, hidden, around, worker)

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


def first_start(setting: Setting) -> str:
    """Where a sink begins whose group has no offsets yet."""
    start = sink_start(setting.new, setting.worker)
    if start == "latest":
        return "starts at the end of its topics: what is in them now is not delivered"
    if start != "earliest":
        return f"starts where auto.offset.reset={start} says"
    topics = sink_topics(setting.new, setting.live.topics)
    amount = to_deliver(topics, setting.live)
    again = _delivered(topics, setting) if amount else 0
    of_them = f", at least {again:,} of them again" if again else ""
    return f"starts at the beginning of its topics{amount}{of_them}"


def _delivered(topics: Collection[str], setting: Setting) -> int:
    """How much of those topics the sink has delivered that is still in them."""
    connector = setting.live.connectors.get(setting.name)
    found = 0
    for entry in () if connector is None else connector.offsets:
        topic, number = entry.partition.get("kafka_topic"), entry.partition.get("kafka_partition")
        at = None if entry.offset is None else entry.offset.get("kafka_offset")
        if topic in topics and isinstance(number, int) and isinstance(at, int):
            log = setting.live.logs.get((str(topic), number))
            found += 0 if log is None else max(0, min(at, log.latest) - log.earliest)
    return found


def to_deliver(topics: Collection[str], live: Live) -> str:
    """`, 500 offsets to deliver`, or nothing unless every partition's log was observed."""
    partitions = [(topic, n) for topic in topics for n in range(live.topics.get(topic, 0))]
    known = topics and all(topic in live.topics for topic in topics)
    if not known or any(at not in live.logs for at in partitions):
        return ""
    logs = [live.logs[at] for at in partitions]
    return f", {offsets(sum(log.latest - log.earliest for log in logs))} to deliver"
