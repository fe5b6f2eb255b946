"""The user of an apply, at a terminal or in a script: shows, asks and reports.

Progress is a line on stderr for each action done and each wait. On a terminal, a last line shows
what is in progress and is replaced.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, assert_never

from connect_reconciler.apply.report import (
    Began,
    ConnectorDone,
    Event,
    Finished,
    Outcome,
    Performed,
    Progress,
    Started,
    Waiting,
)
from connect_reconciler.cli.apply_report import (
    ApplyCommand,
    advised,
    render_outcome,
    render_report,
    report_json,
    steps_text,
)
from connect_reconciler.cli.options import PlanForms, Warned
from connect_reconciler.cli.output import (
    colour,
    confirmed,
    progress,
    progress_of_wait,
    result,
    result_json,
)
from connect_reconciler.cli.plan_output import show_plan
from connect_reconciler.cli.signals import at_once, may_change, stop_requested
from connect_reconciler.render.blocks import question
from connect_reconciler.render.plan_file import render_plan_json
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid, NextStep
from connect_specs.plain_text import listed, one_line, render_diagnostics

if TYPE_CHECKING:
    from connect_reconciler.actions.plan import Plan
    from connect_reconciler.apply.report import ApplyReport, Progress
    from connect_reconciler.backend.backend import Backend
    from connect_reconciler.backend.lease import Lease
    from connect_reconciler.cli.options import ApplyOptions
    from connect_reconciler.workflow.apply import ApplyResult, RollbackResult
    from connect_reconciler.workflow.user import StopRequest
    from connect_specs.desired import Project
# At most so many connectors are named in the last line; the others are counted
_NAMED = 4


def ensure_agreement(*, yes: bool) -> None:
    """Raises Invalid if the plan needs a confirmation and there is no terminal."""
    if not yes and not sys.stdin.isatty():
        problem = "stdin is not a terminal, so the plan cannot be confirmed"
        hint = "if the plan is what you want, run this again with --yes"
        raise Invalid(Diagnostic("apply.nobody-to-ask", problem, hint=hint))


@dataclass(frozen=True, slots=True)
class Terminal:
    """Implements `User`. `yes`: the plan needs no confirmation; `run` is the command that was run.
    With `as_json`, only the end is reported, as one document."""

    yes: bool
    as_json: bool
    warned: Warned = Warned.CHANGES
    run: ApplyCommand = field(default_factory=ApplyCommand)

    @property
    def can_be_asked(self) -> bool:
        return not self.yes and sys.stdin.isatty()

    def ensure_agreement(self) -> None:
        ensure_agreement(yes=self.yes)

    def agrees(self, plan: Plan) -> bool:
        return self.yes or confirmed(one_line(question(plan)))

    def show(self, plan: Plan) -> None:
        if not self.as_json:
            show_plan(plan, PlanForms(warnings=self.warned))

    def say(self, text: str) -> None:
        progress(text)

    def waits(self, problem: str, limit_s: float) -> None:
        progress_of_wait(problem, limit_s)

    def report(self, report: ApplyReport, *, rollback_follows: bool) -> None:
        if not self.as_json:
            with_next_steps = partial(render_report, run=self.run)
            _show_report(report, render_outcome if rollback_follows else with_next_steps)

    def stopping(self) -> AbstractContextManager[StopRequest]:
        return stop_requested()

    def at_once(self) -> AbstractContextManager[None]:
        return at_once()

    def progress(self) -> AbstractContextManager[Progress]:
        return shown_progress()

    def may_change(self) -> None:
        may_change()

    def tell_end(self, applied: ApplyResult) -> None:
        """Shows the rollback of an apply, or with `as_json` everything."""
        if self.as_json and not applied.declined:
            result_json(_document(applied, self.run))
        elif not self.as_json and applied.report is not None and applied.rollback is not None:
            _show_rollback(applied.rollback, applied.report.apply_id, self.run)


@contextmanager
def backend_for(
    run: ApplyCommand, project: Project, options: ApplyOptions
) -> Iterator[tuple[Backend, Lease | None]]:
    """Opens the cluster to apply to, and takes the lease over if asked. Errors get next steps.

    Raises Invalid where a lease is to be waited for or taken over and there is none.
    """
    from connect_reconciler.cli.connecting import backend_of

    with advised(run), backend_of(project) as backend, ExitStack() as stack:
        if options.lock_timeout:
            backend.ensure_lease()
        # Before the cluster is looked at: what the other one does last must not be missed
        lease = stack.enter_context(backend.take_over(progress)) if options.takeover else None
        yield backend, lease


def _show_report(report: ApplyReport, render: Callable[[ApplyReport], str]) -> None:
    sys.stderr.write(render_diagnostics(report.ended_by))
    result(render(report))


def _show_rollback(rollback: RollbackResult, apply_id: str, run: ApplyCommand) -> None:
    if rollback.report is not None:
        _show_report(rollback.report, render_outcome)
    else:
        sys.stderr.write(render_diagnostics(rollback.errors))
    sys.stderr.write(render_diagnostics(rollback.left_out))
    report = rollback.report
    if report is not None and report.exit_code != ExitCode.OK and report.all_done:
        result(f"Rolled back: apply {apply_id} is reverted, but not all connectors are healthy")
        steps = [NextStep(run.command("status"), "shows what runs, and why the rest does not")]
    elif report is None or report.exit_code != ExitCode.OK:
        result("Not rolled back")
        steps = [NextStep(run.command("rollback", apply_id), "plans the rollback")]
    elif rollback.left_out:
        names = listed(dict.fromkeys(str(diagnostic.where) for diagnostic in rollback.left_out))
        result(f"Rolled back in part: apply {apply_id} is reverted, but for {names}")
        steps = [NextStep(run.command("rollback", apply_id), "plans the rest")]
    else:
        result(f"Rolled back: apply {apply_id} is reverted")
        steps = [
            NextStep(run.command("plan"), "shows what the specs would change, once they are fixed")
        ]
    result(steps_text(steps))


def _document(applied: ApplyResult, run: ApplyCommand) -> dict[str, object]:
    from connect_reconciler.cli.entry import to_json

    report, rollback = applied.report, applied.rollback
    document: dict[str, object] = {
        "plan": render_plan_json(applied.plan),
        "report": None if report is None else report_json(report, run),
    }
    if rollback is not None:
        document["rollback"] = {
            "plan": None if rollback.plan is None else render_plan_json(rollback.plan),
            "report": None if rollback.report is None else report_json(rollback.report),
            "errors": to_json((*rollback.left_out, *rollback.errors)),
        }
    return document


@contextmanager
def shown_progress() -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield ProgressLines(progress)
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, no_color=not colour(sys.stderr), highlight=False)
    status_line = console.status("applying")
    with suppress(OSError):
        status_line.start()
    try:
        yield ProgressLines(
            lambda text: console.print(text, markup=False, soft_wrap=True),
            lambda text: status_line.update(escape(text)),
        )
    finally:
        with suppress(OSError):
            status_line.stop()


class ProgressLines:
    """Shows events from the threads of an apply. `line` adds a line, `last_line` replaces the
    last one; without it, waits get lines of their own. A terminal that is gone ends no apply."""

    def __init__(
        self, line: Callable[[str], None], last_line: Callable[[str], None] | None = None
    ) -> None:
        self._line = line
        self._last_line = last_line
        self._lock = threading.Lock()
        self._in_progress: dict[str, str] = {}
        self._actions = self._ended = 0

    def __call__(self, event: Event) -> None:
        with self._lock, suppress(OSError):
            self._show(event)
            if self._last_line is not None:
                self._last_line(self._now())

    def _show(self, event: Event) -> None:
        match event:
            case Began(actions=actions):
                self._actions = actions
            case Started(action=action):
                self._in_progress[action.group] = action.group
            case Finished(result=finished):
                self._ended += 1
                self._in_progress.pop(finished.action.group, None)
                if finished.outcome is Outcome.SKIPPED:
                    return  # may be very many; the report counts them
                detail = f": {finished.detail}" if finished.detail else ""
                text = f"{finished.action.imperative} {finished.outcome.value}{detail}"
                self._line(f"  {finished.action.group}: {text}")
            case Waiting(connector=connector, what=text):
                self._in_progress[connector] = f"{connector} (until {text})"
                if self._last_line is None:
                    self._line(f"  {connector}: waiting until {text}")
            case Performed() | ConnectorDone():
                pass
            case _:
                assert_never(event)

    def _now(self) -> str:
        text = f"{self._ended} of {self._actions} actions"
        names = list(self._in_progress.values())
        if names:
            text += f", in progress: {listed(names, _NAMED)}"
        return text
