"""Reads the config providers that a worker declares. Pure.

`config.providers=<alias>,...` with `config.providers.<alias>.class` and
`config.providers.<alias>.param.<name>` (KIP-297).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_runtime.config_providers.references import references

PROVIDERS: Final = "config.providers"


@dataclass(frozen=True, slots=True)
class Declared:
    """A provider as the worker's properties declare it. `class_name` is empty if it is missing;
    `params` may hold references to providers that are declared before it."""

    alias: str
    class_name: str
    params: Mapping[str, str] = field(repr=False)

    @property
    def class_key(self) -> str:
        """Returns the worker property that names the class."""
        return f"{PROVIDERS}.{self.alias}.class"


def declared(worker: Mapping[str, str]) -> tuple[Declared, ...]:
    """Returns the providers of these worker properties, in order."""
    found: list[Declared] = []
    for alias in aliases(worker):
        prefix = f"{PROVIDERS}.{alias}."
        start = f"{prefix}param."
        params = {k.removeprefix(start): v for k, v in worker.items() if k.startswith(start)}
        found.append(Declared(alias, worker.get(f"{prefix}class", "").strip(), params))
    return tuple(found)


def aliases(worker: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the provider names that references of connectors may use."""
    given = (each.strip() for each in worker.get(PROVIDERS, "").split(","))
    return tuple(dict.fromkeys(each for each in given if each))


def undeclared(config: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields keys that hold a reference to an undeclared provider, with its name.

    Such text is passed on unchanged, as in Apache: a connector may use it for something else.
    """
    known = aliases(worker)
    for key, value in config.items():
        names = (each.provider for each in references(value) if each.provider not in known)
        yield from ((key, name) for name in dict.fromkeys(names))
