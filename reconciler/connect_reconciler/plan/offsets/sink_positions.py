"""Resolves `to: earliest`, `latest` or a time to an offset in each partition that a sink reads.

A plan holds them as an estimate: an apply resolves them once the sink is stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from connect_reconciler.model.live import Live, TimeAt, TopicLogs
from connect_reconciler.model.offsets import TopicPartition
from connect_runtime.java import regex as java_regex
from connect_specs.desired import OffsetEntry, Position, sink_entry
from connect_specs.diagnostics import Diagnostic

# A consumer that subscribes by a pattern leaves these out
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def sink_topics(config: Mapping[str, str], existing: Iterable[str]) -> tuple[str, ...]:
    """Returns the topics that a sink reads, sorted: those that it names, or those of `existing`
    that its pattern matches. A pattern that only Java understands matches nothing."""
    if not config.get("topics.regex", "").strip():
        return tuple(sorted({name.strip() for name in config.get("topics", "").split(",")} - {""}))
    pattern = _pattern(config)
    if pattern is None:
        return ()
    matching = (topic for topic in existing if topic not in _INTERNAL and pattern.fullmatch(topic))
    return tuple(sorted(matching))


def may_read(config: Mapping[str, str], topic: str) -> bool:
    """Returns whether a sink reads the topic; True if that is unknown."""
    names, pattern = config.get("topics", ""), config.get("topics.regex", "")
    if "${" in names or "${" in pattern or (pattern.strip() and _pattern(config) is None):
        return True
    return topic in sink_topics(config, (topic,))


def sink_partitions(config: Mapping[str, str], topics: Mapping[str, int]) -> set[TopicPartition]:
    """Returns the partitions that a sink reads; `topics` has the number of each existing topic."""
    return {
        (topic, number)
        for topic in sink_topics(config, topics)
        for number in range(topics.get(topic, 0))
    }


def sink_start(config: Mapping[str, str], worker: Mapping[str, str]) -> str:
    """Returns the auto.offset.reset of a sink. Connect's default is `earliest`."""
    return (
        config.get("consumer.override.auto.offset.reset")
        or worker.get("consumer.auto.offset.reset")
        or "earliest"
    )


def entries_at(to: Position, config: Mapping[str, str], logs: TopicLogs) -> tuple[OffsetEntry, ...]:
    """Returns an entry for every partition whose offset at `to` is known."""
    partitions = sorted(sink_partitions(config, logs.topics))
    offsets = ((at, _offset(to, at, logs)) for at in partitions)
    return tuple(sink_entry(at, offset) for at, offset in offsets if offset is not None)


def position_problem(
    to: Position, config: Mapping[str, str], live: Live, name: str
) -> Diagnostic | None:
    """Returns the reason why `to` cannot be resolved for this sink, without a place."""
    unknown = f"the offset of {position_text(to)} is unknown"
    if live.rest_alone:
        hint = "write the offsets under 'set', or add cluster.kafka to connect.yaml"
        return _problem("plan.log-unknown", f"{unknown}: logs cannot be read over REST", hint)
    if name in live.unread_offsets:
        problem = f"{unknown}: {live.unread_offsets[name]}"
        return _problem("plan.log-unknown", problem, "write the offsets under 'set'")
    logs = live.logs_of(name)
    topics = sink_topics(config, logs.topics)
    pattern = config.get("topics.regex", "").strip()
    hint = "create the topics first, or give the offsets once they exist"
    if pattern and _pattern(config) is None:
        # Java's patterns allow more than Python's
        problem = f"topics.regex {pattern} is valid only in Java, so its topics are unknown"
        return _problem("plan.no-topics", problem, "write set: with an offset for each partition")
    if not topics:
        match = (
            f"no topic matches topics.regex {pattern}" if pattern else "the sink names no topics"
        )
        problem = f"{match}, so there is nothing to move to {position_text(to)}"
        return _problem("plan.no-topics", problem, hint)
    missing = [topic for topic in topics if topic not in logs.topics]
    if missing:
        names = f"topics {', '.join(missing)} do" if missing[1:] else f"topic {missing[0]} does"
        return _problem("plan.no-topics", f"{names} not exist", hint)
    for topic, number in sorted(sink_partitions(config, logs.topics)):
        if _offset(to, (topic, number), logs) is None:
            problem = f"the offset of {topic}-{number} at {position_text(to)} could not be read"
            hint = "make the plan again once the partition has a leader"
            return _problem("plan.no-position", problem, hint)
    return None


def position_text(to: Position) -> str:
    """Returns `earliest`, `latest`, or a time as ISO 8601 in UTC."""
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


def _offset(to: Position, at: TopicPartition, logs: TopicLogs) -> int | None:
    log = logs.ranges.get(at)
    if log is None:
        return None
    if to == "earliest":
        return log.earliest
    if to == "latest":
        return log.latest
    return logs.first_since.get(TimeAt(*at, to))


def _problem(code: str, problem: str, hint: str) -> Diagnostic:
    return Diagnostic(code, problem, hint=hint, blocks="offsets")
