"""Which keys may a config hold that no definition names? Pure.

Connectors pass whole families of keys on, to a driver or a client, and tell nobody. To add a
connector's, add a line: a pattern of its class, and how those keys begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from connect_specs.plugin_definitions import elements

_EVERYWHERE: Final = ("producer.override.", "consumer.override.", "admin.override.")
_PASSED_ON: Final[Mapping[str, tuple[str, ...]]] = {
    "io.debezium.*": (
        "custom.metric.",
        "database.",
        "driver.",
        "internal.",
        "mongodb.",
        "notification.",
        "offset.",
        "openlineage.",
        "schema.history.internal.",
        "signal.",
        "snapshot.",
        "topic.",
    ),
    "io.confluent.*": ("confluent.", "connection.", "hadoop.", "kafka.", "reporter.", "store."),
    "io.aiven.*": ("aws.", "connection.", "gcs."),
    "com.mongodb.*": ("topic.override.",),
    "org.apache.kafka.connect.mirror.*": (
        "admin.",
        "config.property.filter.",
        "consumer.",
        "group.filter.",
        "producer.",
        "replication.policy.",
        "source.",
        "target.",
        "topic.filter.",
    ),
}
_ALIAS: Final = re.compile(r"[\w-]+")
_HAVE_RULES: Final = ("transforms", "predicates")


def dynamic_prefixes(class_name: str, config: Mapping[str, str]) -> tuple[str, ...]:
    """How keys may begin in a config of this class without being defined."""
    found = [*_EVERYWHERE, "topic.creation.default."]
    for group in elements(config.get("topic.creation.groups", "")):
        found.append(f"topic.creation.{group}.")
    for pattern, prefixes in _PASSED_ON.items():
        if fnmatchcase(class_name, pattern):
            found.extend(prefixes)
    found.extend(_aliases(config))
    return tuple(found)


def _aliases(config: Mapping[str, str]) -> Iterator[str]:
    """`converters: isbn` makes room for `isbn.type`: many connectors name parts in this way."""
    for key, value in config.items():
        if key not in _HAVE_RULES:
            for alias in elements(value):
                if _ALIAS.fullmatch(alias) and alias not in _HAVE_RULES:
                    yield f"{alias}."
