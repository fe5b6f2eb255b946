"""Renders diagnostics as plain text, for terminals without colour, logs and tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connect_specs.diagnostics import Diagnostic
from connect_specs.printable import one_line


def render_diagnostics(diagnostics: Iterable[Diagnostic], kind: str = "error") -> str:
    """One line each, its why and its hint indented below; ends with a line break unless empty.

    They quote files and clusters, so control characters are escaped.
    """
    lines: list[str] = []
    for diagnostic in diagnostics:
        where = "" if diagnostic.where is None else f"{diagnostic.where}: "
        lines += _labelled(f"{kind}[{diagnostic.code}]: {where}", diagnostic.what, "    ")
        for label, text in (("why", diagnostic.why), ("hint", diagnostic.hint)):
            if text:
                lines += _labelled(f"  {label}: ", text, " " * len(f"  {label}: "))
    return "".join(f"{one_line(line)}\n" for line in lines)


def _labelled(label: str, text: str, indent: str) -> Iterator[str]:
    """Yields the lines of a text, the first after its label and the others indented."""
    first, *others = text.splitlines() or [""]
    yield f"{label}{first}"
    yield from (f"{indent}{line}" if line else "" for line in others)
