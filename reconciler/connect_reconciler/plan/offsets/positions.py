"""Where is `to: earliest`, `latest` or a time, in every partition that a sink reads?

Resolved when the plan is made: the plan holds numbers, and a saved plan applies those numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from connect_reconciler.plan.live import Live, TopicPartition
from connect_runtime.api import java_regex
from connect_specs.desired import OffsetEntry, Position

Problem: TypeAlias = tuple[str, str, str]

# A consumer that subscribes by a pattern leaves these out
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def sink_topics(config: Mapping[str, str], existing: Iterable[str]) -> tuple[str, ...]:
    """The topics that a sink reads, sorted: those that it names, or those of `existing` that its
    pattern matches. A pattern that is not understood here matches nothing."""
    if not config.get("topics.regex", "").strip():
        return tuple(sorted({each.strip() for each in config.get("topics", "").split(",")} - {""}))
    pattern = _pattern(config)
    if pattern is None:
        return ()
    found = (topic for topic in existing if topic not in _INTERNAL and pattern.fullmatch(topic))
    return tuple(sorted(found))


def may_read(config: Mapping[str, str], topic: str) -> bool:
    """Whether a sink reads the topic, as far as its config tells without a worker's help."""
    named = config.get("topics", ""), config.get("topics.regex", "")
    if any("${" in text for text in named) or (named[1].strip() and _pattern(config) is None):
        return True
    return topic in sink_topics(config, (topic,))


def sink_partitions(config: Mapping[str, str], topics: Mapping[str, int]) -> set[TopicPartition]:
    """The partitions of those topics, as far as the topics exist; `topics` by their number."""
    return {
        (topic, number)
        for topic in sink_topics(config, topics)
        for number in range(topics.get(topic, 0))
    }


def entries_at(to: Position, config: Mapping[str, str], live: Live) -> tuple[OffsetEntry, ...]:
    """An entry for every partition whose offset at `to` is known."""
    found = (
        (topic, number, _offset(to, (topic, number), live))
        for topic, number in sorted(sink_partitions(config, live.topics))
    )
    return tuple(
        OffsetEntry({"kafka_topic": topic, "kafka_partition": number}, {"kafka_offset": offset})
        for topic, number, offset in found
        if offset is not None
    )


def position_problem(to: Position, config: Mapping[str, str], live: Live) -> Problem | None:
    """Why `to` cannot be resolved for this sink: a code, what is wrong and a hint."""
    if live.rest_alone:
        what = f"where {position_text(to)} is cannot be told: the log cannot be read over REST"
        hint = "write the offsets under 'set', or add cluster.kafka to connect.yaml"
        return "plan.log-unknown", what, hint
    if live.hidden:
        what = f"where {position_text(to)} is cannot be told: {live.hidden}"
        return "plan.log-unknown", what, "write the offsets under 'set'"
    topics = sink_topics(config, live.topics)
    pattern = config.get("topics.regex", "").strip()
    hint = "create the topics first, or give the offsets once they are there"
    if pattern and _pattern(config) is None:
        # Java's patterns allow more than Python's
        what = f"topics.regex {pattern} is not understood here, so its topics are not known"
        return "plan.no-topics", what, "write set: with an offset for each partition"
    if not topics:
        what = f"no topic matches topics.regex {pattern}" if pattern else "the sink names no topics"
        return "plan.no-topics", f"{what}, so there is nothing to move to {position_text(to)}", hint
    missing = [topic for topic in topics if topic not in live.topics]
    if missing:
        one = len(missing) == 1
        names = f"topic {missing[0]} does" if one else f"topics {', '.join(missing)} do"
        return "plan.no-topics", f"{names} not exist", hint
    for topic, number in sorted(sink_partitions(config, live.topics)):
        if _offset(to, (topic, number), live) is None:
            what = f"where {topic}-{number} is at {position_text(to)} could not be read"
            return "plan.no-position", what, "make the plan again once the partition has a leader"
    return None


def position_text(to: Position) -> str:
    """`earliest`, `latest`, or a time as ISO 8601 in UTC."""
    if isinstance(to, str):
        return to
    try:
        moment = datetime.fromtimestamp(to // 1000, UTC).replace(microsecond=to % 1000 * 1000)
    except (OverflowError, ValueError, OSError):
        return f"{to} ms since 1970"
    precision = "milliseconds" if to % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _pattern(config: Mapping[str, str]) -> re.Pattern[str] | None:
    try:
        return java_regex.compile(config.get("topics.regex", "").strip())
    except java_regex.InvalidPattern:
        return None


def _offset(to: Position, at: TopicPartition, live: Live) -> int | None:
    log = live.logs.get(at)
    if log is None:
        return None
    if to == "earliest":
        return log.earliest
    if to == "latest":
        return log.latest
    return live.times.get((*at, to))
