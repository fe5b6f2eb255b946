"""What became of an apply, as text."""

from dataclasses import replace

from connect_reconciler.actions import Delete
from connect_reconciler.apply.report import (
    ActionResult,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_reconciler.cli.apply_report import render_outcome, render_report
from connect_specs.diagnostics import ExitCode


def of(name: str, outcome: Outcome, detail: str = "", left: str = "") -> ConnectorReport:
    action = Delete(connector=name)
    return ConnectorReport(name, (ActionResult(action, outcome, detail),), left)


def test_connectors_that_were_not_started_are_one_line() -> None:
    """Interrupted with hundreds to go, what was done is not drowned."""
    reports = [
        of("a", Outcome.DONE),
        of("b", Outcome.UNKNOWN, "interrupted while it was under way", "its state was not read"),
        *(of(f"c{n}", Outcome.SKIPPED, "interrupted", "as it was") for n in range(23)),
    ]
    report = ApplyReport("a1", tuple(reports), True, exit_code=ExitCode.INTERRUPTED, seconds=2)
    names = ", ".join(f"c{n}" for n in range(20))
    assert render_report(report).splitlines() == [
        "Apply interrupted: 1 done, 23 skipped, 1 unknown, in 2.0 s",
        "  b: delete unknown: interrupted while it was under way",
        "  b: left as it is: its state was not read",
        f"  not started (interrupted): {names} and 3 more",
        "Next:",
        "  connect plan          shows whether the unknown actions took effect",
        "  connect apply         continues where this one stopped",
        "  connect rollback a1   or rolls back the apply",
    ]


def test_the_first_line_says_whether_it_succeeded() -> None:
    """All actions done is no success while a connector does not run."""
    well, ill = of("a", Outcome.DONE), of("b", Outcome.DONE)
    good = ApplyReport("a1", (well,), False, exit_code=ExitCode.OK, seconds=2)
    assert render_outcome(good).splitlines()[0] == "Applied: 1 done, in 2.0 s"
    failed = replace(ill, health=Health.FAILED, health_detail="task 0 failed: x")
    bad = ApplyReport("a1", (well, failed), False, exit_code=ExitCode.FAILED, seconds=2)
    assert render_outcome(bad).splitlines() == [
        "Apply failed: 2 done, 1 unhealthy, in 2.0 s",
        "  b: failed: task 0 failed: x",
    ]
