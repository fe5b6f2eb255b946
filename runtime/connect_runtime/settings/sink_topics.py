"""Finds the topics that a sink connector reads: those that it names, or those that match. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from connect_runtime.api import ConfigError
from connect_runtime.java import regex as java_regex
from connect_runtime.java.text import java_list, java_trim

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def named_topics(config: Mapping[str, str]) -> frozenset[str]:
    """Returns the topics in `topics`. Raises ConfigError if there are none."""
    topics = frozenset(filter(None, java_list(config.get("topics") or "")))
    if not topics:
        raise ConfigError("Must configure one of topics or topics.regex")
    return topics


def topic_pattern(config: Mapping[str, str]) -> re.Pattern[str] | None:
    """Returns `topics.regex`, if it is set. Raises ConfigError if it is not valid."""
    pattern = java_trim(config.get("topics.regex") or "")
    if not pattern:
        return None
    try:
        return java_regex.compile(pattern)
    except java_regex.InvalidPattern as error:
        raise ConfigError.invalid("topics.regex", pattern, f"Invalid regex: {error}") from None


def matching_topics(
    pattern: re.Pattern[str], topics: Iterable[str], *, internal: bool = False
) -> frozenset[str]:
    """Returns the topics whose whole names match; Kafka's internal ones only with `internal`."""
    hidden = frozenset() if internal else _INTERNAL
    return frozenset(t for t in topics if t not in hidden and pattern.fullmatch(t))
