"""What no definition forbids in a config and nobody can have meant. Pure; told as warnings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from connect_reconciler.plan.checks.config import Finding
from connect_runtime.config_providers.references import holds_reference
from connect_specs.client_properties import CLIENT_PROPERTIES, near_client_property
from connect_specs.fields import slip_of
from connect_specs.names import is_topic_name
from connect_specs.plugin_definitions import elements

_TOPICS_OF_SINKS: Final = ("topics", "errors.deadletterqueue.topic.name")
_OPEN_REFERENCE: Final = re.compile(r"\$\{[\w-]+:[^{}]*\Z")
_CLIENTS: Final = ("admin", "consumer", "producer")
_OVERRIDE: Final = "override"


def slips(config: Mapping[str, str], *, is_sink: bool) -> Iterator[Finding]:
    """All of a config, by key."""
    for key, value in config.items():
        yield from _override(key)
        if _OPEN_REFERENCE.search(value):
            yield Finding(key, f"the reference in {key} is not closed", "end it with '}'")
        elif is_sink and key in _TOPICS_OF_SINKS and not holds_reference(value):
            yield from _topics(key, value)


def sensitive_slips(globs: Iterable[str], config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Entries of `sensitive` that are no key, each with the key that it nearly is."""
    for glob in globs:
        near = slip_of(glob, config) if glob not in config else None
        if near and not re.search(r"[*?\[]", glob):
            yield glob, near


def _override(key: str) -> Iterator[Finding]:
    client, _, rest = key.partition(".")
    word, _, name = rest.partition(".")
    if client not in _CLIENTS or not name:
        return
    what = f"Kafka's clients have no property {name}"
    if word != _OVERRIDE:
        if slip_of(word, (_OVERRIDE,)):
            meant = f"{client}.{_OVERRIDE}.{name}"
            yield Finding(key, f"{key} overrides nothing", f"did you mean {meant}?")
    elif name not in CLIENT_PROPERTIES:
        near = near_client_property(name)
        if near:
            yield Finding(key, what, f"did you mean {client}.{_OVERRIDE}.{near}?")


def _topics(key: str, value: str) -> Iterator[Finding]:
    for topic in elements(value):
        if not is_topic_name(topic):
            what = f"{key} names {topic!r}, which is no name that Kafka allows for a topic"
            yield Finding(key, what, "letters, digits, '.', '_' and '-', at most 249")
