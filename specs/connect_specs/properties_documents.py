"""Parses Java .properties text to a node, by the rules of java.util.Properties.

Escapes with \\uXXXX, continued lines, `=`, `:` or white space between key and value, comments with
`#` or `!`. Unlike in Java, where the last one silently wins, a key that is given twice is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from connect_specs.diagnostics import Diagnostic
from connect_specs.documents import Map, Node, Parsed, Scalar, without_duplicates
from connect_specs.text_files import LineIndex

_SPACES = " \t\f"
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, file: str, lines: Sequence[int] = ()) -> Parsed:
    """Returns the one map of `text`: all keys and values are strings."""
    places = LineIndex(text, file, lines)
    problems: list[Diagnostic] = []
    entries: list[tuple[Scalar, Node]] = []
    for characters, offsets in _logical_lines(text):
        key_end, value_start = _separator(characters)
        pair: list[Scalar] = []
        for start, end in ((0, key_end), (value_start, len(characters))):
            location = places.at(offsets[start])
            try:
                pair.append(Scalar(_unescaped(characters[start:end]), location))
            except ValueError as error:
                hint = "write \\\\ for a backslash, or \\u00e9 for a character such as é"
                problems.append(Diagnostic("file.syntax", str(error), location, hint=hint))
        if len(pair) == 2:
            entries.append((pair[0], pair[1]))
    distinct, duplicates = without_duplicates(entries)
    return Parsed((Map(distinct, places.at(0)),), (*problems, *duplicates))


def read_properties(text: str) -> dict[str, str]:
    """Returns all keys and values; of a key that is given twice the last value, as in Java. Raises
    ValueError for an escape that Java does not read either."""
    properties: dict[str, str] = {}
    for characters, _ in _logical_lines(text):
        key_end, value_start = _separator(characters)
        properties[_unescaped(characters[:key_end])] = _unescaped(characters[value_start:])
    return properties


def _logical_lines(text: str) -> Iterator[tuple[str, list[int]]]:
    """Yields each line with the lines that continue it, and the offset of each of its characters,
    and of its end."""
    characters: list[str] = []
    offsets: list[int] = []
    at = 0
    while at < len(text):
        match = _LINE.match(text, at)
        assert match is not None, "an empty line matches too"
        line, start = match[1], at
        at = match.end()
        body = line.lstrip(_SPACES)
        start += len(line) - len(body)
        # Java looks for comments as long as the logical line has no character yet
        if not characters and (not body or body[0] in "#!"):
            continue
        continues = (len(body) - len(body.rstrip("\\"))) % 2 == 1
        content = body[:-1] if continues else body
        characters += content
        offsets += range(start, start + len(content))
        if continues and at < len(text):
            continue
        if characters:
            yield "".join(characters), [*offsets, start + len(content)]
        characters, offsets = [], []


def _separator(line: str) -> tuple[int, int]:
    """Returns the end of the key, and the start of the value."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _SPACES:
        at += 2 if line[at] == "\\" else 1
    key_end = min(at, len(line))
    at = key_end
    while at < len(line) and line[at] in _SPACES:
        at += 1
    if at < len(line) and line[at] in "=:":
        at += 1
        while at < len(line) and line[at] in _SPACES:
            at += 1
    return key_end, at


def _unescaped(text: str) -> str:
    if "\\" not in text and not _SURROGATE.search(text):
        return text
    characters: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            characters.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "u":
            digits = _HEX.match(text, at + 2)
            if not digits:
                raise ValueError("\\u needs four hexadecimal digits")
            characters.append(chr(int(digits[0], 16)))
            at += 6
        else:
            characters.append(_ESCAPES.get(text[at + 1 : at + 2], text[at + 1 : at + 2]))
            at += 2
    # Java's escapes are UTF-16: two of them can be one character
    joined = "".join(characters).encode("utf-16-le", "surrogatepass")
    text = joined.decode("utf-16-le", "surrogatepass")
    if _SURROGATE.search(text):
        raise ValueError("half of a surrogate pair is not a character")
    return text
