"""The options of verbs that show a plan: one form on stdout, and a page beside it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

AsMarkdown = Annotated[
    bool, typer.Option("--markdown", help="Write Markdown, short enough for a comment.")
]
PageFile = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a page to fold, filter and search."),
]


class Warned(StrEnum):
    """Which warnings are shown: those about what changes, or all."""

    CHANGES = "changes"
    ALL = "all"


Warnings = Annotated[
    Warned,
    typer.Option("--warnings", help="Which warnings to show: about what changes, or all."),
]


def ensure_one_form(*, as_json: bool, as_markdown: bool) -> None:
    """stdout is one result. Raises a usage error."""
    if as_json and as_markdown:
        raise typer.BadParameter("--json and --markdown cannot be used together")


@dataclass(frozen=True, slots=True)
class Forms:
    """Where a plan goes besides stdout, and its form there. Raises a usage error for two forms."""

    out: Path | None
    html: Path | None
    as_markdown: bool
    as_json: bool
    warned: Warned = Warned.CHANGES

    def __post_init__(self) -> None:
        ensure_one_form(as_json=self.as_json, as_markdown=self.as_markdown)
