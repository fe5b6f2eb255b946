"""The neutral tree that every file format is read into: scalars, sequences, maps, with places.

A scalar keeps its text as written; what that text means is the reader's decision, because a config
value is always a string while an offset has a type. Only `plain` scalars may be anything but a
string: unquoted ones in YAML; numbers, true, false and null in JSON; none in .properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from connect_specs.desired import JsonScalar
from connect_specs.diagnostics import Diagnostic, Location


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value or key, as written."""

    text: str
    where: Location
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    where: Location


@dataclass(frozen=True, slots=True)
class Map:
    """A map in file order; its keys are distinct."""

    entries: tuple[tuple[Scalar, Node], ...]
    where: Location

    def get(self, key: str) -> Node | None:
        """The value of `key`, or None."""
        return next((value for name, value in self.entries if name.text == key), None)

    def names(self) -> frozenset[str]:
        """The texts of all keys."""
        return frozenset(name.text for name, _ in self.entries)


Node: TypeAlias = Scalar | Sequence | Map


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file holds: its documents as far as they could be read, and what is wrong with it."""

    documents: tuple[Node, ...]
    problems: tuple[Diagnostic, ...] = ()


INT64_MAX = 2**63 - 1

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def is_null(node: Node | None) -> bool:
    """Whether `node` is written as null, or as nothing at all."""
    return isinstance(node, Scalar) and node.plain and node.text in _NULLS


def typed(scalar: Scalar) -> JsonScalar:
    """The value of a scalar where types count. Numbers are those that JSON knows: `010`, `0x1f` and
    `1_000` stay strings.

    Raises ValueError for a number that Connect cannot keep, which are longs and finite doubles.
    """
    text = scalar.text
    if not scalar.plain:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INTEGER.fullmatch(text):
        # 19 digits hold every long; more of them must not reach int(), which is quadratic
        if len(text) > 20 or not -INT64_MAX - 1 <= int(text) <= INT64_MAX:
            raise ValueError("the number does not fit into 64 bits")
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise ValueError("the number is too large for a double")
        return number
    return text


def without_duplicates(
    entries: Iterable[tuple[Scalar, Node]],
) -> tuple[tuple[tuple[Scalar, Node], ...], list[Diagnostic]]:
    """The entries with the first of each key, and one diagnostic for each further one."""
    first: dict[str, Location] = {}
    kept: list[tuple[Scalar, Node]] = []
    problems: list[Diagnostic] = []
    for key, value in entries:
        if key.text in first:
            problems.append(
                Diagnostic(
                    "file.duplicate-key",
                    f"the key {key.text!r} is given twice",
                    key.where,
                    why=f"it is first given at {first[key.text]}",
                    hint="remove one of the two",
                )
            )
        else:
            first[key.text] = key.where
            kept.append((key, value))
    return tuple(kept), problems
