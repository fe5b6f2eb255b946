"""What became of an apply, as text and for programs, and what to do next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from connect_reconciler.apply.report import (
    LATER,
    UNWELL,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_reconciler.plan.action_words import verb

# What ended it, where another apply has the cluster now
_OTHERS = ("apply.taken-over", "apply.lease-lost")
# Of the connectors that were not begun; --json names all
_NAMED = 20
_HEALTH = {
    Health.NOT_ASKED: "",
    Health.RUNNING: "running",
    Health.PAUSED: "paused",
    Health.STOPPED: "stopped",
    Health.LATER: LATER,
    Health.FAILED: "failed",
    Health.TIMED_OUT: "not well yet",
    Health.FALLS_BEHIND: "runs, and falls behind",
    Health.UNKNOWN: "whether it runs is not known",
    Health.NOT_AWAITED: "not waited for",
}


def render_report(report: ApplyReport) -> str:
    """The apply as text, and what to do next."""
    following = "".join(f"Next: {each}\n" for each in next_steps(report))
    return render_outcome(report) + following


def render_outcome(report: ApplyReport) -> str:
    """The apply as text: how many actions had which outcome, then each connector."""
    counts = [f"{count} {outcome.value}" for outcome, count in report.counts.items() if count]
    took = f", in {report.seconds:.1f} s" if counts else ""
    lines = [f"Applied: {', '.join(counts) or 'nothing to do'}{took}"]
    if report.interrupted:
        lines[0] += " (interrupted)"
    for each in report.connectors:
        if not each.not_begun:
            lines += _connector(each)
    lines += _not_begun(each for each in report.connectors if each.not_begun)
    return "\n".join(lines) + "\n"


def next_steps(report: ApplyReport) -> Iterator[str]:
    """What a user may want to do now."""
    if any(each.code in _OTHERS for each in report.ended_by):
        yield "`connect history` shows what the other one does; then `connect plan`"
        return
    counts = report.counts
    if counts[Outcome.UNKNOWN]:
        yield "`connect plan` shows whether what is unknown took place"
    if counts[Outcome.FAILED] or counts[Outcome.SKIPPED]:
        mended = ", once what failed is mended" if counts[Outcome.FAILED] else ""
        yield f"`connect apply` again{mended}: it goes on where this one ended"
    unwell = {each.health for each in report.connectors} & set(UNWELL)
    if Health.FALLS_BEHIND in unwell:
        yield "more tasks for sinks that fall behind, or --health-timeout if they are to catch up"
    if Health.FAILED in unwell:
        yield "`connect status` shows why; once that is mended, `connect restart --failed`"
    if unwell - {Health.FALLS_BEHIND, Health.FAILED}:
        yield "`connect status` shows what does not run, or that it waits for slots"
    if counts[Outcome.DONE] and (unwell or not report.ok):
        yield f"`connect rollback {report.apply_id}` plans the way back"


def report_json(report: ApplyReport) -> dict[str, Any]:
    """The apply for programs."""
    return {
        "apply_id": report.apply_id,
        "interrupted": report.interrupted,
        "exit_code": int(report.exit_code),
        "seconds": round(report.seconds, 3),
        "next": list(next_steps(report)),
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
    """One line for all that were not begun for the same reason."""
    why_not = defaultdict(list)
    for each in reports:
        why_not[each.results[0].detail].append(each.name)
    for why, names in why_not.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"  not begun ({why}): {', '.join(names[:_NAMED])}{more}"


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
