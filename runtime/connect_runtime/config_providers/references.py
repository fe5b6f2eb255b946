"""References to config providers inside config values: `${provider:[path:]key}`. Pure.

The same references as Apache's `ConfigTransformer` finds with
`\\$\\{([^}]*?):(([^}]*?):)?([^}]*?)\\}`, in one pass over the text: a resolved value is not
searched for further references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


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
    return tuple(found for found, _, _ in _found(value))


def holds_reference(value: str) -> bool:
    """Whether a config provider may replace a part of the value."""
    return next(_found(value), None) is not None


def substitute(value: str, lookup: Callable[[Reference], str | None]) -> str:
    """Replaces each reference in `value` by `lookup`'s result; one without a value stays."""
    parts: list[str] = []
    at = 0
    for reference, start, end in _found(value):
        given = lookup(reference)
        parts += (value[at:start], reference.text if given is None else given)
        at = end
    return "".join((*parts, value[at:]))


def reverse(raw: Mapping[str, str], task: Mapping[str, str]) -> dict[str, str]:
    """Returns a task's config with the connector's raw value for each key whose raw value holds a
    reference, as Apache publishes it (connect-facts 1.6)."""
    return {
        key: raw[key] if key in raw and holds_reference(raw[key]) else value
        for key, value in task.items()
    }


def _found(value: str) -> Iterator[tuple[Reference, int, int]]:
    """Yields each reference with its start and end. Linear in the length of `value`."""
    at = 0
    while (start := value.find("${", at)) >= 0:
        end = value.find("}", start + 2)
        if end < 0:
            return
        at = end + 1
        provider, colon, rest = value[start + 2 : end].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            if not second:
                path, key = "", rest
            yield Reference(provider, path, key, value[start:at]), start, at
