"""The neutral tree that every file format is read into: scalars, sequences, maps, with locations.

A scalar keeps its text as written; its meaning is the reader's decision, because a config value is
always a string while an offset has a type. Only `plain` scalars may be anything but a string:
unquoted ones in YAML; numbers, true, false and null in JSON; none in .properties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from connect_specs.desired import JsonScalar
from connect_specs.diagnostics import Diagnostic, Location

if TYPE_CHECKING:
    from connect_specs.values import Values


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value or key, as written."""

    text: str
    location: Location
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    location: Location


@dataclass(frozen=True, slots=True)
class Map:
    """A map in file order; its keys are distinct."""

    entries: tuple[tuple[Scalar, Node], ...]
    location: Location

    def get(self, key: str) -> Node | None:
        """Returns the value of `key`, or None."""
        return next((value for name, value in self.entries if name.text == key), None)

    def names(self) -> frozenset[str]:
        """Returns the texts of all keys."""
        return frozenset(name.text for name, _ in self.entries)


Node: TypeAlias = Scalar | Sequence | Map


@dataclass(frozen=True, slots=True)
class Parsed:
    """The documents of a file as far as they could be read, and its problems."""

    documents: tuple[Node, ...]
    problems: tuple[Diagnostic, ...] = ()


# Parses a text, given its file and the line in that file of each line
Parse: TypeAlias = Callable[[str, str, tuple[int, ...]], Parsed]

INT64_MAX: Final = 2**63 - 1
DEPTH_MAX: Final = 50

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_RENDERED = "the file is a template, and this is about its rendered text"


def is_null(node: Node | None) -> bool:
    """Returns True if `node` is written as null, or as nothing at all."""
    return isinstance(node, Scalar) and node.plain and node.text in _NULLS


def typed(scalar: Scalar) -> JsonScalar:
    """Returns the value of a scalar where types count. Numbers are those that JSON knows: `010`,
    `0x1f` and `1_000` stay strings.

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
    """Returns the entries with the first of each key, and one diagnostic for each further one."""
    first: dict[str, Location] = {}
    distinct: list[tuple[Scalar, Node]] = []
    problems: list[Diagnostic] = []
    for key, value in entries:
        if key.text in first:
            problems.append(
                Diagnostic(
                    "file.duplicate-key",
                    f"the key {key.text!r} is given twice",
                    key.location,
                    why=f"it is first given at {first[key.text]}",
                    hint="remove one of the two",
                )
            )
        else:
            first[key.text] = key.location
            distinct.append((key, value))
    return tuple(distinct), problems


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text for parsing, as written or rendered with the values of an environment; `lines`
    holds the line in the file of each of its lines, empty if they are the same."""

    text: str
    file: str
    lines: tuple[int, ...] = ()
    is_rendered: bool = False

    def parsed(self, parse: Parse) -> Parsed:
        """Returns the parsed contents; if the text was rendered, its syntax problems say so."""
        parsed = parse(self.text, self.file, self.lines)
        if not self.is_rendered:
            return parsed
        problems = (
            replace(problem, why=f"{problem.why}; {_RENDERED}" if problem.why else _RENDERED)
            for problem in parsed.problems
        )
        return Parsed(parsed.documents, tuple(problems))


def rendered_source(text: str, file: str, values: Values | None) -> Source:
    """Returns the text of `file`, rendered if the project has values. Raises Invalid."""
    if values is None or not _TEMPLATE.search(text):
        return Source(text, file)
    # imported here, because only projects with templates need Jinja2
    from connect_specs.templates import render, source_lines

    rendered = render(text, file, values)
    return Source(rendered, file, source_lines(text, rendered, values), is_rendered=True)


def escape_templates(text: str, values: Values | None) -> str:
    """Returns the contents that a file must have so that `rendered_source` gives `text`."""
    return text if values is None else _TEMPLATE.sub(lambda mark: f"{{{{ '{mark[0]}' }}}}", text)
