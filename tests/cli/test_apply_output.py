"""What to do next after an apply: each command that is named is one that runs."""

import re
import shlex

import pytest

from connect_reconciler.apply.report import (
    ActionResult,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_reconciler.cli.applying.report import next_steps, render_report
from connect_reconciler.plan.actions import Delete
from connect_specs.diagnostics import ExitCode
from support.command import Command


@pytest.mark.parametrize("health", [Health.FAILED, Health.TIMED_OUT])
def test_a_command_that_is_named_exists_as_written(connect: Command, health: Health) -> None:
    (said,) = next_steps(ApplyReport("a1", (ConnectorReport("c", (), health=health),)))
    named = re.findall(r"`connect (.+?)`", said)
    assert named
    # outside a project a verb that was written rightly looks for connect.yaml, and finds none
    for words in named:
        assert "error[project.not-found]" in connect(*shlex.split(words)).stderr


def of(name: str, outcome: Outcome, detail: str = "", left: str = "") -> ConnectorReport:
    action = Delete(connector=name, reason="")
    return ConnectorReport(name, (ActionResult(action, outcome, detail),), left)


def test_what_was_not_begun_is_one_line() -> None:
    """Interrupted with hundreds to go, what was done is not drowned."""
    reports = [
        of("a", Outcome.DONE),
        of("b", Outcome.UNKNOWN, "interrupted while it was under way", "its state was not read"),
        *(of(f"c{n}", Outcome.SKIPPED, "interrupted", "as it was") for n in range(23)),
    ]
    report = ApplyReport("a1", tuple(reports), True, exit_code=ExitCode.INTERRUPTED, seconds=2)
    names = ", ".join(f"c{n}" for n in range(20))
    assert render_report(report).splitlines() == [
        "Applied: 1 done, 23 skipped, 1 unknown, in 2.0 s (interrupted)",
        "  b: delete unknown: interrupted while it was under way",
        "  b: left as it is: its state was not read",
        f"  not begun (interrupted): {names} and 3 more",
        "Next: `connect plan` shows whether what is unknown took place",
        "Next: `connect apply` again: it goes on where this one ended",
        "Next: `connect rollback a1` plans the way back",
    ]
