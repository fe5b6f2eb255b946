"""Finds the topics that a sink reads: those that it names, or those that match its pattern now.

A thread lists the cluster's topics, so that neither `put` nor a rebalance ever waits for the
answer.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import KafkaException

from connect_runtime.api import ConfigError, java_regex
from connect_runtime.api.java_text import java_list, java_trim
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import NO_SUCH_TOPIC, error_of, reason

_log = logging.getLogger(__name__)

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_EVERY_S: Final = 30.0  # Java's default for metadata.max.age.ms is five minutes
_RETRY_S: Final = 1.0
_REQUEST_S: Final = 10.0


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


def matching(
    pattern: re.Pattern[str], topics: Iterable[str], *, internal: bool = False
) -> frozenset[str]:
    """Returns the topics whose whole names match; Kafka's internal ones only with `internal`."""
    hidden = frozenset() if internal else _INTERNAL
    return frozenset(t for t in topics if t not in hidden and pattern.fullmatch(t))


class MatchingTopics:
    """Follows the topics that match a pattern, including those that appear and disappear later.

    `properties` are the consumer's, under Java's names: `metadata.max.age.ms` says how often to
    look, and `exclude.internal.topics` whether Kafka's internal topics count.
    """

    def __init__(self, pattern: re.Pattern[str], properties: Mapping[str, str]) -> None:
        self._pattern = pattern
        self._properties = properties
        self._internal = properties.get("exclude.internal.topics", "true").lower() == "false"
        age_ms = properties.get("metadata.max.age.ms")
        self._every_s = max(_RETRY_S, int(age_ms) / 1000) if age_ms else _EVERY_S
        self._ended = threading.Event()
        self.found: frozenset[str] | None = None  # None until the first answer
        threading.Thread(target=self._watch, name="matching-topics", daemon=True).start()

    def close(self) -> None:
        """Stops looking. Does not wait for a request in progress."""
        self._ended.set()

    def _watch(self) -> None:
        # a consumer, as these are a consumer's properties; it joins no group without subscribing
        client = clients.consumer(self._properties)
        while not self._ended.is_set():
            try:
                listed = client.list_topics(timeout=_REQUEST_S).topics
            except KafkaException as error:
                _log.debug("Topics cannot be listed: %s", reason(error_of(error)))
                self._ended.wait(_RETRY_S)
                continue
            there = [
                name
                for name, topic in listed.items()
                if topic.error is None or topic.error.code() not in NO_SUCH_TOPIC
            ]
            self.found = matching(self._pattern, there, internal=self._internal)
            self._ended.wait(self._every_s)
        client.close()
