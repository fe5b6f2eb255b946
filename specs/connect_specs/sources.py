"""Provides a file's text for parsing: as written, or rendered with the values of an environment."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from connect_specs.nodes import Parsed
from connect_specs.values import Values

# Parses a text, given its file and the line in that file of each line
Parse: TypeAlias = Callable[[str, str, tuple[int, ...]], Parsed]

_MARK = re.compile(r"\{\{|\{%|\{#")
_NOTE = "the file is a template, and this is about its rendered text"


@dataclass(frozen=True, slots=True)
class Source:
    """A text, and the line in its file of each of its lines; none where they are the same."""

    text: str
    file: str
    lines: tuple[int, ...] = ()
    is_rendered: bool = False

    def parsed(self, parse: Parse) -> Parsed:
        """Returns the parsed contents; if the text was rendered, its syntax problems say so."""
        found = parse(self.text, self.file, self.lines)
        if not self.is_rendered:
            return found
        problems = (
            replace(each, why=f"{each.why}; {_NOTE}" if each.why else _NOTE)
            for each in found.problems
        )
        return Parsed(found.documents, tuple(problems))


def rendered_source(text: str, file: str, values: Values | None) -> Source:
    """Returns the text of `file`, rendered if the project has values. Raises Invalid."""
    if values is None or not _MARK.search(text):
        return Source(text, file)
    # imported here, because only projects with templates need Jinja2
    from connect_specs.templates import render, source_lines

    rendered = render(text, file, values)
    return Source(rendered, file, source_lines(text, rendered, values), is_rendered=True)


def escape_templates(text: str, values: Values | None) -> str:
    """Returns what a file must hold so that `rendered_source` gives `text`."""
    return text if values is None else _MARK.sub(lambda mark: f"{{{{ '{mark[0]}' }}}}", text)
