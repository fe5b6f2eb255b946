"""Which keys of a connector's config does this runtime accept, and not act on yet?

Connect defines them, so a config that holds them is valid; whoever relies on them has to be told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# Each with the values that ask for nothing: Connect's defaults.
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "errors.deadletterqueue.topic.name": frozenset({""}),
    "errors.log.enable": frozenset({"false"}),
    "errors.retry.timeout": frozenset({"0"}),
    "errors.tolerance": frozenset({"none"}),
    "header.converter": frozenset(),
    "offsets.storage.topic": frozenset({""}),
}
_PREFIXES: Final = ("admin.override.", "topic.creation.")
# All keys, as globs, that change nothing in this runtime yet, whatever their values
UNHEEDED: Final = (
    "admin.override.*",
    "errors.*",
    "header.converter",
    "header.converter.*",
    "offsets.storage.topic",
    "topic.creation.*",
)
_REFERENCE: Final = re.compile(r"\$\{[^}]*?:[^}]*?\}")


def without_effect(config: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each such key, by name; values are never told."""
    found = []
    for key, value in sorted(config.items()):
        if key.startswith(_PREFIXES) or value.lower() not in _KEYS.get(key, {value.lower()}):
            found.append(f"{key} has no effect in this runtime yet")
        elif _REFERENCE.search(value):
            found.append(f"{key} holds a reference, which this runtime does not resolve yet")
    return tuple(found)
