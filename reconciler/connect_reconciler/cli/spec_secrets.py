"""What the specs call sensitive, for verbs that show what the cluster tells and need no spec."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from connect_specs.diagnostics import ConnectError

if TYPE_CHECKING:
    from connect_specs.desired import Project

# While the specs cannot be read nobody knows what they call so
_EVERYTHING = ("*",)
_AGAIN_S = 5.0


def sensitive_by_specs(project: Project) -> Callable[[str], Collection[str]]:
    """By connector; the specs are read when they are asked for, and again after a while."""
    read: list[tuple[float, dict[str, tuple[str, ...]] | None]] = []

    def sensitive(name: str) -> Collection[str]:
        now = time.monotonic()
        if not read or now - read[0][0] > _AGAIN_S:
            read[:] = [(now, _by_name(project))]
        found = read[0][1]
        return _EVERYTHING if found is None else found.get(name, ())

    return sensitive


def _by_name(project: Project) -> dict[str, tuple[str, ...]] | None:
    from connect_specs.loader import load_specs

    try:
        connectors = load_specs(project).connectors
    except ConnectError:
        # What is wrong with specs is for other verbs to say
        return None
    return {name: spec.sensitive for name, spec in connectors.items()}
