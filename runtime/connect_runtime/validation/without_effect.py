"""Finds config keys that this runtime accepts but does not act on.

Connect defines them, so a config that holds them is valid; users who rely on them get a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_runtime.config_providers.declared import PROVIDERS, undeclared
from connect_specs.secret_values import is_reference

# Each with the values that request nothing: Connect's defaults.
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "errors.deadletterqueue.topic.name": frozenset({""}),
    "errors.log.enable": frozenset({"false"}),
}
# All keys, as globs, that have no effect in this runtime, whatever their values
UNHEEDED: Final = ("errors.deadletterqueue.*", "errors.log.*")


def without_effect(config: Mapping[str, str], worker: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a sentence for each such key, by name, and for each reference that this worker's
    properties do not resolve; values are never shown."""
    found = [
        f"{key} has no effect in this runtime yet"
        for key, value in sorted(config.items())
        if value.lower() not in _KEYS.get(key, {value.lower()})
    ]
    for key, provider in sorted(undeclared(config, worker)):
        # in a longer text it may be part of a password that only resembles a reference
        name = f" {provider}" if is_reference(config[key]) else ""
        found.append(
            f"{key} refers to a config provider{name} that the worker's {PROVIDERS} does not name: "
            "its text is passed on as it is"
        )
    return tuple(found)
