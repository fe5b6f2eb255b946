"""What does moving an offset do to the data, in a reviewer's units?

For sinks in records, from the ranges of the logs; for sources by the shapes of offsets that are
known, else opaque. Says nothing about whether a move is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connect_reconciler.plan.actions import Counts, Direction, OffsetMove
from connect_reconciler.plan.amounts import records, span
from connect_reconciler.plan.live import Kind, Live, TopicPartition
from connect_reconciler.plan.source_offsets import source_effect
from connect_specs.desired import Offset, OffsetEntry, Partition
from connect_specs.offsets import canonical_partition, is_sink_partition

_UNREAD = ", as far as they are still there: the log cannot be read here"


@dataclass(frozen=True, slots=True)
class MoveContext:
    """What effects are told from. `start` is where a sink begins without an offset."""

    kind: Kind
    before: Mapping[str, OffsetEntry]
    live: Live
    start: str = "earliest"

    @classmethod
    def of(
        cls, kind: Kind, offsets: Iterable[OffsetEntry], live: Live, start: str = "earliest"
    ) -> MoveContext:
        """The context with the offsets that the connector has before the move."""
        before = {
            canonical_partition(entry.partition): entry
            for entry in offsets
            if entry.offset is not None
        }
        return cls(kind, before, live, start)


@dataclass(frozen=True, slots=True)
class _Effect:
    text: str
    direction: Direction
    again: int = 0
    skipped: int = 0
    gone: int = 0
    counted: bool = True


def sink_partition(partition: Partition) -> TopicPartition | None:
    """The topic partition that a sink's entry names, or None if it is of another shape."""
    if not is_sink_partition(partition):
        return None
    topic, number = partition["kafka_topic"], _whole(partition["kafka_partition"])
    return None if topic is None or number is None else (str(topic), number)


def sink_offset(offset: Offset | None) -> int | None:
    """The number in a sink's offset."""
    return None if offset is None else _whole(offset.get("kafka_offset"))


def move(entry: OffsetEntry, context: MoveContext) -> OffsetMove:
    """The move to `entry`, with its effect."""
    before = context.before.get(canonical_partition(entry.partition))
    effect = _effect(entry, before, context)
    counts = Counts(effect.again, effect.skipped, effect.gone) if effect.counted else None
    return OffsetMove(entry, before, effect.text, effect.direction, counts)


def totals(moves: Iterable[OffsetMove], context: MoveContext) -> str:
    """One line over several partitions, where records can be counted."""
    effects = [_effect(each.entry, each.before, context) for each in moves]
    again = sum(effect.again for effect in effects)
    skipped = sum(effect.skipped for effect in effects)
    gone = sum(effect.gone for effect in effects)
    parts = [
        f"{verb} {records(count)}{rest}"
        for verb, count, rest in (("delivers", again, " again"), ("skips", skipped, ""))
        if count
    ]
    if gone:
        parts.append(f"{records(gone)} {'are' if gone != 1 else 'is'} gone")
    if len(effects) < 2 or not parts:
        return ""
    return f"{len(effects)} partitions in all: {', '.join(parts)}"


def _effect(entry: OffsetEntry, before: OffsetEntry | None, context: MoveContext) -> _Effect:
    tp = sink_partition(entry.partition)
    was = None if before is None else before.offset
    if context.kind != "sink" or tp is None:
        text, direction = source_effect(entry.partition, was, entry.offset)
        return _Effect(text, direction, counted=False)
    old, new = sink_offset(was), sink_offset(entry.offset)
    if new is None:
        return _forgotten(tp, old, context)
    if old is None:
        return _started(tp, new, context)
    if old == new:
        return _Effect(f"{_label(tp)} stays at {new}", "same")
    return _back(tp, old, new, context) if new < old else _ahead(tp, old, new, context)


