"""Effects of moving an offset: how much is redelivered, jumped over or deleted.

For sinks it is counted in offsets, for sources in the units of the shapes that are known. A
connector that still runs reads on until it is stopped, so its numbers are bounds: at least so much
is redelivered, at most so much is jumped over. plan/checks decides which moves are allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from connect_reconciler.actions import Counts, OffsetMove
from connect_reconciler.model.live import Kind, LiveConnector, RecordAt, TopicLogs
from connect_reconciler.model.offsets import Offsets, TopicPartition, sink_offset, sink_partition
from connect_reconciler.plan.offsets.sink_positions import may_read
from connect_reconciler.plan.offsets.source_moves import (
    MoveEffect,
    no_offset,
    offset_text,
    partition_label,
    source_move,
    stays,
)
from connect_specs.desired import OffsetEntry, Partition, Position, TargetState, partition_key
from connect_specs.plain_text import counted, span

# Exactness of a number; `bounds`: at least so much is redelivered, or at most jumped over
Bound: TypeAlias = Literal["exact", "bounds", "about"]


@dataclass(frozen=True, slots=True)
class MoveContext:
    """The facts that the effects of a move depend on.

    `config` is the one after the move; `start` is the position at which a sink without an offset
    begins. `reader` is the connector if it reads on: when it is stopped, it is further than
    `current`. `unknown` is the reason why `current` could not be read. `to` is the position of a
    pin, if its offsets are only those of that position at present.
    """

    kind: Kind
    current: Offsets
    logs: TopicLogs
    config: Mapping[str, str]
    start: str
    reader: LiveConnector | None
    unknown: str
    to: Position | None = None

    @property
    def reads_on(self) -> bool:
        """Returns whether the connector will commit more before it is stopped."""
        return self.reader is not None

    @property
    def bound(self) -> Bound:
        """Returns how exact the numbers of a move are."""
        if self.to is not None:
            return "about"
        return "bounds" if self.reads_on else "exact"

    def of_topic(self, topic: str) -> MoveContext:
        """Returns the context of one topic: a sink reads on only in topics that it reads now."""
        if self.reader is None or may_read(self.reader.config, topic):
            return self
        return replace(self, reader=None)

    def redelivered(self, count: int, duration: str = "") -> str:
        """Returns the effect that this many offsets are redelivered."""
        if self.reads_on and not count:
            return "what it reads until it is stopped is re-read"
        return f"{_redelivers(count, self.bound)}{duration}"

    def skipped(self, count: int, duration: str) -> str:
        """Returns the effect that this many offsets are jumped over."""
        bound: Bound = "exact" if self.bound == "bounds" and not count else self.bound
        return f"{_jumps(count, bound)}{duration}"

    def counts(self, redelivered: int = 0, skipped: int = 0, gone: int = 0) -> Counts:
        """Returns the numbers of a move."""
        return Counts(redelivered, skipped, gone, exact=self.bound == "exact")

    def place(self, offset: int | None) -> str:
        """Returns the offset that a move leads to."""
        estimated = self.to is not None and offset is not None
        return f"{sink_text(offset)} by now" if estimated else sink_text(offset)


def reading(connector: LiveConnector | None) -> LiveConnector | None:
    """Returns the connector if it may commit offsets before it is stopped: a paused connector has
    read ahead of its last commit, and tasks of one that was just stopped commit once more."""
    if connector is None or (connector.target is TargetState.STOPPED and not connector.task_states):
        return None
    return connector


def move(entry: OffsetEntry, context: MoveContext) -> OffsetMove:
    """Returns the move to `entry`, with its effect."""
    current = context.current.entry(entry.partition)
    return OffsetMove(entry, current, *_effect(entry, current, context))


def moves_to(entries: Iterable[OffsetEntry], context: MoveContext) -> tuple[OffsetMove, ...]:
    """Returns the moves to these entries in order: partition 10 of a topic after partition 9."""
    return tuple(move(entry, context) for entry in sorted(entries, key=_in_order))


def _in_order(entry: OffsetEntry) -> tuple[TopicPartition, str]:
    return sink_partition(entry.partition) or ("", 0), partition_key(entry.partition)


def totals(moves: Iterable[OffsetMove], *, estimated: bool = False) -> tuple[str, ...]:
    """Returns the sum over several partitions of topics, as far as it can be counted."""
    sinks = [move for move in moves if sink_partition(move.entry.partition) is not None]
    counts = [move.counts for move in sinks if move.counts is not None]
    bound: Bound = "exact" if all(count.exact for count in counts) else "bounds"
    bound = "about" if estimated else bound
    sums = []
    if redelivered := sum(count.redelivered for count in counts):
        sums.append(_redelivers(redelivered, bound))
    if skipped := sum(count.skipped for count in counts):
        sums.append(_jumps(skipped, bound))
    if gone := sum(count.gone for count in counts):
        sums.append(_gone(gone))
    if len(sinks) < 2 or not sums:
        return ()
    if uncounted := len(sinks) - len(counts):
        sums.append(f"and what cannot be counted in {uncounted:,} of them")
    return (f"{len(sinks):,} partitions in all: {', '.join(sums)}",)


def sink_text(offset: int | None) -> str:
    """Returns a sink's offset in a sentence."""
    return "none" if offset is None else str(offset)


