"""Resolves `to: earliest`, `latest` or a time to an offset in each partition that a sink reads.

A plan holds them as an estimate: an apply resolves them once the sink is stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from connect_reconciler.model.live import Live, TimeAt, TopicLogs
from connect_reconciler.model.offsets import TopicPartition
from connect_runtime.api import java_regex
from connect_specs.desired import OffsetEntry, Position
from connect_specs.diagnostics import Diagnostic
from connect_specs.partitions import sink_entry

# A consumer that subscribes by a pattern leaves these out
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def sink_topics(config: Mapping[str, str], existing: Iterable[str]) -> tuple[str, ...]:
    """The topics that a sink reads, sorted: those that it names, or those of `existing` that its
    pattern matches. A pattern that only Java understands matches nothing."""
    if not config.get("topics.regex", "").strip():
        return tuple(sorted({each.strip() for each in config.get("topics", "").split(",")} - {""}))
    pattern = _pattern(config)
    if pattern is None:
        return ()
    found = (topic for topic in existing if topic not in _INTERNAL and pattern.fullmatch(topic))
    return tuple(sorted(found))


def may_read(config: Mapping[str, str], topic: str) -> bool:
    """Whether a sink reads the topic; True if only a worker can tell."""
    named = config.get("topics", ""), config.get("topics.regex", "")
    if any("${" in text for text in named) or (named[1].strip() and _pattern(config) is None):
        return True
    return topic in sink_topics(config, (topic,))


def sink_partitions(config: Mapping[str, str], topics: Mapping[str, int]) -> set[TopicPartition]:
    """The partitions that a sink reads; `topics` says how many each existing topic has."""
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
    """An entry for every partition whose offset at `to` is known."""
    found = ((at, _offset(to, at, logs)) for at in sorted(sink_partitions(config, logs.topics)))
    return tuple(sink_entry(at, offset) for at, offset in found if offset is not None)


def position_problem(
    to: Position, config: Mapping[str, str], live: Live, name: str
) -> Diagnostic | None:
    """Why `to` cannot be resolved for this sink; the caller knows where it says so."""
    if live.rest_alone:
        what = f"the offset of {position_text(to)} is unknown: logs cannot be read over REST"
        hint = "write the offsets under 'set', or add cluster.kafka to connect.yaml"
        return _problem("plan.log-unknown", what, hint)
    if name in live.unread_offsets:
        what = f"the offset of {position_text(to)} is unknown: {live.unread_offsets[name]}"
        return _problem("plan.log-unknown", what, "write the offsets under 'set'")
    logs = live.logs_of(name)
    topics = sink_topics(config, logs.topics)
    pattern = config.get("topics.regex", "").strip()
    hint = "create the topics first, or give the offsets once they exist"
    if pattern and _pattern(config) is None:
        # Java's patterns allow more than Python's
        what = f"topics.regex {pattern} is valid only in Java, so its topics are unknown"
        return _problem("plan.no-topics", what, "write set: with an offset for each partition")
    if not topics:
        what = f"no topic matches topics.regex {pattern}" if pattern else "the sink names no topics"
        return _problem(
            "plan.no-topics", f"{what}, so there is nothing to move to {position_text(to)}", hint
        )
    missing = [topic for topic in topics if topic not in logs.topics]
    if missing:
        one = len(missing) == 1
        names = f"topic {missing[0]} does" if one else f"topics {', '.join(missing)} do"
        return _problem("plan.no-topics", f"{names} not exist", hint)
    for topic, number in sorted(sink_partitions(config, logs.topics)):
        if _offset(to, (topic, number), logs) is None:
            what = f"the offset of {topic}-{number} at {position_text(to)} could not be read"
            return _problem(
                "plan.no-position", what, "make the plan again once the partition has a leader"
            )
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


def _offset(to: Position, at: TopicPartition, logs: TopicLogs) -> int | None:
    log = logs.ranges.get(at)
    if log is None:
        return None
    if to == "earliest":
        return log.earliest
    if to == "latest":
        return log.latest
    return logs.first_since.get(TimeAt(*at, to))


def _problem(code: str, what: str, hint: str) -> Diagnostic:
    return Diagnostic(code, what, hint=hint, blocks="offsets")