def _back(tp: TopicPartition, old: int, new: int, context: MoveContext) -> _Effect:
    log = context.live.logs.get(tp)
    head = f"{_label(tp)} {old} → {new}"
    if log is not None and old > log.latest:
        # The topic was made anew, or its end was lost: nothing there was delivered before
        count = log.latest - max(new, log.earliest)
        text = f"{head}: {old} lies beyond the log's end, {log.latest}: {records(count)} to deliver"
        return _Effect(text, "back", counted=False)
    gone = max(0, min(log.earliest, old) - new) if log else 0
    again = old - new - gone
    lasted = duration(context.live, tp, new + gone, old) if again else ""
    text = f"{head}: delivers {records(again)} again{lasted}"
    unread = _UNREAD if log is None and context.live.rest_alone else ""
    return _Effect(text + _gone(gone) + unread, "back", again=again, gone=gone)


def _ahead(tp: TopicPartition, old: int, new: int, context: MoveContext) -> _Effect:
    log = context.live.logs.get(tp)
    gone = max(0, min(log.earliest, new) - old) if log else 0
    skipped = new - old - gone
    lasted = duration(context.live, tp, old + gone, new) if skipped else ""
    text = f"{_label(tp)} {old} → {new}: skips {records(skipped)}{lasted}"
    return _Effect(text + _gone(gone), "ahead", skipped=skipped, gone=gone)


def _forgotten(tp: TopicPartition, old: int | None, context: MoveContext) -> _Effect:
    log, start = context.live.logs.get(tp), context.start
    if old is None:
        return _Effect(f"{_label(tp)} has no offset: nothing to forget", "same")
    head = f"{_label(tp)} {old} → none: offset is forgotten"
    if log is None or start not in ("earliest", "latest"):
        text = f"{head}: starts where auto.offset.reset={start} says"
        return _Effect(text, "forgotten", counted=False)
    gone = max(0, log.earliest - old)
    if start == "latest":
        skipped = max(0, log.latest - old - gone)
        lasted = duration(context.live, tp, old + gone, log.latest) if skipped else ""
        text = f"{head}: starts at the log's end, {log.latest}: skips {records(skipped)}{lasted}"
        return _Effect(text + _gone(gone), "forgotten", skipped=skipped, gone=gone)
    again = max(0, min(old, log.latest) - log.earliest)
    lasted = duration(context.live, tp, log.earliest, old) if again else ""
    text = f"{head}: starts at the log's start, {log.earliest}"
    return _Effect(f"{text}: delivers {records(again)} again{lasted}", "forgotten", again=again)


def _started(tp: TopicPartition, new: int, context: MoveContext) -> _Effect:
    log = context.live.logs.get(tp)
    head = f"{_label(tp)} none → {new}"
    if log is None:
        return _Effect(f"{head}: starts there", "start")
    gone = max(0, log.earliest - new)
    first = new + gone
    skipped, ahead = first - log.earliest, max(0, log.latest - first)
    passed = f", {records(skipped)} before it {'are' if skipped != 1 else 'is'} not delivered"
    text = f"{head}: starts there, {records(ahead)} to deliver{passed if skipped else ''}"
    return _Effect(text + _gone(gone), "start", skipped=skipped, gone=gone)


def _label(tp: TopicPartition) -> str:
    return f"{tp[0]}-{tp[1]}"


def _gone(count: int) -> str:
    if not count:
        return ""
    return f"; below the log's start: {records(count)} {'are' if count != 1 else 'is'} gone"


def duration(live: Live, partition: TopicPartition, first: int, end: int) -> str:
    """` (about 2 h 13 min)` between two records, where their timestamps are known."""
    since = live.record_times.get((*partition, first))
    log = live.logs.get(partition)
    at_end = log is not None and end >= log.latest
    until = live.now_ms if at_end else live.record_times.get((*partition, end))
    if not since or not until or until < since:
        return ""
    return f" (about {span((until - since) // 1000)})"


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        return None
