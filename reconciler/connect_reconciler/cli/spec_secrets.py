"""What the specs call sensitive, for verbs that show what the cluster tells and need no spec."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING

from connect_specs.diagnostics import ConnectError

if TYPE_CHECKING:
    from connect_specs.desired import Project

# While the specs cannot be read nobody knows what they call so
_EVERYTHING = ("*",)


def sensitive_by_specs(project: Project) -> Callable[[str], Collection[str]]:
    """By connector; the specs are read when they are first asked for."""

    @cache
    def specs() -> dict[str, tuple[str, ...]] | None:
        from connect_specs.loader import load_specs

        try:
            connectors = load_specs(project).connectors
        except ConnectError:
            # What is wrong with specs is for other verbs to say
            return None
        return {name: spec.sensitive for name, spec in connectors.items()}

    def sensitive(name: str) -> Collection[str]:
        found = specs()
        return _EVERYTHING if found is None else found.get(name, ())

    return sensitive
