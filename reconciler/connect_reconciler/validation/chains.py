"""What is wrong with a config's transformations, although Connect accepts it? Pure.

A predicate that no list names fails every task, and an option that a transformation does not have
changes no record: both are found here, before the connector runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from connect_reconciler.validation.keys import Finding
from connect_runtime.config_providers.references import holds_reference
from connect_specs.fields import typo_of
from connect_specs.plugin_definitions import Definitions, elements, parts_of

# Connect's own tell all of their options; others may read more
_COMPLETE: Final = "org.apache.kafka.connect.transforms."
_KINDS: Final = ("transformation", "predicate")
_OF_ALL: Final = ("type", "plugin.version", "predicate", "negate")


def undefined_predicates(config: Mapping[str, str]) -> Iterator[Finding]:
    """Predicates of transformations that `predicates` does not list."""
    listed = config.get("predicates", "")
    for alias in elements(config.get("transforms", "")):
        key = f"transforms.{alias}.predicate"
        name = config.get(key, "").strip()
        known = elements(listed)
        if not name or name in known or any(map(holds_reference, (name, listed))):
            continue
        near = next(iter(get_close_matches(name, known, 1)), None)
        what = f"{key} names a predicate {name}, and 'predicates' does not list it"
        hint = f"did you mean {near}?" if near else f"add {name} to 'predicates', with its type"
        yield Finding(key, what, hint)


def mistyped_options(config: Mapping[str, str], plugins: Definitions) -> Iterator[Finding]:
    """Options of Connect's own transformations and predicates that nearly have the name of one."""
    for part in parts_of(config):
        plugin = plugins.find(part.name, part.types) if part.types[0] in _KINDS else None
        if plugin is None or not plugin.class_name.startswith(_COMPLETE):
            continue
        options = (*plugin.keys, *_OF_ALL)
        for key in config:
            option = key.removeprefix(part.prefix)
            near = None if option == key or option in options else typo_of(option, options)
            if near:
                what = f"{part.name} has no option {option}"
                yield Finding(key, what, f"did you mean {part.prefix}{near}?")
