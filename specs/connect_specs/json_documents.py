"""Parses JSON text to a node, strictly as RFC 8259, with the location of every value.

Python's reader decides what is JSON. It gives no locations and keeps the last of two equal keys, so
nodes are made from the tokens of the text that it accepts. YAML's reader would not do: it takes
tabs, line separators and surrogate pairs for something else.
"""

from __future__ import annotations

import json
import re
from collections import abc
from collections.abc import Iterator

from connect_specs.diagnostics import Diagnostic
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

_HINT = 'write one value such as {"name": "a"}: names and texts in double quotes, without comments '
_HINT += "and without a comma before a closing bracket"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[^\s\[\]{}:,"]+|[\[\]{}]', re.DOTALL)
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_json(text: str, file: str, lines: abc.Sequence[int] = ()) -> Parsed:
    """Parses the one value of `text`."""
    places = LineIndex(text, file, lines)
    reader = _JsonReader(text, places)
    try:
        return Parsed((reader.document(),), tuple(reader.problems))
    except json.JSONDecodeError as error:
        location = places.at(error.pos)
        problem = Diagnostic("file.syntax", "this is not JSON", location, error.msg, _HINT)
        return Parsed((), (*reader.problems, problem))


class _JsonReader:
    """Builds nodes from the tokens of one text but its colons and commas. Raises
    JSONDecodeError."""

    def __init__(self, text: str, places: LineIndex) -> None:
        self.problems: list[Diagnostic] = []
        self._text = text
        self._places = places
        self._tokens = _TOKEN.finditer(text)

    def document(self) -> Node:
        self._check_depth()
        # A number stays text: those of thousands of digits take long to convert
        json.loads(self._text, parse_int=str, parse_float=str)
        return self._node(next(self._tokens))

    def _check_depth(self) -> None:
        depth = 0
        for token in _TOKEN.finditer(self._text):
            depth += (token[0] in "[{") - (token[0] in "]}")
            if depth > DEPTH_MAX:
                raise self._mistake(f"Nested deeper than {DEPTH_MAX}", token)

    def _node(self, token: re.Match[str]) -> Node:
        location = self._places.at(token.start())
        if token[0] == "[":
            return Sequence(tuple(map(self._node, self._until("]"))), location)
        if token[0] == "{":
            entries = [
                (self._string(key), self._node(next(self._tokens))) for key in self._until("}")
            ]
            distinct, problems = without_duplicates(entries)
            self.problems += problems
            return Map(distinct, location)
        if token[0] in _NO_NUMBERS:
            raise self._mistake(f"{token[0]} is not a number", token)
        if token[0].startswith('"'):
            return self._string(token)
        return Scalar(token[0], location, plain=True)

    def _until(self, closing: str) -> Iterator[re.Match[str]]:
        while (token := next(self._tokens))[0] != closing:
            yield token

    def _string(self, token: re.Match[str]) -> Scalar:
        text = json.loads(token[0]) if "\\" in token[0] else token[0][1:-1]
        if _SURROGATE.search(text):
            raise self._mistake("Half of a surrogate pair is not a character", token)
        return Scalar(text, self._places.at(token.start()))

    def _mistake(self, message: str, token: re.Match[str]) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self._text, token.start())
