"""Finds the settings with which a source connector creates its topics (KIP-158).

`topic.creation.groups` lists groups; the first whose `include` matches a topic's name, and whose
`exclude` does not, gives its settings, else the group `default`. Patterns match whole names. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from connect_runtime.api import java_regex

ENABLE_KEY: Final = "topic.creation.enable"
GROUPS_KEY: Final = "topic.creation.groups"
PREFIX: Final = "topic.creation."
DEFAULT: Final = "default"

_OWN: Final = frozenset({"include", "exclude", "replication.factor", "partitions"})


@dataclass(frozen=True, slots=True)
class NewTopicSettings:
    """Settings for a new topic. -1 leaves a number to the broker."""

    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Group:
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    settings: NewTopicSettings

    def takes(self, topic: str) -> bool:
        return _any(self.include, topic) and not _any(self.exclude, topic)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """One connector's groups, in order, and the settings for all other topics."""

    groups: tuple[_Group, ...]
    default: NewTopicSettings

    @classmethod
    def of(cls, config: Mapping[str, str], worker: Mapping[str, str]) -> TopicCreation | None:
        """Returns None if the broker creates topics: no such keys, or the worker does not allow it.

        Raises ValueError for invalid numbers; validation reports those before.
        """
        if not uses_topic_creation(config) or worker.get(ENABLE_KEY, "true").lower() == "false":
            return None
        default = _group(config, DEFAULT, NewTopicSettings(1, 1, {}))
        groups = tuple(_group(config, name, default.settings) for name in group_names(config))
        return cls(groups, default.settings)

    def settings(self, topic: str) -> NewTopicSettings:
        """Returns the settings for creating this topic."""
        found = next((each for each in self.groups if each.takes(topic)), None)
        return self.default if found is None else found.settings


def uses_topic_creation(config: Mapping[str, str | None]) -> bool:
    """Whether the connector has settings for new topics."""
    return any(key.startswith(PREFIX) for key in config)


def group_names(config: Mapping[str, str | None]) -> tuple[str, ...]:
    """Returns the listed groups, each once, without `default`, which is not listed."""
    return tuple(name for name in dict.fromkeys(_list(config.get(GROUPS_KEY))) if name != DEFAULT)


def unlisted_groups(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields keys of unlisted groups, with an error: ignored, as in Connect, they would leave
    topics with another number of partitions than the config says."""
    if not uses_topic_creation(config):
        return
    known = tuple(f"{PREFIX}{name}." for name in (*group_names(config), DEFAULT))
    for key in config:
        if key.startswith(PREFIX) and key != GROUPS_KEY and not key.startswith(known):
            yield key, f"{key} belongs to no group that {GROUPS_KEY} lists"


def _group(config: Mapping[str, str], name: str, base: NewTopicSettings) -> _Group:
    prefix = f"{PREFIX}{name}."
    given = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
    return _Group(
        include=_list(given.get("include")),
        exclude=_list(given.get("exclude")),
        settings=NewTopicSettings(
            partitions=int(given.get("partitions", base.partitions)),
            replication_factor=int(given.get("replication.factor", base.replication_factor)),
            config={key: value for key, value in given.items() if key not in _OWN},
        ),
    )


def _any(patterns: tuple[str, ...], topic: str) -> bool:
    return any(matches(pattern, topic) for pattern in patterns)


def matches(pattern: str, topic: str) -> bool:
    """Whether a Java pattern matches the whole name. Raises InvalidPattern."""
    return java_regex.compile(pattern).fullmatch(topic) is not None


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())
