"""Parses YAML text to nodes: every document of a file, scalars as written.

Works on PyYAML's events and never constructs a value, so that YAML 1.1 cannot turn `on`, `010` or
`22:22` into something else. Anchors, aliases and merge keys work; what they expand to is bounded,
so that a small file cannot grow without limit. Only the tags !!str, !!map and !!seq are accepted.
"""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.documents import (
    DEPTH_MAX,
    Map,
    Node,
    Parsed,
    Scalar,
    Sequence,
    is_null,
    without_duplicates,
)
from connect_specs.text_files import LineIndex, place_in

NODES_MAX = 100_000

_TAGS = frozenset({"!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq"))})
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# libyaml is ten times faster; both give the same events
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True, slots=True)
class _Built:
    """A node, how many nodes it expands to, and how deep they nest."""

    node: Node
    nodes: int
    depth: int


class _InvalidYaml(Exception):
    """The rest of the file cannot be read."""

    def __init__(self, problem: Diagnostic) -> None:
        super().__init__(problem)
        self.problem = problem


def parse_yaml(text: str, file: str, lines: abc.Sequence[int] = ()) -> Parsed:
    """Parses all documents of `text`, except empty ones. `lines` as `LineIndex` takes them."""
    forbidden = _NOT_YAML.search(text)
    if forbidden:
        message = f"the character U+{ord(forbidden[0]):04X} is not allowed in YAML"
        location = LineIndex(text, file, lines).at(forbidden.start())
        hint = 'write it as an escape between double quotes: "\\x07"'
        return Parsed((), (Diagnostic("file.syntax", message, location, hint=hint),))
    documents: list[Node] = []
    reader = _YamlReader(yaml.parse(text, Loader=_LOADER), file, lines)
    try:
        for document in reader.documents():
            if not is_null(document):
                documents.append(document)
    except _InvalidYaml as error:
        reader.problems.append(error.problem)
    except yaml.YAMLError as error:
        reader.problems.append(_syntax_problem(error, text, file, lines))
    return Parsed(tuple(documents), tuple(reader.problems))


def _syntax_problem(
    error: yaml.YAMLError, text: str, file: str, lines: abc.Sequence[int]
) -> Diagnostic:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "the text is not YAML"
    context = getattr(error, "context", None)
    if mark is None:
        message, hint = "this is not YAML", "save the file as YAML in UTF-8"
        return Diagnostic("file.syntax", message, Location(file), problem, hint)
    text_lines = text.splitlines()
    line = text_lines[mark.line] if mark.line < len(text_lines) else ""
    hint = "check the indentation, and that each quote, bracket and brace is closed"
    if line[mark.column : mark.column + 1] == "\t":
        hint = "indent with spaces: YAML allows no tabs there"
    elif "mapping values are not allowed" in problem:
        hint = "quote a value that holds ': '"
    return Diagnostic(
        "file.syntax",
        "this is not YAML",
        place_in(file, mark.line + 1, mark.column + 1, lines),
        why=f"{context}: {problem}" if context else problem,
        hint=hint,
    )


def _too_deep(location: Location) -> Diagnostic:
    hint = "close brackets and braces where they end"
    return Diagnostic("file.too-deep", f"nested deeper than {DEPTH_MAX}", location, hint=hint)


