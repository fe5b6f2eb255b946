"""Converts each value of a config to the string that Connect gets.

Connect's configs are strings, so a scalar is taken as written: `on`, `010`, `1.0`. A list of
scalars becomes what Connect calls a LIST, joined by commas. Diagnostics name keys, never values,
which may be secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.nodes import Map, Node, Scalar, Sequence, is_null


@dataclass(frozen=True, slots=True)
class ConfigValues:
    """A config in file order, with the place of each key."""

    values: dict[str, str]
    places: dict[str, Location]


def read_config(node: Map, problems: list[Diagnostic]) -> ConfigValues:
    """Returns the strings of a flat config; adds what is wrong with other values to `problems`."""
    values: dict[str, str] = {}
    places: dict[str, Location] = {}
    for key, value in node.entries:
        if not key.text.strip():
            what, hint = "a config key is empty", "write the key, or remove the line"
            problems.append(Diagnostic("config.empty-key", what, key.where, hint=hint))
            continue
        places[key.text] = key.where
        text = _config_text(key.text, value, problems)
        if text is not None:
            values[key.text] = text
    return ConfigValues(values, places)


def _config_text(key: str, value: Node, problems: list[Diagnostic]) -> str | None:
    if isinstance(value, Map):
        hint = f"write flat keys: {key}.<name>: <value>"
        what = f"the value of {key!r} is a map; Connect's configs are flat"
        problems.append(Diagnostic("config.nested", what, value.where, hint=hint))
        return None
    if isinstance(value, Sequence):
        return _list_text(key, value, problems)
    if is_null(value):
        hint = 'write "" for an empty string, "null" for that word, or remove the key'
        what = f"the value of {key!r} is null; Connect's configs are strings"
        problems.append(Diagnostic("config.null", what, value.where, hint=hint))
        return None
    return value.text


def _list_text(key: str, value: Sequence, problems: list[Diagnostic]) -> str | None:
    elements: list[str] = []
    for item in value.items:
        if not isinstance(item, Scalar) or is_null(item):
            code, what = "config.nested", f"the list {key!r} may hold only text and numbers"
            hint = "quote an element that is to be read as text"
        elif not item.text.strip():
            code, what = "config.list-element", f"an element of the list {key!r} is empty"
            hint = "remove it"
        elif "," in item.text:
            code, what = "config.list-element", f"an element of the list {key!r} holds a comma"
            hint = "Connect separates elements by commas and knows no escape; make two elements"
        else:
            elements.append(item.text)
            continue
        problems.append(Diagnostic(code, what, item.where, hint=hint))
    return ",".join(elements) if len(elements) == len(value.items) else None
