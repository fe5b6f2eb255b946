"""Positions at which connectors begin to read: new ones, recreated ones, and sinks of a new group.

Offsets outlive a connector: those of an earlier one of its name count, as far as its config still
reads the same partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from connect_reconciler.model.live import TopicLogs
from connect_reconciler.model.offsets import Offsets, sink_offset, sink_partition
from connect_reconciler.plan.consequences.rule import RuleContext
from connect_reconciler.plan.offsets.moves import label_of, place_of
from connect_reconciler.plan.offsets.sink_positions import may_read, sink_start, sink_topics
from connect_specs.desired import OffsetEntry
from connect_specs.plain_text import counted
from connect_specs.plugin_definitions import CLASS_KEY

_SHOWN = 3
_DEBEZIUM = "io.debezium.connector."
_CHANGES_ALONE = "reads changes alone, from now on: rows that are there already are not read"
_SNAPSHOTS = {
    "initial": "reads all rows in a snapshot, then changes",
    "always": "reads all rows in a snapshot, then changes",
    "when_needed": "reads all rows in a snapshot, then changes",
    "initial_only": "reads all rows in a snapshot, and ends: no changes are read",
    "no_data": _CHANGES_ALONE,
    "schema_only": _CHANGES_ALONE,
    "never": _CHANGES_ALONE,
}


def beginning(context: RuleContext, offsets: Offsets) -> tuple[str, ...]:
    """Returns the effects of a creation; `offsets` are those that exist under its name."""
    start = _without_offsets(context)
    if context.live.rest_alone or context.name in context.live.unread_offsets:
        unknown = "unknown: offsets of an earlier connector of this name may exist"
        return (f"{unknown}; without them it {start}" if start else unknown,)
    if not offsets:
        return (start,) if start else ()
    earlier = "the offsets that an earlier connector of its name left"
    used = [entry for entry in offsets if _reads(entry, context) is not False]
    if not used:
        unused = f"{earlier} do not count: {places_of(tuple(offsets))}"
        return (start, unused) if start else (unused,)
    if all(_reads(entry, context) for entry in used):
        return (f"goes on from {earlier}, {places_of(used)}",)
    return (f"goes on from {earlier}, as far as it reads the same: {places_of(used)}",)


def places_of(offsets: Sequence[OffsetEntry]) -> str:
    """Returns the first few of these offsets, and the number of further ones."""
    places = [f"{label_of(entry.partition)} at {place_of(entry)}" for entry in offsets[:_SHOWN]]
    more = len(offsets) - _SHOWN
    return ", ".join(places) + (f" and {more:,} more" if more > 0 else "")


def first_start(context: RuleContext) -> str:
    """Returns the start of a sink whose group has no offsets yet."""
    start = sink_start(context.config, context.worker)
    if start == "latest":
        return "starts at the end of its topics: what is in them now is not delivered"
    if start != "earliest":
        return f"starts where auto.offset.reset={start} says"
    topics = sink_topics(context.config, context.logs.topics)
    amount = to_deliver(topics, context.logs)
    if amount and (delivered := _delivered(topics, context)):
        amount += f", at least {delivered:,} of them redelivered"
    return f"starts at the beginning of its topics{amount}"


def to_deliver(topics: Collection[str], logs: TopicLogs) -> str:
    """Returns the size of those topics; empty unless the logs of all partitions were observed."""
    partitions = [(topic, n) for topic in topics for n in range(logs.topics.get(topic, 0))]
    exist = topics and all(topic in logs.topics for topic in topics)
    if not exist or any(at not in logs.ranges for at in partitions):
        return ""
    ranges = [logs.ranges[at] for at in partitions]
    return f", {counted(sum(log.latest - log.earliest for log in ranges), 'offset')} to deliver"


def _delivered(topics: Collection[str], context: RuleContext) -> int:
    """Returns the number of offsets in those topics that the sink has delivered."""
    connector = context.live.connectors.get(context.name)
    delivered = 0
    for entry in () if connector is None else connector.offsets:
        partition, at = sink_partition(entry.partition), sink_offset(entry.offset)
        log = None if partition is None else context.logs.ranges.get(partition)
        if partition is not None and partition[0] in topics and at is not None and log is not None:
            delivered += max(0, min(at, log.latest) - log.earliest)
    return delivered


def _without_offsets(context: RuleContext) -> str:
    if context.kind == "sink":
        return first_start(context)
    if context.kind != "source":
        return ""
    name = context.config.get(CLASS_KEY, "")
    if name.startswith(_DEBEZIUM):
        mode = context.config.get("snapshot.mode", "").strip().lower() or "initial"
        return _SNAPSHOTS.get(mode, f"begins as snapshot.mode={mode} says")
    if "MirrorSource" in name:
        return f"copies its topics {mirror_start(context)}"
    return "reads from the start of its source"


def mirror_start(context: RuleContext) -> str:
    """Returns where MirrorSource begins in a partition without an offset."""
    keys = ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset", "auto.offset.reset")
    reset = next((context.config[key] for key in keys if key in context.config), "earliest")
    if reset.strip().lower() == "earliest":
        return "from their start"
    if reset.strip().lower() == "latest":
        return "from their end on, without what is in them now"
    return f"from where auto.offset.reset={reset} says"


def _reads(entry: OffsetEntry, context: RuleContext) -> bool | None:
    """Returns whether the config reads the offset's partition; None if that is unknown."""
    if context.kind == "sink":
        at = sink_partition(entry.partition)
        return at is not None and may_read(context.config, at[0])
    file = context.config.get("file", "")
    is_file = "FileStreamSource" in context.config.get(CLASS_KEY, "")
    if not is_file or "file" in context.hidden or "${" in file:
        return None
    return entry.partition == {"filename": file}
