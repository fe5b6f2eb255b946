"""Converts the nodes of a values file to the values that templates use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.nodes import Map, Node, Scalar, Sequence, is_null, typed

Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value]"


def map_values(node: Map, problems: list[Diagnostic]) -> dict[str, Value]:
    """Returns the map's values; null is added to `problems`."""
    return {key.text: value_of(value, problems) for key, value in node.entries}


def value_of(node: Node, problems: list[Diagnostic]) -> Value:
    """Whole numbers, true and false have types, so that templates can count and decide; every other
    scalar is text as written."""
    if isinstance(node, Map):
        return map_values(node, problems)
    if isinstance(node, Sequence):
        return [value_of(item, problems) for item in node.items]
    if is_null(node):
        what, hint = "a value is null", 'write "" for an empty text, or remove the name'
        problems.append(Diagnostic("values.null", what, node.where, hint=hint))
    return scalar_value(node)


def scalar_value(node: Scalar) -> str | int | bool:
    """The value of one scalar, as `value_of` says."""
    try:
        value = typed(node)
    except ValueError:
        return node.text
    return value if isinstance(value, int) else node.text


def merged(below: Mapping[str, Value], above: Mapping[str, Value]) -> dict[str, Value]:
    """Returns both; maps in both are merged, else `above` wins."""
    found = dict(below)
    for name, value in above.items():
        other = found.get(name)
        if isinstance(other, dict) and isinstance(value, dict):
            found[name] = merged(other, value)
        else:
            found[name] = value
    return found


def places_of(node: Map, prefix: str = "") -> Iterator[tuple[str, Location]]:
    """Yields where the map has each of its values, by dotted name; a list is one value."""
    for key, value in node.entries:
        name = f"{prefix}{key.text}"
        if isinstance(value, Map) and value.entries:
            yield from places_of(value, f"{name}.")
        else:
            yield name, key.where


def flat(values: Mapping[str, Value], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Yields each value by dotted name; a list, or an empty map, is one value."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
