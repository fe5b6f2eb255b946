"""Parses JSON text to a node: strictly RFC 8259, with the position of every value.

Hand-written because Python's own reader gives no positions and keeps the last of two equal keys,
and because YAML is not JSON: tabs, surrogate pairs and escapes differ.
"""

from __future__ import annotations

import re
from collections import abc

from connect_specs.diagnostics import Diagnostic
from connect_specs.nodes import Map, Node, Parsed, Scalar, Sequence, without_duplicates
from connect_specs.text_files import Places

DEPTH_MAX = 50

ONE_VALUE = 'a file holds one value, such as {"name": "a", "config": {}}'
_CLOSE = "close brackets and braces where they end"

_SPACE = re.compile(r"[ \t\n\r]*")
_LITERAL = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_CHARACTERS = re.compile(r'[^"\\\x00-\x1f]*')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


class _Stop(Exception):
    """The text is not JSON at `offset`."""

    def __init__(self, what: str, offset: int, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.offset = offset
        self.hint = hint


def parse_json(text: str, file: str, lines: abc.Sequence[int] = ()) -> Parsed:
    """Parses the one value of `text`."""
    places = Places(text, file, lines)
    reader = _Reader(text, places)
    try:
        node, end = reader.value(reader.skip(0), 1)
        end = reader.skip(end)
        if end < len(text):
            raise _Stop("there is more after the end of the JSON value", end, hint=ONE_VALUE)
    except _Stop as stop:
        where = places.at(stop.offset)
        problem = Diagnostic("file.syntax", stop.what, where, hint=stop.hint)
        return Parsed((), (*reader.problems, problem))
    return Parsed((node,), tuple(reader.problems))


class _Reader:
    """Recursive descent over one text; each step returns what it read and the offset after it."""

    def __init__(self, text: str, places: Places) -> None:
        self.problems: list[Diagnostic] = []
        self._text = text
        self._places = places

    def skip(self, offset: int) -> int:
        match = _SPACE.match(self._text, offset)
        return match.end() if match else offset

    def value(self, offset: int, depth: int) -> tuple[Node, int]:
        if depth > DEPTH_MAX:
            raise _Stop(f"nested deeper than {DEPTH_MAX}", offset, hint=_CLOSE)
        start = self._text[offset : offset + 1]
        if start == "{":
            return self._map(offset, depth)
        if start == "[":
            return self._sequence(offset, depth)
        if start == '"':
            return self._string(offset)
        match = _LITERAL.match(self._text, offset)
        # `01` and `truely` are not values: what follows must end the literal
        if match and not re.match(r"[\w.+-]", self._text[match.end() : match.end() + 1]):
            return Scalar(match[0], self._places.at(offset), plain=True), match.end()
        if not start:
            raise _Stop("the text ends where a value should be", offset, hint=ONE_VALUE)
        hint = self._no_json(offset, "]", ONE_VALUE)
        if start == "'" or start.isalpha():
            hint = "strings need double quotes"
        raise _Stop("this is not a JSON value", offset, hint=hint)

    def _map(self, offset: int, depth: int) -> tuple[Node, int]:
        where = self._places.at(offset)
        entries: list[tuple[Scalar, Node]] = []
        at = self.skip(offset + 1)
        if self._text[at : at + 1] == "}":
            return Map((), where), at + 1
        while True:
            if self._text[at : at + 1] != '"':
                hint = self._no_json(at, "}", 'write "name": value')
                raise _Stop("a key in double quotes is expected here", at, hint=hint)
            key, at = self._string(at)
            at = self._expect(":", self.skip(at))
            value, at = self.value(self.skip(at), depth + 1)
            entries.append((key, value))
            at = self.skip(at)
            if self._text[at : at + 1] == "}":
                kept, problems = without_duplicates(entries)
                self.problems += problems
                return Map(kept, where), at + 1
            at = self.skip(self._expect(",", at, closing="}"))

    def _sequence(self, offset: int, depth: int) -> tuple[Node, int]:
        where = self._places.at(offset)
        items: list[Node] = []
        at = self.skip(offset + 1)
        if self._text[at : at + 1] == "]":
            return Sequence((), where), at + 1
        while True:
            item, at = self.value(at, depth + 1)
            items.append(item)
            at = self.skip(at)
            if self._text[at : at + 1] == "]":
                return Sequence(tuple(items), where), at + 1
            at = self.skip(self._expect(",", at, closing="]"))

    def _no_json(self, at: int, closing: str, otherwise: str) -> str:
        """Returns a hint for syntax that other languages allow here."""
        if self._text[at : at + 1] == closing and self._text[:at].rstrip().endswith(","):
            return "remove the comma before it"
        is_comment = self._text.startswith(("//", "/*", "#"), at)
        return "JSON has no comments: remove it" if is_comment else otherwise

    def _expect(self, mark: str, at: int, *, closing: str = "") -> int:
        if self._text[at : at + 1] == mark:
            return at + 1
        marks = f"'{mark}' or '{closing}'" if closing else f"'{mark}'"
        hint = self._no_json(at, "", f"write {marks} before this")
        raise _Stop(f"{marks} is expected here", at, hint=hint)

    def _string(self, offset: int) -> tuple[Scalar, int]:
        parts: list[str] = []
        at = offset + 1
        while True:
            match = _CHARACTERS.match(self._text, at)
            if match:
                parts.append(match[0])
                at = match.end()
            mark = self._text[at : at + 1]
            if mark == '"':
                break
            if not mark:
                raise _Stop("the string has no end", offset, hint='end it with "')
            if mark != "\\":
                hint = "write \\n for a line break, \\t for a tab"
                raise _Stop("a line break or control character inside a string", at, hint=hint)
            escaped, at = self._escape(at)
            parts.append(escaped)
        text = _joined_surrogates("".join(parts))
        if _SURROGATE.search(text):
            hint = "write both halves, such as \\ud83d\\ude00, or the character itself"
            raise _Stop("half of a surrogate pair is not a character", offset, hint=hint)
        return Scalar(text, self._places.at(offset)), at + 1

    def _escape(self, at: int) -> tuple[str, int]:
        letter = self._text[at + 1 : at + 2]
        if letter == "u":
            digits = _HEX.match(self._text, at + 2)
            if not digits:
                hint = "write \\\\ for a backslash"
                raise _Stop("\\u needs four hexadecimal digits", at, hint=hint)
            return chr(int(digits[0], 16)), at + 6
        if letter not in _ESCAPES:
            raise _Stop("there is no such escape in JSON", at, hint="write \\\\ for a backslash")
        return _ESCAPES[letter], at + 2


def _joined_surrogates(text: str) -> str:
    """The text with each pair of surrogates as the one character that it stands for."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