def label_of(partition: Partition) -> str:
    """Returns `orders-0`, or the fields that name a source's partition."""
    tp = sink_partition(partition)
    return partition_label(partition) if tp is None else _label(tp)


def place_of(entry: OffsetEntry) -> str:
    """Returns `98000`, or the fields of a source's offset."""
    number = sink_offset(entry.offset) if sink_partition(entry.partition) else None
    return offset_text(entry.offset or {}) if number is None else str(number)


def _effect(entry: OffsetEntry, previous: OffsetEntry | None, context: MoveContext) -> MoveEffect:
    tp = sink_partition(entry.partition)
    if context.unknown and previous is None:
        target = sink_text(sink_offset(entry.offset))
        if entry.offset and tp is None:
            target = offset_text(entry.offset)
        unknown = f"where it is now is not known: {context.unknown}"
        return f"{label_of(entry.partition)} → {target}: {unknown}", "unclear", None
    offset = None if previous is None else previous.offset
    if context.kind != "sink" or tp is None:
        return source_move(entry.partition, offset, entry.offset, reads_on=context.reads_on)
    return _sink_move(tp, sink_offset(offset), sink_offset(entry.offset), context.of_topic(tp[0]))


def _sink_move(
    tp: TopicPartition, current: int | None, target: int | None, context: MoveContext
) -> MoveEffect:
    if not may_read(context.config, tp[0]):
        effect = "the sink does not read this topic"
        return _sentence(context, tp, current, target, effect), "same", Counts()
    if target is None:
        return _forgotten(tp, current, context)
    log = context.logs.ranges.get(tp)
    if log is not None and target < log.earliest and context.start != "earliest":
        # A reset does not lead to the log's start
        effect = f"{target} lies below the log's start, {log.earliest}: {_by_reset(context)}"
        return _sentence(context, tp, current, target, effect), "unclear", None
    if current is None:
        return _started(tp, target, context)
    if current == target and context.to is None:
        unchanged = stays(_label(tp), str(target), reads_on=context.reads_on)
        return unchanged, "same", context.counts()
    back = target < current or (target == current and context.to != "latest")
    return (_back if back else _ahead)(tp, current, target, context)


def _back(tp: TopicPartition, current: int, target: int, context: MoveContext) -> MoveEffect:
    log = context.logs.ranges.get(tp)
    if log is not None and current > log.latest:
        # The topic was recreated, or its end was lost: nothing in it was delivered before
        deliverable = counted(log.latest - max(target, log.earliest), "offset")
        effect = f"{current} lies beyond the log's end, {log.latest}: {deliverable} to deliver"
        return _sentence(context, tp, current, target, effect), "back", None
    first = max(target, log.earliest) if log else target
    gone, count = first - target, max(0, current - first)
    effect = context.redelivered(count, _duration(context, tp, first, current))
    unread = log is None and not context.logs.complete
    sentence = _sentence(context, tp, current, target, effect, gone=gone, unread=unread)
    return sentence, "back", context.counts(count, gone=gone)


