"""Settings about topics: those that a sink reads, those that a source creates (KIP-158), their
record on a worker (KIP-558), and those that a worker creates.

`topic.creation.groups` lists groups; the first whose `include` matches a topic's name, and whose
`exclude` does not, gives its settings, else the group `default`. Patterns match whole names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from connect_runtime.api import ConfigError
from connect_runtime.java import regex as java_regex
from connect_runtime.java.scalars import java_list, java_trim

ENABLE_KEY: Final = "topic.creation.enable"
GROUPS_KEY: Final = "topic.creation.groups"
PREFIX: Final = "topic.creation."
DEFAULT: Final = "default"
TRACKING_KEY: Final = "topic.tracking.enable"
TRACKING_RESET_KEY: Final = "topic.tracking.allow.reset"

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_OWN_STORAGE_KEYS: Final = frozenset(
    {"topic", "partitions", "replication.factor", "cleanup.policy", "file.filename"}
)
_OWN: Final = frozenset({"include", "exclude", "replication.factor", "partitions"})


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Settings for creating a topic. -1 leaves a number to the broker."""

    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Group:
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    settings: TopicSettings

    def takes(self, topic: str) -> bool:
        return _matches_one(self.include, topic) and not _matches_one(self.exclude, topic)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """One connector's groups, in order, and the settings for all other topics."""

    groups: tuple[_Group, ...]
    default: TopicSettings

    @classmethod
    def of(cls, config: Mapping[str, str], worker: Mapping[str, str]) -> TopicCreation | None:
        """Returns None if the broker creates topics: no such keys, or the worker does not allow it.

        Raises ValueError for invalid numbers; validation reports those before.
        """
        if not uses_topic_creation(config) or worker.get(ENABLE_KEY, "true").lower() == "false":
            return None
        default = _group(config, DEFAULT, TopicSettings(1, 1, {}))
        groups = tuple(_group(config, name, default.settings) for name in group_names(config))
        return cls(groups, default.settings)

    def settings(self, topic: str) -> TopicSettings:
        """Returns the settings for creating this topic."""
        group = next((group for group in self.groups if group.takes(topic)), None)
        return self.default if group is None else group.settings


def uses_topic_creation(config: Mapping[str, str | None]) -> bool:
    """Returns True if the connector has settings for new topics."""
    return any(key.startswith(PREFIX) for key in config)


def group_names(config: Mapping[str, str | None]) -> tuple[str, ...]:
    """Returns the groups of the list, each once, without `default`, which is not in it."""
    return tuple(name for name in dict.fromkeys(_list(config.get(GROUPS_KEY))) if name != DEFAULT)


def unlisted_groups(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields keys of unlisted groups, with an error: ignored, as in Connect, they would leave
    topics with another number of partitions than in the config."""
    if not uses_topic_creation(config):
        return
    prefixes = tuple(f"{PREFIX}{name}." for name in (*group_names(config), DEFAULT))
    for key in config:
        if key.startswith(PREFIX) and key != GROUPS_KEY and not key.startswith(prefixes):
            yield key, f"{key} belongs to no group that {GROUPS_KEY} lists"


def _group(config: Mapping[str, str], name: str, base: TopicSettings) -> _Group:
    prefix = f"{PREFIX}{name}."
    own = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
    return _Group(
        include=_list(own.get("include")),
        exclude=_list(own.get("exclude")),
        settings=TopicSettings(
            partitions=int(own.get("partitions", base.partitions)),
            replication_factor=int(own.get("replication.factor", base.replication_factor)),
            config={key: value for key, value in own.items() if key not in _OWN},
        ),
    )


def _matches_one(patterns: tuple[str, ...], topic: str) -> bool:
    return any(matches(pattern, topic) for pattern in patterns)


def matches(pattern: str, topic: str) -> bool:
    """Returns True if a Java pattern matches the whole name. Raises InvalidPattern."""
    return java_regex.compile(pattern).fullmatch(topic) is not None


def storage_config(worker: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Returns the settings for a new internal topic below `<kind>.storage.`, without Connect's own
    keys."""
    keys = {k.removeprefix(prefix): v for k, v in worker.items() if k.startswith(prefix)}
    return {name: value for name, value in keys.items() if name not in _OWN_STORAGE_KEYS}


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class TopicTracking:
    """`enabled`: tasks record the topics that they use, and REST shows them. `may_reset`: REST may
    forget them."""

    enabled: bool = True
    may_reset: bool = True

    @classmethod
    def of(cls, worker: Mapping[str, str]) -> Self:
        """Returns the settings in valid worker properties."""
        return cls(_is_true(worker, TRACKING_KEY), _is_true(worker, TRACKING_RESET_KEY))


def _is_true(worker: Mapping[str, str], key: str) -> bool:
    return worker.get(key, "true").strip().lower() == "true"


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
    return frozenset(topic for topic in topics if topic not in hidden and pattern.fullmatch(topic))
