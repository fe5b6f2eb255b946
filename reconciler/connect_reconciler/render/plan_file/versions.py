"""Converts a plan file's document from an older version to the newest one.

Each step converts from one version to the next, and gives fields that are new there the value that
means the same. Unknown fields stay, for the models to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]


def raised(document: Document) -> Document:
    """The document in the newest version; as it is if it is that already."""
    while (step := _STEPS.get(document["format_version"])) is not None:
        document = step(document)
    return document


def _from_1(document: Document) -> Document:
    """Version 2 says what each changed key does, the environment that was planned for, and which
    apply a rollback reverses."""
    return {
        "key_id": "",
        "env": None,
        "rolls_back": None,
        **document,
        "format_version": 2,
        "actions": _each(document.get("actions"), _action_from_1),
    }


def _from_2(document: Document) -> Document:
    """Version 3 says which cluster it is by its addresses, where specs are, and which warnings
    concern only what the plan leaves as it is."""
    return {"target": None, "places": {}, **document, "format_version": 3}


def _action_from_1(action: Document) -> Document:
    if action.get("action") != "update-config":
        return action
    return {**action, "changes": _each(action.get("changes"), _change_from_1)}


def _change_from_1(change: Document) -> Document:
    return {"consequence": "none", "effect": "", **change}


def _each(items: object, step: Callable[[Document], Document]) -> object:
    """Anything but a list of objects stays: the models refuse it and say where it is."""
    if not isinstance(items, list):
        return items
    return [step(item) if isinstance(item, dict) else item for item in items]


_STEPS: Mapping[int, Callable[[Document], Document]] = {1: _from_1, 2: _from_2}
