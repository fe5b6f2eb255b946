"""What does moving an offset do to the data, in a reviewer's units?

For sinks in offsets of the logs, for sources by the shapes of offsets that are known, else opaque.
Of a connector that reads on until it is stopped, the numbers are bounds: at least what is
delivered again, at most what is skipped. Says nothing about whether a move is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from connect_reconciler.plan.actions import Counts, OffsetMove
from connect_reconciler.plan.live import Kind, Live, LiveConnector, TopicPartition
from connect_reconciler.plan.offsets.amounts import offsets, span
from connect_reconciler.plan.offsets.positions import may_read
from connect_reconciler.plan.offsets.source_offsets import (
    UNTIL_STOPPED,
    Effect,
    offset_text,
    partition_label,
    source_effect,
)
from connect_specs.desired import Offset, OffsetEntry, Partition
from connect_specs.offsets import canonical_partition, is_sink_partition
from connect_specs.states import TargetState

_UNREAD = ", as far as they are still there: the log cannot be read here"


@dataclass(frozen=True, slots=True)
class MoveContext:
    """What effects are told from. `config` is the one that it has after the move, `start` where a
    sink begins without an offset. `reader` is the connector if it reads on: by the time that it is
    stopped, it is further than `before`."""

    kind: Kind
    before: Mapping[str, OffsetEntry]
    live: Live
    config: Mapping[str, str]
    start: str = "earliest"
    reader: LiveConnector | None = None

    @classmethod
    def of(
        cls,
        kind: Kind,
        offsets: Iterable[OffsetEntry],
        live: Live,
        config: Mapping[str, str],
        start: str,
        reader: LiveConnector | None,
    ) -> MoveContext:
        """The context with the offsets that the connector has before the move."""
        before = {
            canonical_partition(entry.partition): entry
            for entry in offsets
            if entry.offset is not None
        }
        return cls(kind, before, live, config, start, reader)

    @property
    def reads_on(self) -> bool:
        """Whether what is committed by now is not all that will be."""
        return self.reader is not None

    def of_topic(self, topic: str) -> MoveContext:
        """The same for a sink's partition: it reads on only in topics that it reads now."""
        if self.reader is None or may_read(self.reader.config, topic):
            return self
        return replace(self, reader=None)

    def will_read(self, topic: str) -> bool:
        """Whether it reads the topic after the move."""
        return may_read(self.config, topic)

    def again(self, count: int, lasted: str = "") -> str:
        """What is said of so many offsets that are delivered again."""
        if self.reads_on and not count:
            return UNTIL_STOPPED.removeprefix(": ")
        return f"delivers {'at least ' if self.reads_on else ''}{offsets(count)} again{lasted}"

    def skipped(self, count: int, lasted: str = "") -> str:
        """What is said of so many offsets that are passed over."""
        bound = "at most " if self.reads_on and count else ""
        return f"skips {bound}{offsets(count)}{lasted}"

    def counts(self, again: int = 0, skipped: int = 0, gone: int = 0) -> Counts:
        """The numbers of a move."""
        return Counts(again, skipped, gone, exact=not self.reads_on)


def reading(connector: LiveConnector | None) -> LiveConnector | None:
    """The connector if its offsets move on until it is stopped, or may do so: what is paused has
    read ahead of its last commit, and what was just stopped has tasks that commit once more."""
    if connector is None or (connector.target is TargetState.STOPPED and not connector.task_states):
        return None
    return connector


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
    text, direction, counts = _effect(entry, before, context)
    return OffsetMove(entry, before, text, direction, counts)


def totals(moves: Iterable[OffsetMove]) -> str:
    """One line over several partitions of topics, where that can be counted."""
    sinks = [each for each in moves if sink_partition(each.entry.partition) is not None]
    counts = [each.counts for each in sinks if each.counts is not None]
    exact = all(each.exact for each in counts)
    again, skipped = sum(each.again for each in counts), sum(each.skipped for each in counts)
    gone = sum(each.gone for each in counts)
    parts = []
    if again:
        parts.append(f"delivers {'' if exact else 'at least '}{offsets(again)} again")
    if skipped:
        parts.append(f"skips {'' if exact else 'at most '}{offsets(skipped)}")
    if gone:
        parts.append(f"{offsets(gone)} {_are(gone)} gone")
    if len(sinks) < 2 or not parts:
        return ""
    if uncounted := len(sinks) - len(counts):
        parts.append(f"and what cannot be counted in {uncounted} of them")
    return f"{len(sinks)} partitions in all: {', '.join(parts)}"