def _ahead(tp: TopicPartition, current: int, target: int, context: MoveContext) -> MoveEffect:
    log = context.logs.ranges.get(tp)
    gone = max(0, log.earliest - current) if log else 0
    count = max(0, target - current - gone)
    effect = context.skipped(count, _duration(context, tp, current + gone, target))
    sentence = _sentence(context, tp, current, target, effect, gone=gone)
    return sentence, "ahead", context.counts(skipped=count, gone=gone)


def _forgotten(tp: TopicPartition, current: int | None, context: MoveContext) -> MoveEffect:
    log = context.logs.ranges.get(tp)
    if current is None:
        return no_offset(_label(tp)), "same", context.counts()
    if log is None or context.start not in ("earliest", "latest"):
        effect = _by_reset(context)
        return _sentence(context, tp, current, None, effect), "forgotten", None
    gone = max(0, log.earliest - current)
    if context.start == "latest":
        # Records that are written until it starts are skipped too: their number is unknown
        count = max(0, log.latest - current - gone)
        duration = _duration(context, tp, current + gone, log.latest)
        effect = (
            f"starts at the log's end, {log.latest} by now: jumps over {counted(count, 'offset')}"
            f" as of now{duration}"
        )
        return _sentence(context, tp, current, None, effect, gone=gone), "forgotten", None
    end = min(current, log.latest)
    count = max(0, end - log.earliest)
    duration = _duration(context, tp, log.earliest, end)
    effect = f"starts at the log's start, {log.earliest}: {context.redelivered(count, duration)}"
    sentence = _sentence(context, tp, current, None, effect, gone=gone)
    return sentence, "forgotten", context.counts(count, gone=gone)


def _started(tp: TopicPartition, target: int, context: MoveContext) -> MoveEffect:
    log = context.logs.ranges.get(tp)
    if log is None:
        return _sentence(context, tp, None, target, "starts there"), "start", None
    gone = max(0, log.earliest - target)
    first = target + gone
    effect = f"starts there, {counted(max(0, log.latest - first), 'offset')} to deliver"
    if context.reads_on and log.latest > log.earliest:
        effect += "; it has committed nothing there, and what it has read is re-read"
        return _sentence(context, tp, None, target, effect, gone=gone), "unclear", None
    skipped = first - log.earliest
    if skipped:
        effect += f", {counted(skipped, 'offset')} before it {_are(skipped)} not delivered"
    sentence = _sentence(context, tp, None, target, effect, gone=gone)
    return sentence, "start", context.counts(skipped=skipped, gone=gone)


def _sentence(
    context: MoveContext,
    tp: TopicPartition,
    current: int | None,
    target: int | None,
    effect: str,
    *,
    gone: int = 0,
    unread: bool = False,
) -> str:
    deleted = f"; below the log's start: {_gone(gone)}" if gone else ""
    unsure = ", as far as they are still there: the log cannot be read here" if unread else ""
    places = f"{sink_text(current)} → {context.place(target)}"
    return f"{_label(tp)} {places}: {effect}{deleted}{unsure}"


def _redelivers(count: int, bound: Bound) -> str:
    words = {"exact": "", "bounds": "at least ", "about": "about "}
    return f"redelivers {words[bound]}{counted(count, 'offset')}"


def _jumps(count: int, bound: Bound) -> str:
    words = {"exact": "", "bounds": "at most ", "about": "about "}
    return f"jumps over {words[bound]}{counted(count, 'offset')}"


def _gone(count: int) -> str:
    return f"{counted(count, 'offset')} {_are(count)} gone"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _by_reset(context: MoveContext) -> str:
    return f"starts where auto.offset.reset={context.start} says"


def _label(tp: TopicPartition) -> str:
    return f"{tp[0]}-{tp[1]}"


def _duration(context: MoveContext, partition: TopicPartition, first: int, end: int) -> str:
    """Returns the time over which two records were written; empty if it is unknown."""
    since = context.logs.timestamps.get(RecordAt(*partition, first))
    until = context.logs.timestamps.get(RecordAt(*partition, end))
    if end <= first or not since or not until or until < since:
        return ""
    seconds = (until - since) // 1000
    return f" (written over about {span(seconds)})" if seconds else ""
