"""Parses JSON text to a node: strictly RFC 8259, with the location of every value.

Hand-written because Python's own reader gives no locations, keeps the last of two equal keys, and
reports mistakes elsewhere in each version; and because YAML is not JSON: tabs, line separators and
surrogate pairs differ.
"""

from __future__ import annotations

import json
import re
from collections import abc
from collections.abc import Iterator

from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.documents import (
    DEPTH_MAX,
    Map,
    Node,
    Parsed,
    Scalar,
    Sequence,
    without_duplicates,
)
from connect_specs.text_files import LineIndex

ONE_VALUE = 'a file holds one value, such as {"name": "a", "config": {}}'

_SPACE = re.compile(r"[ \t\n\r]*")
# `01` and `truely` are not values: the character that follows must end the literal
_LITERAL = re.compile(
    r"(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.+-])"
)
_CHARACTERS = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_SURROGATE = re.compile("[\ud800-\udfff]")


class _NotJson(Exception):
    """The text is not JSON at `offset`."""

    def __init__(self, message: str, offset: int, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.hint = hint


def parse_json(text: str, file: str, lines: abc.Sequence[int] = ()) -> Parsed:
    """Parses the one value of `text`."""
    reader = _JsonReader(text, LineIndex(text, file, lines))
    try:
        return Parsed((reader.document(),), tuple(reader.problems))
    except _NotJson as error:
        location = reader.places.at(error.offset)
        problem = Diagnostic("file.syntax", error.message, location, hint=error.hint)
        return Parsed((), (*reader.problems, problem))


class _JsonReader:
    """Recursive descent over one text. `_at` is the offset of the next token."""

    def __init__(self, text: str, places: LineIndex) -> None:
        self.problems: list[Diagnostic] = []
        self.places = places
        self._text = text
        self._at = 0

    def document(self) -> Node:
        self._skip_to(0)
        node = self._value(1)
        if self._at < len(self._text):
            raise _NotJson("there is more after the end of the JSON value", self._at, ONE_VALUE)
        return node

    def _value(self, depth: int) -> Node:
        location = self.places.at(self._at)
        if depth > DEPTH_MAX:
            hint = "close brackets and braces where they end"
            raise _NotJson(f"nested deeper than {DEPTH_MAX}", self._at, hint)
        if self._accepts("{"):
            return self._map(location, depth)
        if self._accepts("["):
            items = tuple(self._value(depth + 1) for _ in self._elements("]"))
            return Sequence(items, location)
        if self._next() == '"':
            return self._string()
        literal = _LITERAL.match(self._text, self._at)
        if literal is None:
            raise self._no_value()
        self._skip_to(literal.end())
        return Scalar(literal[0], location, plain=True)

    def _map(self, location: Location, depth: int) -> Map:
        entries: list[tuple[Scalar, Node]] = []
        for _ in self._elements("}"):
            if self._next() != '"':
                hint = self._hint("}", 'write "name": value')
                raise _NotJson("a key in double quotes is expected here", self._at, hint)
            key = self._string()
            self._expect(":")
            entries.append((key, self._value(depth + 1)))
        distinct, problems = without_duplicates(entries)
        self.problems += problems
        return Map(distinct, location)

    def _elements(self, closing: str) -> Iterator[None]:
        """Yields at the start of each element, and returns after the closing bracket."""
        if self._accepts(closing):
            return
        while True:
            yield
            if self._accepts(closing):
                return
            self._expect(",", closing)

    def _string(self) -> Scalar:
        start = self._at
        characters = _CHARACTERS.match(self._text, start)
        assert characters is not None, "the caller saw the quote"
        end = characters.end()
        if self._text[end : end + 1] != '"':
            raise self._no_string(start, end)
        text = json.loads(f'{characters[0]}"') if "\\" in characters[0] else characters[0][1:]
        if _SURROGATE.search(text):
            hint = "write both halves, such as \\ud83d\\ude00, or the character itself"
            raise _NotJson("half of a surrogate pair is not a character", start, hint)
        self._skip_to(end + 1)
        return Scalar(text, self.places.at(start))

    def _no_string(self, start: int, end: int) -> _NotJson:
        """Returns the mistake in the string at `start`, whose characters are valid up to `end`."""
        escape = self._text[end : end + 2]
        if not escape:
            return _NotJson("the string has no end", start, 'end it with "')
        if escape[0] != "\\":
            hint = "write \\n for a line break, \\t for a tab"
            return _NotJson("a line break or control character inside a string", end, hint)
        unicode = escape == "\\u"
        message = (
            "\\u needs four hexadecimal digits" if unicode else "there is no such escape in JSON"
        )
        return _NotJson(message, end, "write \\\\ for a backslash")

    def _no_value(self) -> _NotJson:
        start = self._next()
        if not start:
            return _NotJson("the text ends where a value should be", self._at, ONE_VALUE)
        is_text = start == "'" or start.isalpha()
        hint = "strings need double quotes" if is_text else self._hint("]", ONE_VALUE)
        return _NotJson("this is not a JSON value", self._at, hint)

    def _expect(self, mark: str, closing: str = "") -> None:
        if not self._accepts(mark):
            marks = f"'{mark}' or '{closing}'" if closing else f"'{mark}'"
            hint = self._hint("", f"write {marks} before this")
            raise _NotJson(f"{marks} is expected here", self._at, hint)

    def _hint(self, closing: str, otherwise: str) -> str:
        """Returns a hint for syntax that other languages allow here."""
        if self._next() == closing and self._text[: self._at].rstrip().endswith(","):
            return "remove the comma before it"
        is_comment = self._text.startswith(("//", "/*", "#"), self._at)
        return "JSON has no comments: remove it" if is_comment else otherwise

    def _next(self) -> str:
        """Returns the first character of the next token; empty at the end of the text."""
        return self._text[self._at : self._at + 1]

    def _accepts(self, mark: str) -> bool:
        """Returns True, and reads the token, if it is `mark`."""
        if self._next() != mark:
            return False
        self._skip_to(self._at + 1)
        return True

    def _skip_to(self, offset: int) -> None:
        space = _SPACE.match(self._text, offset)
        self._at = space.end() if space else offset
