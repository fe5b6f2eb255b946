"""The user of an apply, at a terminal or in a script: shows, asks and reports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from connect_reconciler.cli.applying.commands import Run, after_rollback, steps_text
from connect_reconciler.cli.applying.progress import shown_progress
from connect_reconciler.cli.applying.report import render_outcome, render_report, report_json
from connect_reconciler.cli.options import Warned, duration_text
from connect_reconciler.cli.output import confirmed, progress, result, result_json
from connect_reconciler.cli.plan_output import show_plan
from connect_reconciler.cli.signals import at_once, may_change, stop_requested
from connect_reconciler.render.plan_file.file import render_plan_json
from connect_reconciler.render.words import question
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid, NextStep
from connect_specs.diagnostics_text import render_diagnostics
from connect_specs.printable import one_line

if TYPE_CHECKING:
    from connect_reconciler.apply.report import (
        ApplyReport,
        Progress,
    )
    from connect_reconciler.model.plan import Plan
    from connect_reconciler.workflow.apply import Ended, Undone
    from connect_reconciler.workflow.user import Stop


def ensure_agreement(*, yes: bool) -> None:
    """Raises Invalid if the plan needs a confirmation and there is no terminal."""
    if not yes and not sys.stdin.isatty():
        what = "stdin is not a terminal, so the plan cannot be confirmed"
        hint = "if the plan is what you want, run this again with --yes"
        raise Invalid(Diagnostic("apply.nobody-to-ask", what, hint=hint))


@dataclass(frozen=True, slots=True)
class Terminal:
    """Implements `User`. `yes`: the plan needs no confirmation; `run` is the command that was run.
    With `as_json`, only the end is reported, as one document."""

    yes: bool
    as_json: bool
    warned: Warned = Warned.CHANGES
    run: Run = field(default_factory=Run)

    @property
    def can_be_asked(self) -> bool:
        return not self.yes and sys.stdin.isatty()

    def ensure_agreement(self) -> None:
        ensure_agreement(yes=self.yes)

    def agrees(self, plan: Plan) -> bool:
        return self.yes or confirmed(one_line(question(plan)))

    def show(self, plan: Plan) -> None:
        if not self.as_json:
            show_plan(plan, warned=self.warned)

    def say(self, text: str) -> None:
        progress(text)

    def waits(self, what: str, limit_s: float) -> None:
        progress(f"{what}; waiting up to {duration_text(limit_s)} for it to finish")

    def report(self, report: ApplyReport, *, rollback_follows: bool) -> None:
        if not self.as_json:
            whole = partial(render_report, run=self.run)
            _tell(report, render_outcome if rollback_follows else whole)

    def stopping(self) -> AbstractContextManager[Stop]:
        return stop_requested()

    def at_once(self) -> AbstractContextManager[None]:
        return at_once()

    def progress(self) -> AbstractContextManager[Progress]:
        return shown_progress()

    def may_change(self) -> None:
        may_change()

    def tell_end(self, ended: Ended) -> None:
        """The rollback of an apply, or with `as_json` everything."""
        if self.as_json and not ended.declined:
            result_json(_document(ended, self.run))
        elif not self.as_json and ended.report is not None and ended.undone is not None:
            _tell_undone(ended.undone, ended.report.apply_id, self.run)


def _tell(report: ApplyReport, render: Callable[[ApplyReport], str]) -> None:
    if report.ended_by:
        sys.stderr.write(render_diagnostics(report.ended_by))
    result(render(report))


def _tell_undone(undone: Undone, apply_id: str, run: Run) -> None:
    if undone.report is not None:
        _tell(undone.report, render_outcome)
    elif undone.errors:
        sys.stderr.write(render_diagnostics(undone.errors))
    if undone.report is not None and undone.report.exit_code == ExitCode.OK:
        result(f"Rolled back: apply {apply_id} is reverted")
        result(steps_text(after_rollback(run)))
    else:
        result("Not rolled back")
        result(steps_text([NextStep(run.command("rollback", apply_id), "plans the rollback")]))


def _document(ended: Ended, run: Run) -> dict[str, object]:
    from connect_reconciler.cli.entry import to_json

    report, undone = ended.report, ended.undone
    document: dict[str, object] = {
        "plan": render_plan_json(ended.plan),
        "report": None if report is None else report_json(report, run),
    }
    if undone is not None:
        document["rollback"] = {
            "plan": None if undone.plan is None else render_plan_json(undone.plan),
            "report": None if undone.report is None else report_json(undone.report),
            "errors": to_json(undone.errors),
        }
    return document
