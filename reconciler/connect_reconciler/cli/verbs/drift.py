"""`connect drift`: reports what was changed outside connect since the last apply."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import Every
from connect_reconciler.cli.output import colour, progress, result, watch
from connect_reconciler.cli.session import invocation
from connect_reconciler.render.texts import PLAIN, Style, style
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from connect_reconciler.drift.model import Drift


def drift(
    context: typer.Context,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Keep watching; print drift as it appears and disappears."),
    ] = False,
    every: Every = 30.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per line, a summary last.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write Markdown, for an issue.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write to FILE instead of stdout."),
    ] = None,
    all_offsets: Annotated[
        bool, typer.Option("--all", help="List every deleted connector that left offsets behind.")
    ] = False,
) -> int:
    """Show changes made outside connect; exit code 4 if there are any.

    Compares the last apply, the specs and the cluster. Read-only: joins no group, creates no
    topic. Spec changes that are not applied yet are not drift. Secrets are redacted.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.drift.compare import compare
    from connect_specs.loader import load_specs

    if markdown and (as_json or watch):
        problem = "--markdown cannot be combined with --json or --watch"
        raise Invalid(Diagnostic("usage", problem, hint="leave the other option out"))
    if output is not None and watch:
        problem = "--output cannot be combined with --watch"
        hint = "leave --watch out, or redirect its output"
        raise Invalid(Diagnostic("usage", problem, hint=hint))
    call = invocation(context)
    project = call.project()

    with backend_of(project) as backend:

        def look() -> Drift:
            desired = load_specs(project)
            return compare(desired, backend.observe_with_history(desired))

        comparison = look()
        render = partial(
            _report, comparison, as_json=as_json, markdown=markdown, all_offsets=all_offsets
        )
        if output is None:
            result(render(style(colour=colour(sys.stdout))))
        else:
            _write(call.path(output), render(PLAIN), comparison)
        if watch:
            _watch(comparison, look, every, as_json=as_json)
    return ExitCode.CHANGES if comparison.drifted else ExitCode.OK


def _report(drift: Drift, paint: Style, *, as_json: bool, markdown: bool, all_offsets: bool) -> str:
    from connect_reconciler.render import drift_report as report

    if as_json:
        return report.drift_json(drift)
    if markdown:
        return report.drift_markdown(drift, left_offsets=all_offsets)
    return report.drift_text(drift, paint, left_offsets=all_offsets)


def _write(file: Path, text: str, drift: Drift) -> None:
    """Writes the whole file or none, readable only by its owner: it holds parts of configs."""
    from connect_reconciler.cli.project_files import written
    from connect_reconciler.render.drift_report import headline

    with written(file.parent, {file.name: text}, force=True, mode=0o600):
        progress(f"{headline(drift)}; written to {file}")


def _watch(earlier: Drift, look: Callable[[], Drift], pause_s: float, *, as_json: bool) -> None:
    """Compares each look with the one before, until interrupted."""
    from connect_reconciler.render.drift_report import difference_json, difference_text

    def show(drift: Drift) -> None:
        nonlocal earlier
        paint = style(colour=colour(sys.stdout))
        if text := (
            difference_json(earlier, drift) if as_json else difference_text(earlier, drift, paint)
        ):
            result(text)
        earlier = drift

    watch(look, pause_s, show)
