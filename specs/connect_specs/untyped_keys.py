"""Finds the config keys that may hold secrets because their plugins' keys could not be asked for.

Connect's own keys have types that are known without any plugin. Values of all others are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from connect_specs.client_properties import CLIENT_PROPERTIES
from connect_specs.plugin_definitions import CLASS_KEY, CONNECTORS, Definitions, parts_of

_OF_CONNECT: Final = frozenset(
    """
    name connector.class connector.plugin.version task.class tasks.max tasks.max.enforce
    config.action.reload key.converter key.converter.plugin.version value.converter
    value.converter.plugin.version header.converter header.converter.plugin.version transforms
    predicates topics topics.regex exactly.once.support transaction.boundary
    transaction.boundary.interval.ms offsets.storage.topic topic.creation.groups
    errors.retry.timeout errors.retry.delay.max.ms errors.tolerance errors.log.enable
    errors.log.include.messages errors.deadletterqueue.topic.name
    errors.deadletterqueue.topic.replication.factor errors.deadletterqueue.context.headers.enable
    """.split()
)
_OF_A_PART: Final = ("type", "predicate", "negate", "plugin.version")
_TOPICS: Final = "topic.creation."
_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.")


def untyped_keys(
    config: Mapping[str, str],
    definitions: Definitions,
    others: Iterable[Mapping[str, str]] = (),
) -> dict[str, str]:
    """Returns the keys whose types could not be asked for, each with the request that failed.

    `others` are further configs of the same connector, such as its tasks'.
    """
    unanswered = definitions.unanswered(config.get(CLASS_KEY, ""), CONNECTORS)
    # The longest prefix first: an alias may begin like another
    parts = sorted(parts_of(config), key=lambda part: -len(part.prefix))
    of_parts = [(part.prefix, definitions.unanswered(part.name, part.types)) for part in parts]
    if not unanswered and not any(reason for _, reason in of_parts):
        return {}
    found: dict[str, str] = {}
    for key in {key for each in (config, *others) for key in each}:
        owner = next((each for each in of_parts if key.startswith(each[0])), ("", unanswered))
        prefix, reason = owner
        own = key.removeprefix(prefix) in _OF_A_PART if prefix else is_of_connect(key)
        if reason and not own:
            found[key] = reason
    return dict(sorted(found.items()))


def is_of_connect(key: str) -> bool:
    """Whether Connect itself or a Kafka client defines the key, whatever the connector is."""
    if key in _OF_CONNECT or key.startswith(_TOPICS):
        return True
    prefix = next((each for each in _CLIENTS if key.startswith(each)), None)
    return prefix is not None and key.removeprefix(prefix) in CLIENT_PROPERTIES
