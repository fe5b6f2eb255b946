"""`connect drift`: what was changed by hand since the last apply, since when, and by whom?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.every import Every, seconds, watch
from connect_reconciler.cli.invocation import invocation
from connect_reconciler.cli.output import colour, result
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
    pause_s = seconds(every)
    project = invocation(context).project()

    with client(project) as properties:

        def look() -> Drift:
            desired = load_specs(project)
            return compare(desired, observe_with_history(project, desired, properties))

        found = look()
        _show(found, as_json=as_json, markdown=markdown)
        if watch:
            _go_on(found, look, pause_s, as_json=as_json)
    return ExitCode.CHANGES if found.drifted else ExitCode.OK


def _show(found: Drift, *, as_json: bool, markdown: bool) -> None:
    from connect_reconciler.drift.json_lines import finding_line, summary_line
    from connect_reconciler.drift.render import drift_markdown, drift_text
    from connect_reconciler.render.style import style

    if as_json:
        result("\n".join([*map(finding_line, found.findings), summary_line(found)]))
    elif markdown:
        result(drift_markdown(found))
    else:
        result(drift_text(found, style(colour=colour(sys.stdout))))


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
    from connect_reconciler.render.style import style

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