class _YamlReader:
    """Builds nodes from one file's events."""

    def __init__(self, events: Iterator[yaml.Event], file: str, lines: abc.Sequence[int]) -> None:
        self.problems: list[Diagnostic] = []
        self._events = events
        self._file = file
        self._lines = lines
        self._anchors: dict[str, _Built | None] = {}
        self._nodes = 0

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                self._nodes = 0
                yield self._build(next(self._events), 1).node

    def _build(self, event: yaml.Event, depth: int) -> _Built:
        location = self._location(event)
        if depth > DEPTH_MAX:
            raise _InvalidYaml(_too_deep(location))
        if isinstance(event, yaml.AliasEvent):
            built = self._alias(event, location)
            if depth + built.depth - 1 > DEPTH_MAX:
                raise _InvalidYaml(_too_deep(location))
            self._count(built.nodes, location)
            return built
        self._count(1, location)
        anchor = getattr(event, "anchor", None)
        if anchor:
            self._anchors[anchor] = None
        self._check_tag(event, location)
        nodes, inner = self._nodes, 0
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            plain = not event.style and event.tag is None
            node = Scalar(event.value, location, plain)
        elif isinstance(event, yaml.SequenceStartEvent):
            node, inner = self._sequence(location, depth)
        else:
            node, inner = self._map(location, depth)
        built = _Built(node, 1 + self._nodes - nodes, 1 + inner)
        if anchor:
            self._anchors[anchor] = built
        return built

    def _sequence(self, location: Location, depth: int) -> tuple[Node, int]:
        items: list[Node] = []
        inner = 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            built = self._build(event, depth + 1)
            items.append(built.node)
            inner = max(inner, built.depth)
        return Sequence(tuple(items), location), inner

    def _map(self, location: Location, depth: int) -> tuple[Node, int]:
        own: list[tuple[Scalar, Node]] = []
        inner = 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._build(event, depth + 1).node
            built = self._build(next(self._events), depth + 1)
            inner = max(inner, built.depth)
            if isinstance(key, Scalar):
                own.append((key, built.node))
            else:
                hint = "a value that begins with { or [ must be quoted; "
                hint += "templates are read where the project has a folder values/"
                message = "a key must be text, not a list or a map"
                self.problems.append(Diagnostic("file.key", message, key.location, hint=hint))
        entries, problems = without_duplicates(own)
        self.problems += problems
        return Map(self._merged(entries), location), inner

    def _merged(self, entries: tuple[tuple[Scalar, Node], ...]) -> tuple[tuple[Scalar, Node], ...]:
        """Replaces `<<` in the entries. A map's own key wins, then the map merged first."""
        merge = next((value for key, value in entries if key.plain and key.text == "<<"), None)
        if merge is None:
            return entries
        merged = {key.text: (key, value) for key, value in entries if key.text != "<<"}
        for source in merge.items if isinstance(merge, Sequence) else (merge,):
            if isinstance(source, Map):
                for key, value in source.entries:
                    merged.setdefault(key.text, (key, value))
            else:
                message = "<< can merge only a map, or a list of maps"
                hint = "write <<: *name, where &name is a map"
                self.problems.append(Diagnostic("file.merge", message, source.location, hint=hint))
        return tuple(merged.values())

    def _alias(self, event: yaml.AliasEvent, location: Location) -> _Built:
        if event.anchor not in self._anchors:
            message = f"no anchor &{event.anchor} comes before this alias"
            hint = "quote a value that begins with '*'"
            raise _InvalidYaml(Diagnostic("file.alias", message, location, hint=hint))
        built = self._anchors[event.anchor]
        if built is None:
            message = f"the alias *{event.anchor} is inside its own anchor"
            hint = "write its value out instead"
            raise _InvalidYaml(Diagnostic("file.alias", message, location, hint=hint))
        return built

    def _count(self, nodes: int, location: Location) -> None:
        self._nodes += nodes
        if self._nodes > NODES_MAX:
            message = f"the document has more than {NODES_MAX} values when its aliases are expanded"
            hint = "use fewer aliases, or split the file"
            raise _InvalidYaml(Diagnostic("file.too-large", message, location, hint=hint))

    def _check_tag(self, event: yaml.Event, location: Location) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in _TAGS:
            name = tag.replace("tag:yaml.org,2002:", "!!")
            message = f"the tag {name} is not supported"
            self.problems.append(Diagnostic("file.tag", message, location, hint="remove the tag"))

    def _location(self, event: yaml.Event) -> Location:
        mark = event.start_mark
        assert mark is not None, "events that come from text have their place"
        return place_in(self._file, mark.line + 1, mark.column + 1, self._lines)
