"""Finds references `${provider:[path:]key}` in configs, and the providers that a worker declares.

Pure. The same references as Apache's `ConfigTransformer` finds with
`\\$\\{([^}]*?):(([^}]*?):)?([^}]*?)\\}`, in one pass over the text: a resolved value is not
searched for further references. Providers are `config.providers=<alias>,...` with
`config.providers.<alias>.class` and `config.providers.<alias>.param.<name>` (KIP-297).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

PROVIDERS: Final = "config.providers"
# Those of them that a JVM has itself, as they are Java classes
PROVIDERS_OF_JVM: Final = "java.config.providers"


@dataclass(frozen=True, slots=True)
class Reference:
    """`text` is the reference as written. `path` is empty if none is given; `key` may hold
    colons."""

    provider: str
    path: str
    key: str
    text: str


def references(value: str) -> tuple[Reference, ...]:
    """Returns the references in a value, in order."""
    return tuple(reference for reference, _, _ in _places(value))


def holds_reference(value: str) -> bool:
    """Returns True if a config provider may replace a part of the value."""
    return next(_places(value), None) is not None


def substitute(value: str, lookup: Callable[[Reference], str | None]) -> str:
    """Replaces each reference in `value` by `lookup`'s result; one without a value stays."""
    texts: list[str] = []
    at = 0
    for reference, start, end in _places(value):
        provided = lookup(reference)
        texts += (value[at:start], reference.text if provided is None else provided)
        at = end
    return "".join((*texts, value[at:]))


def reverse(raw: Mapping[str, str], task: Mapping[str, str]) -> dict[str, str]:
    """Returns a task's config with the connector's raw value for each key whose raw value holds a
    reference, as Apache publishes it (connect-facts 1.6)."""
    return {
        key: raw[key] if key in raw and holds_reference(raw[key]) else value
        for key, value in task.items()
    }


def _places(value: str) -> Iterator[tuple[Reference, int, int]]:
    """Yields each reference with its start and end. Linear in the length of `value`."""
    at = 0
    while (start := value.find("${", at)) >= 0:
        end = value.find("}", start + 2)
        if end < 0:
            return
        at = end + 1
        provider, colon, place = value[start + 2 : end].partition(":")
        if colon:
            path, second, key = place.partition(":")
            if not second:
                path, key = "", place
            yield Reference(provider, path, key, value[start:at]), start, at


@dataclass(frozen=True, slots=True)
class DeclaredProvider:
    """A provider as the worker's properties declare it. `class_name` is empty if it is missing;
    `params` may hold references to providers that are declared before it."""

    alias: str
    class_name: str
    params: Mapping[str, str] = field(repr=False)

    @property
    def class_key(self) -> str:
        """Returns the worker property that names the class."""
        return f"{PROVIDERS}.{self.alias}.class"


def declared_providers(worker: Mapping[str, str]) -> tuple[DeclaredProvider, ...]:
    """Returns the providers of these worker properties, in order."""
    providers: list[DeclaredProvider] = []
    for alias in aliases(worker):
        prefix = f"{PROVIDERS}.{alias}."
        start = f"{prefix}param."
        params = {k.removeprefix(start): v for k, v in worker.items() if k.startswith(start)}
        class_name = worker.get(f"{prefix}class", "").strip()
        providers.append(DeclaredProvider(alias, class_name, params))
    return tuple(providers)


def aliases(worker: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the provider names that references of connectors may use."""
    names = (name.strip() for name in worker.get(PROVIDERS, "").split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def undeclared(config: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields keys that hold a reference to an undeclared provider, with its name.

    Such text is passed on unchanged, as in Apache: a connector may use it for something else.
    """
    usable = aliases(worker)
    for key, value in config.items():
        names = (r.provider for r in references(value) if r.provider not in usable)
        yield from ((key, name) for name in dict.fromkeys(names))
