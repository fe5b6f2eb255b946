"""What an apply tells while it is at it, and what became of it in the end."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, assert_never

from connect_reconciler.apply.progress import (
    Began,
    ConnectorDone,
    Event,
    Finished,
    Performed,
    Progress,
    Started,
    Waiting,
)
from connect_reconciler.apply.report import (
    LATER,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_reconciler.cli.output import colour, progress
from connect_reconciler.plan.actions import Action

_HEALTH = {
    Health.NOT_ASKED: "",
    Health.RUNNING: "running",
    Health.LATER: LATER,
    Health.FAILED: "failed",
    Health.TIMED_OUT: "not running yet",
    Health.NOT_AWAITED: "not waited for",
}


@contextmanager
def telling() -> Iterator[Progress]:
    """Tells an apply's events on stderr: a line for each thing done or waited for; on a terminal
    what is under way stands below them and is replaced."""
    if not sys.stderr.isatty():
        yield lambda event: _tell(event, progress, progress)
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, no_color=not colour(sys.stderr), highlight=False)
    with console.status("applying") as below:
        yield lambda event: _tell(
            event,
            lambda text: console.print(text, markup=False),
            lambda text: below.update(escape(text.strip())),
        )


def _tell(event: Event, done: Callable[[str], None], under_way: Callable[[str], None]) -> None:
    match event:
        case Finished(result=each):
            detail = f": {each.detail}" if each.detail else ""
            text = f"{_name(each.action)} {each.outcome.value}{detail}"
            done(f"  {each.action.connector}: {text}")
        case Waiting(connector=connector, what=what):
            under_way(f"  {connector}: waiting until {what}")
        case Began() | Started() | Performed() | ConnectorDone():
            pass
        case _:
            assert_never(event)


def render_report(report: ApplyReport) -> str:
    """The apply as text: how many actions had which outcome, then each connector."""
    counts = [f"{count} {outcome.value}" for outcome, count in report.counts.items() if count]
    lines = [f"Applied: {', '.join(counts) or 'nothing to do'}"]
    if report.interrupted:
        lines[0] += " (interrupted; apply again to finish)"
    for each in report.connectors:
        lines += _connector(each)
    return "\n".join(lines) + "\n"


def report_json(report: ApplyReport) -> dict[str, Any]:
    """The apply for programs."""
    return {
        "apply_id": report.apply_id,
        "interrupted": report.interrupted,
        "exit_code": int(report.exit_code),
        "counts": {outcome.value: count for outcome, count in report.counts.items()},
        "connectors": [
            {
                "name": each.name,
                "ok": each.ok,
                "left": each.left,
                "health": each.health.value,
                "health_detail": each.health_detail,
                "actions": [
                    {
                        "action": _name(done.action),
                        "outcome": done.outcome.value,
                        "detail": done.detail,
                    }
                    for done in each.results
                ],
            }
            for each in report.connectors
        ],
    }


def _connector(report: ConnectorReport) -> list[str]:
    state = _HEALTH[report.health]
    if report.health_detail:
        state += f": {report.health_detail}"
    lines = [f"  {report.name}: {state}"] if state else []
    for done in report.results:
        if done.outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            lines.append(
                f"  {report.name}: {_name(done.action)} {done.outcome.value}: {done.detail}"
            )
    if report.left:
        lines.append(f"  {report.name}: left as it is: {report.left}")
    return lines


def _name(action: Action) -> str:
    """`AlterOffsets` as `alter offsets`."""
    return re.sub(r"(?<=[a-z])([A-Z])", r" \1", type(action).__name__).lower()
