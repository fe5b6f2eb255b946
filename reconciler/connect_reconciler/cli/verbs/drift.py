"""`connect drift`: what was changed by hand since the last apply, since when, and by whom?"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.every import Every, seconds, watch
from connect_reconciler.cli.invocation import invocation
from connect_reconciler.cli.output import colour, progress, result
from connect_reconciler.render.style import PLAIN, Style, style
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from connect_reconciler.drift.model import Drift


def drift(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, and show what is new and what is gone.")
    ] = False,
    every: Every = "30s",
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object a line, a summary last.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write Markdown, for an issue.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write it to FILE instead.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="List each deleted connector that left offsets.")
    ] = False,
) -> int:
    """Show what was changed by hand: exit code 4 if anything was.

    Compares what was applied last, the specs and the cluster. Only reads: joins no group, creates
    no topic. A change in the specs that is not applied yet is no drift; secrets are not shown.
    """
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.drift.compare import compare
    from connect_reconciler.observe.history import observe_with_history
    from connect_specs.loader import load_specs

    if markdown and (as_json or watch):
        what = "--markdown is one report, and goes with neither --json nor --watch"
        raise Invalid(Diagnostic("usage", what))
    if output is not None and watch:
        raise Invalid(Diagnostic("usage", "--output is one report, and does not go with --watch"))
    pause_s = seconds(every)
    call = invocation(context)
    project = call.project()

    with client(project) as properties:

        def look() -> Drift:
            desired = load_specs(project)
            return compare(desired, observe_with_history(project, desired, properties))

        found = look()
        shown = partial(_report, found, as_json=as_json, markdown=markdown, whole=whole)
        if output is None:
            result(shown(style(colour=colour(sys.stdout))))
        else:
            _write(call.path(output), shown(PLAIN), found)
        if watch:
            _go_on(found, look, pause_s, as_json=as_json)
    return ExitCode.CHANGES if found.drifted else ExitCode.OK


def _report(found: Drift, paint: Style, *, as_json: bool, markdown: bool, whole: bool) -> str:
    from connect_reconciler.drift.json_lines import finding_line, summary_line
    from connect_reconciler.drift.render import drift_markdown, drift_text

    if as_json:
        return "\n".join([*map(finding_line, found.findings), summary_line(found)]) + "\n"
    if markdown:
        return drift_markdown(found, whole=whole)
    return drift_text(found, paint, whole=whole)


def _write(file: Path, text: str, found: Drift) -> None:
    """The whole file or none, for its owner only: it holds parts of configs."""
    from connect_reconciler.cli.spec_folder import written
    from connect_reconciler.drift.words import headline

    with written(file.parent, {file.name: text}, force=True, mode=0o600):
        progress(f"{headline(found)}; written to {file}")


def _go_on(found: Drift, look: Callable[[], Drift], pause_s: float, *, as_json: bool) -> None:
    """Until interrupted, each look compared with the one before."""

    def show(now: Drift) -> None:
        nonlocal found
        _show_difference(found, now, as_json=as_json)
        found = now

    watch(look, pause_s, show)


def _show_difference(before: Drift, now: Drift, *, as_json: bool) -> None:
    from connect_reconciler.drift.json_lines import finding_line, summary_line
    from connect_reconciler.drift.model import changes
    from connect_reconciler.drift.render import finding_lines
    from connect_reconciler.drift.words import headline, moment

    new, gone = changes(before, now)
    if not new and not gone:
        return
    if as_json:
        lines = [finding_line(each, "gone") for each in gone]
        result("\n".join([*lines, *map(finding_line, new), summary_line(now)]))
        return
    paint = style(colour=colour(sys.stdout))
    lines = [f"{moment(now.now_ms)} {headline(now)}"]
    for title, findings in (("New", new), ("Gone", gone)):
        if findings:
            lines.append(title)
            lines += [line for each in findings for line in finding_lines(each, paint)]
    result("\n".join(lines))
