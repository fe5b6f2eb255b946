"""Finds where each value comes from: which file sets it, and which others it overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_specs.diagnostics import Location
from connect_specs.secret_values import is_sensitive
from connect_specs.value_nodes import Value, flat
from connect_specs.value_secrets import holds_secret_value
from connect_specs.values import ENV, Values


@dataclass(frozen=True, slots=True)
class Origin:
    """One value by its dotted name: `text` None if it is secret; `overrides`, the newest first."""

    name: str
    text: str | None
    where: Location
    overrides: tuple[Location, ...] = ()


def origins(values: Values) -> Iterator[Origin]:
    """Yields every value that templates may use, by name, except the name of the environment."""
    for name, value in sorted(flat(values.names)):
        if name == ENV and values.env is not None:
            continue
        places = [place for layer in reversed(values.layers) for place in _at(layer, name)]
        yield Origin(name, _shown(name, value, values.sensitive), places[0], tuple(places[1:]))


def _at(layer: Mapping[str, Location], name: str) -> list[Location]:
    """Returns where a file has the name; a map that another value replaces has several places."""
    parts = name.split(".")
    above = {".".join(parts[: end + 1]) for end in range(len(parts))}
    return [place for each, place in layer.items() if each in above or each.startswith(f"{name}.")]


def _shown(name: str, value: Value, listed: tuple[str, ...]) -> str | None:
    text = "true" if value is True else "false" if value is False else str(value)
    return None if holds_secret_value(value, name, listed) or is_sensitive("", text) else text
