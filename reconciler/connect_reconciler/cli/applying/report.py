"""The report of an apply, as text and as JSON, with what to do next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from connect_reconciler.apply.report import (
    LATER,
    UNHEALTHY,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_reconciler.cli.applying.commands import Run, after_apply, steps_text
from connect_reconciler.model.actions import verb
from connect_specs.diagnostics import ExitCode
from connect_specs.printable import lines_of

_APPLY = Run()
# How many connectors that were not started are named; --json names all
_NAMED = 20
_HEALTH = {
    Health.NOT_ASKED: "",
    Health.RUNNING: "running",
    Health.PAUSED: "paused",
    Health.STOPPED: "stopped",
    Health.LATER: LATER,
    Health.FAILED: "failed",
    Health.TIMED_OUT: "not healthy yet",
    Health.FALLS_BEHIND: "running, but falling behind",
    Health.UNKNOWN: "unknown whether it runs",
    Health.NOT_AWAITED: "not waited for",
}


def render_report(report: ApplyReport, run: Run = _APPLY) -> str:
    """The report as text, and what to do next."""
    return render_outcome(report) + steps_text(after_apply(report, run))


def render_outcome(report: ApplyReport) -> str:
    """The report as text: how the apply ended, the actions by outcome, then each connector."""
    counts = [f"{count} {outcome.value}" for outcome, count in report.counts.items() if count]
    unwell = sum(each.health in UNHEALTHY for each in report.connectors)
    counts += [f"{unwell} unhealthy"] if unwell else []
    took = f", in {report.seconds:.1f} s" if counts else ""
    lines = [f"{_head(report)}: {', '.join(counts) or 'nothing to do'}{took}"]
    for each in report.connectors:
        if not each.not_begun:
            lines += _connector(each)
    lines += _not_begun(each for each in report.connectors if each.not_begun)
    return lines_of("\n".join(lines)) + "\n"


def _head(report: ApplyReport) -> str:
    if report.interrupted:
        return "Apply interrupted"
    return "Applied" if report.exit_code == ExitCode.OK else "Apply failed"


def report_json(report: ApplyReport, run: Run = _APPLY) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "apply_id": report.apply_id,
        "interrupted": report.interrupted,
        "exit_code": int(report.exit_code),
        "seconds": round(report.seconds, 3),
        "next": [asdict(each) for each in after_apply(report, run)],
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
                        "action": verb(done.action),
                        "outcome": done.outcome.value,
                        "detail": done.detail,
                    }
                    for done in each.results
                ],
            }
            for each in report.connectors
        ],
    }


def _not_begun(reports: Iterable[ConnectorReport]) -> Iterator[str]:
    """One line for all connectors that were not started for the same reason."""
    why_not = defaultdict(list)
    for each in reports:
        why_not[each.results[0].detail].append(each.name)
    for why, names in why_not.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"  not started ({why}): {', '.join(names[:_NAMED])}{more}"


def _connector(report: ConnectorReport) -> list[str]:
    state = _HEALTH[report.health]
    if report.health_detail:
        state += f": {report.health_detail}"
    lines = [f"  {report.name}: {state}"] if state else []
    for done in report.results:
        if done.outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            what = verb(done.action)
            lines.append(f"  {report.name}: {what} {done.outcome.value}: {done.detail}")
    if report.left:
        lines.append(f"  {report.name}: left as it is: {report.left}")
    return lines
