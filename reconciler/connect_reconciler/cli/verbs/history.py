"""`connect history`: which applies were there, by whom, and what became of each?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import result, result_json, table
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import ExitCode

if TYPE_CHECKING:
    from connect_reconciler.ledger.journal import Journal
    from connect_reconciler.ledger.topic import LedgerSnapshot
    from connect_specs.desired import Project


def history(
    context: typer.Context,
    apply_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="An apply's id, or the start of it.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List this project's applies, newest first, or show one in detail.

    The ledger keeps the last 20.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.workflow.rollback import journal_of, ledger_of

    project = invocation(context).project()
    with backend_of(project) as backend:
        ledger = ledger_of(backend)
    if apply_id is not None:
        _show(journal_of(ledger, project, apply_id), ledger, as_json=as_json)
    else:
        _list(ledger, project, as_json=as_json)
    return ExitCode.OK


def _list(ledger: LedgerSnapshot, project: Project, *, as_json: bool) -> None:
    from connect_reconciler.render.history import (
        counts_of,
        counts_text,
        ending,
        journal_json,
        notes,
        when,
    )

    found = [
        (journal, ledger.steps(journal.id)) for journal in reversed(ledger.of_project(project.name))
    ]
    if as_json:
        result_json({"applies": [journal_json(*each) for each in found]})
        return
    if not found:
        result(f"project {project.name} has no recorded applies")
        return
    told = notes([each for each, _ in found])
    rows = [
        (
            each.id,
            when(each.since_ms),
            ending(each),
            counts_text(counts_of(each, steps)),
            each.by.partition(" since ")[0],
            told.get(each.id, ""),
        )
        for each, steps in found
    ]
    result(table(("APPLY", "BEGAN", "ENDED", "ACTIONS", "BY", ""), rows))


def _show(journal: Journal, ledger: LedgerSnapshot, *, as_json: bool) -> None:
    from connect_reconciler.render.history import detail_head, detail_json, step_row

    steps = ledger.steps(journal.id)
    if as_json:
        result_json(detail_json(journal, steps))
        return
    text = detail_head(journal, steps)
    if steps:
        rows = [step_row(step) for step in steps]
        text += "\n" + table(("#", "CONNECTOR", "ACTION", "TOOK", "END"), rows)
    result(text)