def _effect(entry: OffsetEntry, before: OffsetEntry | None, context: MoveContext) -> Effect:
    tp = sink_partition(entry.partition)
    if context.live.hidden and before is None:
        label = partition_label(entry.partition) if tp is None else _label(tp)
        offset = sink_offset(entry.offset)
        there = offset_text(entry.offset) if entry.offset and tp is None else _or_none(offset)
        return (
            f"{label} → {there}: where it is now is not known: {context.live.hidden}",
            "unclear",
            None,
        )
    was = None if before is None else before.offset
    if context.kind != "sink" or tp is None:
        return source_effect(entry.partition, was, entry.offset, reads_on=context.reads_on)
    context = context.of_topic(tp[0])
    old, new = sink_offset(was), sink_offset(entry.offset)
    if not context.will_read(tp[0]):
        head = f"{_label(tp)} {_or_none(old)} → {_or_none(new)}"
        return f"{head}: the sink does not read this topic", "same", Counts()
    if new is None:
        return _forgotten(tp, old, context)
    log = context.live.logs.get(tp)
    if log is not None and new < log.earliest and context.start != "earliest":
        return _elsewhere(tp, old, new, context)
    if old is None:
        return _started(tp, new, context)
    if old == new:
        until = UNTIL_STOPPED if context.reads_on else ""
        return f"{_label(tp)} stays at {new}{until}", "same", context.counts()
    return _back(tp, old, new, context) if new < old else _ahead(tp, old, new, context)


def _back(tp: TopicPartition, old: int, new: int, context: MoveContext) -> Effect:
    log = context.live.logs.get(tp)
    head = f"{_label(tp)} {old} → {new}"
    if log is not None and old > log.latest:
        # The topic was made anew, or its end was lost: nothing there was delivered before
        count = log.latest - max(new, log.earliest)
        beyond = f"{old} lies beyond the log's end, {log.latest}"
        return f"{head}: {beyond}: {offsets(count)} to deliver", "back", None
    first = max(new, log.earliest) if log else new
    gone, again = first - new, max(0, old - first)
    lasted = duration(context.live, tp, first, old) if again else ""
    unread = _UNREAD if log is None and context.live.logs_unknown else ""
    text = f"{head}: {context.again(again, lasted)}{_gone(gone)}{unread}"
    return text, "back", context.counts(again, gone=gone)


def _ahead(tp: TopicPartition, old: int, new: int, context: MoveContext) -> Effect:
    log = context.live.logs.get(tp)
    gone = max(0, log.earliest - old) if log else 0
    skipped = max(0, new - old - gone)
    lasted = duration(context.live, tp, old + gone, new) if skipped else ""
    text = f"{_label(tp)} {old} → {new}: {context.skipped(skipped, lasted)}{_gone(gone)}"
    return text, "ahead", context.counts(skipped=skipped, gone=gone)


def _elsewhere(tp: TopicPartition, old: int | None, new: int, context: MoveContext) -> Effect:
    """An offset that is not in the log any more, where that does not mean the log's start."""
    below = f"{new} lies below the log's start, {context.live.logs[tp].earliest}"
    text = f"{_label(tp)} {_or_none(old)} → {new}: {below}: {_start(context.start)}"
    return text, "unclear", None


def _forgotten(tp: TopicPartition, old: int | None, context: MoveContext) -> Effect:
    log, start = context.live.logs.get(tp), context.start
    if old is None:
        return f"{_label(tp)} has no offset: nothing to forget", "same", context.counts()
    head = f"{_label(tp)} {old} → none"
    if log is None or start not in ("earliest", "latest"):
        return f"{head}: {_start(start)}", "forgotten", None
    gone = max(0, log.earliest - old)
    if start == "latest":
        # What is written until it starts is skipped too, and nobody knows how much that is
        skipped = max(0, log.latest - old - gone)
        lasted = duration(context.live, tp, old + gone, log.latest) if skipped else ""
        place = f"starts at the log's end, {log.latest} by now"
        text = f"{head}: {place}: skips {offsets(skipped)} as of now{lasted}{_gone(gone)}"
        return text, "forgotten", None
    again = max(0, min(old, log.latest) - log.earliest)
    lasted = duration(context.live, tp, log.earliest, min(old, log.latest)) if again else ""
    text = f"{head}: starts at the log's start, {log.earliest}: {context.again(again, lasted)}"
    return text + _gone(gone), "forgotten", context.counts(again, gone=gone)


def _started(tp: TopicPartition, new: int, context: MoveContext) -> Effect:
    log = context.live.logs.get(tp)
    head = f"{_label(tp)} none → {new}"
    if log is None:
        return f"{head}: starts there", "start", None
    gone = max(0, log.earliest - new)
    first = new + gone
    skipped, ahead = first - log.earliest, max(0, log.latest - first)
    text = f"{head}: starts there, {offsets(ahead)} to deliver"
    if context.reads_on and log.latest > log.earliest:
        text += "; it has committed nothing there, and what it has read comes again"
        return text + _gone(gone), "unclear", None
    passed = f", {offsets(skipped)} before it {_are(skipped)} not delivered"
    text += passed if skipped else ""
    return text + _gone(gone), "start", context.counts(skipped=skipped, gone=gone)


def _start(reset: str) -> str:
    return f"starts where auto.offset.reset={reset} says"


def _or_none(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def _label(tp: TopicPartition) -> str:
    return f"{tp[0]}-{tp[1]}"


def _gone(count: int) -> str:
    if not count:
        return ""
    return f"; below the log's start: {offsets(count)} {_are(count)} gone"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def duration(live: Live, partition: TopicPartition, first: int, end: int) -> str:
    """` (written over about 2 h 13 min)`, where the timestamps of the two records are known."""
    since = live.record_times.get((*partition, first))
    until = live.record_times.get((*partition, end))
    if not since or not until or until < since:
        return ""
    seconds = (until - since) // 1000
    return f" (written over about {span(seconds)})" if seconds else ""


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        return None
