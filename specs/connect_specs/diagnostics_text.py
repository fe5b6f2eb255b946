"""Renders diagnostics as plain text, for terminals without colour, logs and tests."""

from __future__ import annotations

from collections.abc import Iterable

from connect_specs.diagnostics import Diagnostic
from connect_specs.printable import one_line


def render_diagnostics(diagnostics: Iterable[Diagnostic], kind: str = "error") -> str:
    """One line each, its why and its hint indented below; ends with a line break unless empty.

    They quote files and clusters, so control characters are escaped.
    """
    lines: list[str] = []
    for diagnostic in diagnostics:
        where = "" if diagnostic.where is None else f"{diagnostic.where}: "
        lines.append(f"{kind}[{diagnostic.code}]: {where}{diagnostic.what}")
        for label, text in (("why", diagnostic.why), ("hint", diagnostic.hint)):
            first, *others = text.splitlines() or [""]
            if text:
                lines.append(f"  {label}: {first}")
                lines += [f"  {' ' * len(label)}  {line}" for line in others]
    return "".join(f"{one_line(line)}\n" for line in lines)
