"""Reads the fields of maps that have a fixed set of them: project and spec documents.

Each function adds what is wrong to `problems` and returns None, so that one pass finds everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from connect_specs.counting import listed
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.nodes import Map, Node, Scalar, Sequence, is_null, typed

# Minimum similarity of a typo to the word that was meant
_TYPO = 0.8
# How many known words a hint lists
_NAMED = 20


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns a hint with the closest known word, or with the first ones if none is close."""
    words = sorted(known)
    lower = {known_word.lower(): known_word for known_word in words}
    close = get_close_matches(word.lower(), list(lower), n=1, cutoff=0.6)
    return f"did you mean {lower[close[0]]!r}?" if close else f"known here: {listed(words, _NAMED)}"


def typo_of(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that this one is probably a typo of, or None."""
    return next(iter(get_close_matches(word, list(known), 1, _TYPO)), None)


def place_of(node: Map, key: str) -> Location:
    """Returns where `key` is written, or where the map starts."""
    return next((name.where for name, _ in node.entries if name.text == key), node.where)


def value_kind(node: Node) -> str:
    """Returns what a node is, in a diagnostic's words."""
    if isinstance(node, Map):
        return "a map"
    if isinstance(node, Sequence):
        return "a list"
    return "null" if is_null(node) else "a single value"


def check_fields(
    node: Map, known: Iterable[str], code: str, what: str, problems: list[Diagnostic]
) -> None:
    """Reports every key of `node` that is not `known`."""
    fields = tuple(known)
    for key, _ in node.entries:
        if key.text not in fields:
            text = f"{what} has no field {key.text!r}"
            hint = did_you_mean(key.text, fields)
            problems.append(Diagnostic(f"{code}.unknown-field", text, key.where, hint=hint))


def required(node: Map, key: str, code: str, what: str, problems: list[Diagnostic]) -> Node | None:
    """Returns the value of a field that must exist."""
    value = node.get(key)
    if value is None:
        text = f"{what} has no {key!r}"
        problems.append(Diagnostic(f"{code}.missing-field", text, node.where, hint=f"add '{key}:'"))
    return value


def as_text(node: Node, field: str, code: str, problems: list[Diagnostic]) -> str | None:
    """Returns a non-empty string, as written."""
    if isinstance(node, Scalar) and not is_null(node) and node.text:
        return node.text
    kind = "empty" if isinstance(node, Scalar) else value_kind(node)
    what = f"{field!r} must be text, and is {kind}"
    hint = "write one text, in quotes if it would be null or a map without them"
    problems.append(Diagnostic(f"{code}.bad-value", what, node.where, hint=hint))
    return None


def as_map(node: Node, field: str, code: str, problems: list[Diagnostic]) -> Map | None:
    """Returns the node if it is a map."""
    if isinstance(node, Map):
        return node
    what = f"{field!r} must be a map, and is {value_kind(node)}"
    hint = "write name: value, with each name on a line of its own or in braces"
    problems.append(Diagnostic(f"{code}.bad-value", what, node.where, hint=hint))
    return None


def as_bool(node: Node, field: str, code: str, problems: list[Diagnostic]) -> bool | None:
    """Returns true or false, written without quotes."""
    if isinstance(node, Scalar) and node.plain and isinstance(value := _typed(node), bool):
        return value
    hint = "write true or false, without quotes"
    what = f"{field!r} must be true or false"
    problems.append(Diagnostic(f"{code}.bad-value", what, node.where, hint=hint))
    return None


def as_count(node: Node, field: str, code: str, problems: list[Diagnostic]) -> int | None:
    """Returns a whole number of at least 0, written without quotes."""
    value = _typed(node) if isinstance(node, Scalar) else None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    hint = f"write {field}: 10, without quotes"
    what = f"{field!r} must be a whole number of at least 0"
    problems.append(Diagnostic(f"{code}.bad-value", what, node.where, hint=hint))
    return None


def as_texts(node: Node, field: str, code: str, problems: list[Diagnostic]) -> tuple[Scalar, ...]:
    """Returns the non-empty strings of a list."""
    if not isinstance(node, Sequence):
        hint = f"write {field}: [first, second]"
        what = f"{field!r} must be a list, and is {value_kind(node)}"
        problems.append(Diagnostic(f"{code}.bad-value", what, node.where, hint=hint))
        return ()
    found: list[Scalar] = []
    for item in node.items:
        text = as_text(item, f"{field}[]", code, problems)
        if text is not None and isinstance(item, Scalar):
            found.append(item)
    return tuple(found)


def _typed(scalar: Scalar) -> object:
    try:
        return typed(scalar)
    except ValueError:
        return None
