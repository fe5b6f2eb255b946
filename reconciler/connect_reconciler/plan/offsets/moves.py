"""What moving an offset does to the data: how much is redelivered, jumped over or gone.

For sinks it is counted in offsets, for sources in the units of the shapes that are known. A
connector that still runs reads on until it is stopped, so its numbers are bounds: at least what is
redelivered, at most what is jumped over. Whether a move is allowed is for plan/checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from connect_reconciler.model.actions import Counts, OffsetMove
from connect_reconciler.model.live import Kind, LiveConnector, RecordAt, TopicLogs
from connect_reconciler.model.offsets import Offsets, TopicPartition, sink_offset, sink_partition
from connect_reconciler.model.reasons import Effect, EffectCode, Effects, effect
from connect_reconciler.plan.offsets.sink_positions import may_read
from connect_reconciler.plan.offsets.source_moves import (
    Moved,
    offset_text,
    partition_label,
    source_move,
    stays,
)
from connect_specs.desired import OffsetEntry, Partition, Position
from connect_specs.partitions import partition_key
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class MoveContext:
    """What the effects of a move depend on. `config` is the one that it has after the move, `start`
    where a sink begins without an offset. `reader` is the connector if it reads on: by the time
    that it is stopped, it is further than `before`. `to` is where a pin leads, if offsets are only
    where that is now."""

    kind: Kind
    before: Offsets
    logs: TopicLogs
    config: Mapping[str, str]
    start: str
    reader: LiveConnector | None
    unknown: str
    to: Position | None = None

    @property
    def reads_on(self) -> bool:
        """Whether the connector will commit more before it is stopped."""
        return self.reader is not None

    def of_topic(self, topic: str) -> MoveContext:
        """The context for one topic: a sink reads on only in topics that it reads now."""
        if self.reader is None or may_read(self.reader.config, topic):
            return self
        return replace(self, reader=None)

    def will_read(self, topic: str) -> bool:
        """Whether it reads the topic after the move."""
        return may_read(self.config, topic)

    def again(self, count: int, lasted: Effect | None = None) -> Effect:
        """The effect that this many offsets are redelivered."""
        if self.reads_on and not count:
            return effect("reads-until-stopped")
        code: EffectCode = "delivers-at-least-again" if self.reads_on else "delivers-again"
        if self.to is not None:
            code = "delivers-about-again"
        return effect(code, count=count, lasted=lasted)

    def skipped(self, count: int, lasted: Effect | None) -> Effect:
        """The effect that this many offsets are jumped over."""
        code: EffectCode = "skips-at-most" if self.reads_on and count else "skips"
        if self.to is not None:
            code = "skips-about"
        return effect(code, count=count, lasted=lasted)

    def counts(self, again: int = 0, skipped: int = 0, gone: int = 0) -> Counts:
        """The numbers of a move."""
        exact = not self.reads_on and self.to is None
        return Counts(again, skipped, gone, exact=exact)

    def place(self, offset: int | None) -> str | Effect:
        """The offset that a move leads to."""
        if self.to is None or offset is None:
            return sink_text(offset)
        return effect("position-now", offset=str(offset))


def reading(connector: LiveConnector | None) -> LiveConnector | None:
    """The connector if it may commit offsets before it is stopped: a paused connector has read
    ahead of its last commit, and tasks of one that was just stopped commit once more."""
    if connector is None or (connector.target is TargetState.STOPPED and not connector.task_states):
        return None
    return connector


def move(entry: OffsetEntry, context: MoveContext) -> OffsetMove:
    """The move to `entry`, with its effect."""
    before = context.before.entry(entry.partition)
    return OffsetMove(entry, before, *_moved(entry, before, context))


def moves_to(entries: Iterable[OffsetEntry], context: MoveContext) -> tuple[OffsetMove, ...]:
    """The moves to these entries, in order: partition 10 of a topic comes after its partition 9."""
    return tuple(move(entry, context) for entry in sorted(entries, key=_in_order))


def _in_order(entry: OffsetEntry) -> tuple[TopicPartition, str]:
    return sink_partition(entry.partition) or ("", 0), partition_key(entry.partition)


def totals(moves: Iterable[OffsetMove], *, estimated: bool = False) -> Effects:
    """The sum over several partitions of topics, as far as it can be counted."""
    sinks = [each for each in moves if sink_partition(each.entry.partition) is not None]
    counts = [each.counts for each in sinks if each.counts is not None]
    exact = all(each.exact for each in counts)
    again, skipped = sum(each.again for each in counts), sum(each.skipped for each in counts)
    gone = sum(each.gone for each in counts)
    parts = []
    if again:
        code: EffectCode = "delivers-again" if exact else "delivers-at-least-again"
        code = "delivers-about-again" if estimated else code
        parts.append(effect(code, count=again, lasted=None))
    if skipped:
        code = "skips" if exact else "skips-at-most"
        code = "skips-about" if estimated else code
        parts.append(effect(code, count=skipped, lasted=None))
    if gone:
        parts.append(effect("gone", count=gone))
    if len(sinks) < 2 or not parts:
        return ()
    if uncounted := len(sinks) - len(counts):
        parts.append(effect("uncounted", count=uncounted))
    return (effect("totals", count=len(sinks), parts=tuple(parts)),)


def _moved(entry: OffsetEntry, before: OffsetEntry | None, context: MoveContext) -> Moved:
    tp = sink_partition(entry.partition)
    if context.unknown and before is None:
        there = sink_text(sink_offset(entry.offset))
        if entry.offset and tp is None:
            there = offset_text(entry.offset)
        label = label_of(entry.partition)
        unknown = effect("from-unknown", partition=label, new=there, why=context.unknown)
        return unknown, "unclear", None
    was = None if before is None else before.offset
    if context.kind != "sink" or tp is None:
        return source_move(entry.partition, was, entry.offset, reads_on=context.reads_on)
    context = context.of_topic(tp[0])
    old, new = sink_offset(was), sink_offset(entry.offset)
    if not context.will_read(tp[0]):
        return _told(context, tp, old, new, effect("topic-not-read")), "same", Counts()
    if new is None:
        return _forgotten(tp, old, context)
    log = context.logs.ranges.get(tp)
    if log is not None and new < log.earliest and context.start != "earliest":
        return _elsewhere(tp, old, new, context)
    if old is None:
        return _started(tp, new, context)
    if old == new and context.to is None:
        return stays(_label(tp), str(new), reads_on=context.reads_on), "same", context.counts()
    back = new < old or (new == old and context.to != "latest")
    return _back(tp, old, new, context) if back else _ahead(tp, old, new, context)


def _told(
    context: MoveContext,
    tp: TopicPartition,
    old: int | None,
    new: int | None,
    what: Effect,
    *,
    gone: int = 0,
    unread: bool = False,
) -> Effect:
    return effect(
        "moved",
        partition=_label(tp),
        old=sink_text(old),
        new=context.place(new),
        what=what,
        gone=effect("below-start-gone", count=gone) if gone else None,
        unread=effect("unread-log") if unread else None,
    )


def _back(tp: TopicPartition, old: int, new: int, context: MoveContext) -> Moved:
    log = context.logs.ranges.get(tp)
    if log is not None and old > log.latest:
        # The topic was made anew, or its end was lost: nothing there was delivered before
        count = log.latest - max(new, log.earliest)
        beyond = effect("was-beyond-end", old=str(old), end=str(log.latest), count=count)
        return _told(context, tp, old, new, beyond), "back", None
    first = max(new, log.earliest) if log else new
    gone, again = first - new, max(0, old - first)
    what = context.again(again, _lasted(context.logs, tp, first, old) if again else None)
    unread = log is None and not context.logs.complete
    text = _told(context, tp, old, new, what, gone=gone, unread=unread)
    return text, "back", context.counts(again, gone=gone)


def _ahead(tp: TopicPartition, old: int, new: int, context: MoveContext) -> Moved:
    log = context.logs.ranges.get(tp)
    gone = max(0, log.earliest - old) if log else 0
    skipped = max(0, new - old - gone)
    lasted = _lasted(context.logs, tp, old + gone, new) if skipped else None
    text = _told(context, tp, old, new, context.skipped(skipped, lasted), gone=gone)
    return text, "ahead", context.counts(skipped=skipped, gone=gone)


def _elsewhere(tp: TopicPartition, old: int | None, new: int, context: MoveContext) -> Moved:
    """An offset below the log's start, where a reset does not lead to that start."""
    start, then = context.logs.ranges[tp].earliest, effect("start-by-reset", start=context.start)
    below = effect("is-below-start", new=str(new), start=str(start), then=then)
    return _told(context, tp, old, new, below), "unclear", None


