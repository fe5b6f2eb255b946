"""Finds references of a config that this worker does not resolve, so that users get a warning."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.config_providers.references import PROVIDERS, undeclared
from connect_specs.secrets import is_reference


def unresolved_references(config: Mapping[str, str], worker: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a sentence for each reference whose provider the worker's properties do not name,
    beginning with its key; values are never shown."""
    found = []
    for key, provider in sorted(undeclared(config, worker)):
        # in a longer text it may be part of a password that only resembles a reference
        name = f" {provider}" if is_reference(config[key]) else ""
        found.append(
            f"{key} refers to a config provider{name} that the worker's {PROVIDERS} does not name: "
            "its text is passed on as it is"
        )
    return tuple(found)
