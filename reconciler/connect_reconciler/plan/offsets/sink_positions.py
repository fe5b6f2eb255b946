"""Resolves `to: earliest`, `latest` or a time to an offset in each partition that a sink reads.

A plan holds them as an estimate: an apply resolves them once the sink is stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_reconciler.model.live import Live, TimeAt, TopicLogs
from connect_reconciler.model.offsets import TopicPartition
from connect_runtime.api import ConfigError
from connect_runtime.settings.connector_topics import matching_topics, named_topics, topic_pattern
from connect_specs.desired import OffsetEntry, Position, sink_entry
from connect_specs.diagnostics import Diagnostic
from connect_specs.plain_text import time_text


def sink_topics(config: Mapping[str, str], existing: Iterable[str]) -> tuple[str, ...]:
    """Returns the topics that a sink reads, sorted: those that it names, or those of `existing`
    that its pattern matches. A pattern that only Java understands matches nothing."""
    try:
        pattern = topic_pattern(config)
        topics = named_topics(config) if pattern is None else matching_topics(pattern, existing)
    except ConfigError:
        return ()
    return tuple(sorted(topics))


def may_read(config: Mapping[str, str], topic: str) -> bool:
    """Returns whether a sink reads the topic; True if that is unknown."""
    is_reference = any("${" in config.get(key, "") for key in ("topics", "topics.regex"))
    return is_reference or _for_java_only(config) or topic in sink_topics(config, (topic,))


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
    if _for_java_only(config):
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
    return to if isinstance(to, str) else time_text(to, exact=True)


def _for_java_only(config: Mapping[str, str]) -> bool:
    """Returns True for a pattern that Python cannot take: Java's patterns allow more."""
    try:
        topic_pattern(config)
    except ConfigError:
        return True
    return False


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