def _forgotten(tp: TopicPartition, old: int | None, context: MoveContext) -> Moved:
    log, start = context.logs.ranges.get(tp), context.start
    if old is None:
        return effect("no-offset", partition=_label(tp)), "same", context.counts()
    if log is None or start not in ("earliest", "latest"):
        by_reset = effect("start-by-reset", start=start)
        return _told(context, tp, old, None, by_reset), "forgotten", None
    gone = max(0, log.earliest - old)
    if start == "latest":
        # What is written until it starts is skipped too, and nobody knows how much that is
        skipped = max(0, log.latest - old - gone)
        lasted = _lasted(context.logs, tp, old + gone, log.latest) if skipped else None
        at_end = effect("starts-at-end", end=str(log.latest), count=skipped, lasted=lasted)
        return _told(context, tp, old, None, at_end, gone=gone), "forgotten", None
    again = max(0, min(old, log.latest) - log.earliest)
    lasted = _lasted(context.logs, tp, log.earliest, min(old, log.latest)) if again else None
    repeats = context.again(again, lasted)
    at_start = effect("starts-at-start", start=str(log.earliest), again=repeats)
    text = _told(context, tp, old, None, at_start, gone=gone)
    return text, "forgotten", context.counts(again, gone=gone)


def _started(tp: TopicPartition, new: int, context: MoveContext) -> Moved:
    log = context.logs.ranges.get(tp)
    if log is None:
        return _told(context, tp, None, new, effect("starts-there")), "start", None
    gone = max(0, log.earliest - new)
    first = new + gone
    skipped, ahead = first - log.earliest, max(0, log.latest - first)
    if context.reads_on and log.latest > log.earliest:
        what = effect("starts-there-counted", count=ahead, more=effect("read-uncommitted"))
        return _told(context, tp, None, new, what, gone=gone), "unclear", None
    more = effect("not-delivered-before", count=skipped) if skipped else None
    what = effect("starts-there-counted", count=ahead, more=more)
    counts = context.counts(skipped=skipped, gone=gone)
    return _told(context, tp, None, new, what, gone=gone), "start", counts


def sink_text(offset: int | None) -> str | Effect:
    """A sink's offset as a sentence has it."""
    return effect("none") if offset is None else str(offset)


def label_of(partition: Partition) -> str:
    """`orders-0`, or the fields that name a source's partition."""
    tp = sink_partition(partition)
    return partition_label(partition) if tp is None else _label(tp)


def place_of(entry: OffsetEntry) -> str:
    """`98000`, or the fields of a source's offset."""
    number = sink_offset(entry.offset) if sink_partition(entry.partition) else None
    return offset_text(entry.offset or {}) if number is None else str(number)


def _label(tp: TopicPartition) -> str:
    return f"{tp[0]}-{tp[1]}"


def _lasted(logs: TopicLogs, partition: TopicPartition, first: int, end: int) -> Effect | None:
    """Over how long two records were written, where their timestamps are known."""
    since = logs.timestamps.get(RecordAt(*partition, first))
    until = logs.timestamps.get(RecordAt(*partition, end))
    if not since or not until or until < since:
        return None
    seconds = (until - since) // 1000
    return effect("lasted", seconds=seconds) if seconds else None
