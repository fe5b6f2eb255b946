"""The output after an apply: its outcome, and next steps that run as they are written."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from connect_reconciler.actions import Delete
from connect_reconciler.apply.report import (
    ActionResult,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_reconciler.backend.lease import LeaseRefused
from connect_reconciler.cli import terminal
from connect_reconciler.cli.apply_report import (
    ApplyCommand,
    advised,
    after_apply,
    after_error,
    base_of,
    render_outcome,
    render_report,
    steps_text,
)
from connect_reconciler.cli.session import Invocation
from connect_reconciler.workflow.apply import RollbackResult
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode, Invalid, NextStep, Stale
from support.command import Command

PROD = ApplyCommand(base=("-C", "my folder", "--env", "prod"), scope=("--target", "orders-*"))
REST_ALONE = ApplyCommand(journal=False)


def report(
    *outcomes: Outcome,
    health: Health = Health.NOT_ASKED,
    interrupted: bool = False,
    ended_by: tuple[Diagnostic, ...] = (),
) -> ApplyReport:
    action = Delete(connector="c")
    results = tuple(ActionResult(action, each) for each in outcomes)
    connector = ConnectorReport("c", results, health=health)
    return ApplyReport("a1", (connector,), interrupted, ended_by, ExitCode.FAILED)


DONE, FAILED, SKIPPED, UNKNOWN = Outcome.DONE, Outcome.FAILED, Outcome.SKIPPED, Outcome.UNKNOWN
TAKEN = (Diagnostic("apply.taken-over", "what"),)
LOST = (Diagnostic("ledger.lost", "what"),)

APPLIES = {
    "well": (report(DONE, health=Health.RUNNING), []),
    "action failed": (report(FAILED, SKIPPED), ["connect apply"]),
    "action failed after another": (
        report(DONE, FAILED),
        ["connect apply", "connect rollback a1"],
    ),
    "unknown": (
        report(DONE, UNKNOWN),
        ["connect plan", "connect apply", "connect rollback a1"],
    ),
    "health failed": (
        report(DONE, health=Health.FAILED),
        [
            "connect status --target c",
            "connect apply",
            "connect restart --failed --target c",
            "connect rollback a1",
        ],
    ),
    "not running yet": (
        report(DONE, health=Health.TIMED_OUT),
        ["connect status --target c", "connect apply", "connect rollback a1"],
    ),
    "deleted meanwhile": (
        report(DONE, health=Health.DELETED),
        ["connect status --target c", "connect apply", "connect rollback a1"],
    ),
    "falls behind": (
        report(DONE, health=Health.FALLS_BEHIND),
        ["connect status --target c", "connect apply", "connect rollback a1"],
    ),
    "interrupted": (
        report(DONE, SKIPPED, interrupted=True),
        ["connect apply", "connect rollback a1"],
    ),
    "interrupted before anything": (report(SKIPPED, interrupted=True), ["connect apply"]),
    "interrupted while it waited for health": (
        report(DONE, health=Health.NOT_AWAITED, interrupted=True),
        ["connect status"],
    ),
    "taken over": (
        report(DONE, SKIPPED, ended_by=TAKEN),
        ["connect history", "connect plan"],
    ),
    "cluster gone": (report(SKIPPED, ended_by=LOST), ["connect apply"]),
}


@pytest.mark.parametrize("name", APPLIES)
def test_each_kind_of_failure_has_its_steps(name: str) -> None:
    done, commands = APPLIES[name]
    assert [each.command for each in after_apply(done, ApplyCommand())] == commands


def test_steps_are_for_the_same_folder_environment_and_connectors() -> None:
    commands = [each.command for each in after_apply(report(DONE, UNKNOWN), PROD)]
    assert commands == [
        "connect -C 'my folder' --env prod plan",
        "connect -C 'my folder' --env prod apply --target 'orders-*'",
        "connect -C 'my folder' --env prod rollback a1",
    ]


@pytest.mark.parametrize("health", [Health.FAILED, Health.TIMED_OUT, Health.FALLS_BEHIND])
def test_over_rest_alone_no_rollback_is_advised(health: Health) -> None:
    """There is no journal to roll back from: the specs as they were lead back."""
    for done in (report(DONE, health=health), report(DONE, FAILED), report(DONE, SKIPPED)):
        steps = after_apply(done, REST_ALONE)
        assert not [each for each in steps if "rollback" in each.command]
        (way_back,) = (each for each in steps if "it reverts this" in each.why)
        assert way_back.command == "connect apply"


def test_a_saved_plan_goes_on_and_a_spec_that_is_fixed_needs_another_plan() -> None:
    saved = ApplyCommand(file="plan.json")
    assert after_apply(report(DONE, FAILED), saved)[0].command == "connect apply plan.json"
    health = after_apply(report(DONE, health=Health.TIMED_OUT), saved)
    assert health[1].command == "connect apply"


def test_a_rollback_goes_on_and_can_be_undone_itself() -> None:
    back = ApplyCommand(("rollback", "a0"))
    commands = [each.command for each in after_apply(report(DONE, FAILED), back)]
    assert commands == ["connect rollback a0", "connect rollback a1"]
    failed = report(DONE, health=Health.FAILED)
    both = replace(failed, connectors=(*failed.connectors, replace(failed.connectors[0], name="d")))
    unwell = [each.command for each in after_apply(both, back)]
    # The trap: `restart --failed` knows connectors that have a spec
    assert unwell[1:3] == ["connect restart c", "connect restart d"]


def test_a_connector_that_was_deleted_meanwhile_is_created_again() -> None:
    """The trap: `restart --failed` finds no connector of that name."""
    deleted = report(DONE, health=Health.DELETED)
    assert "creates it again" in steps_text(after_apply(deleted, ApplyCommand()))
    assert "c: not there any more" in render_report(deleted)


def error_of(kind: type[ConnectError], code: str) -> ConnectError:
    return kind(Diagnostic(code, "what"))


@pytest.mark.parametrize(
    ("error", "run", "commands"),
    [
        (error_of(Stale, "stale.config"), ApplyCommand(), ["connect apply"]),
        (
            error_of(Stale, "stale.specs"),
            ApplyCommand(base=("--env", "prod"), file="p.json"),
            ["connect --env prod plan --out p.json", "connect --env prod apply p.json"],
        ),
        (
            error_of(Stale, "stale.config"),
            ApplyCommand(("rollback", "a1"), file="p.json"),
            ["connect rollback a1 --out p.json", "connect rollback a1 p.json"],
        ),
        (error_of(Stale, "stale.environment"), ApplyCommand(file="p.json"), []),
        (
            error_of(LeaseRefused, "apply.leased"),
            PROD,
            [
                "connect -C 'my folder' --env prod history",
                "connect -C 'my folder' --env prod apply --target 'orders-*' --lock-timeout 10m",
                "connect -C 'my folder' --env prod apply --target 'orders-*' --takeover",
            ],
        ),
        (error_of(Invalid, "spec.unknown-field"), ApplyCommand(), []),
    ],
)
def test_errors_before_anything_was_changed(
    error: ConnectError, run: ApplyCommand, commands: list[str]
) -> None:
    assert [each.command for each in after_error(error, run)] == commands
    with pytest.raises(type(error)) as caught, advised(run):
        raise error
    assert [each.command for each in caught.value.next_steps] == commands


def test_steps_stand_in_place_of_hints_that_say_no_more() -> None:
    hints = ("make the plan again", "make the plan again, with the same key")
    error = Stale(*(Diagnostic("stale.config", "what", hint=each) for each in hints))
    with pytest.raises(Stale) as caught, advised(ApplyCommand()):
        raise error
    assert [each.hint for each in caught.value.diagnostics] == ["", hints[1]]


def test_every_command_exists_as_written(connect: Command) -> None:
    """Outside a project a verb that was written rightly looks for connect.yaml, and finds none."""
    steps = [step for done, _ in APPLIES.values() for step in after_apply(done, ApplyCommand())]
    steps += after_error(error_of(LeaseRefused, "apply.leased"), ApplyCommand())
    steps += after_error(error_of(Stale, "stale.specs"), ApplyCommand(file="p.json"))
    for command in dict.fromkeys(each.command for each in steps):
        _, *words = shlex.split(command)
        yes = [] if "--takeover" not in words else ["--yes"]
        assert "error[project.not-found]" in connect(*words, *yes).stderr


def test_the_text_is_a_table() -> None:
    steps = (NextStep("connect plan", "first"), NextStep("connect apply p", "then"))
    assert steps_text(steps) == ("Next:\n  connect plan      first\n  connect apply p   then\n")
    assert steps_text(()) == ""


def test_the_folder_is_named_only_if_it_is_another(tmp_path: Path) -> None:
    assert base_of(Invocation(Path.cwd()), ()) == ()
    assert base_of(Invocation(Path()), ()) == ()
    assert base_of(Invocation(tmp_path, "prod"), ()) == ("-C", str(tmp_path), "--env", "prod")


def test_commands_repeat_values_but_secrets() -> None:
    given = ("tasks=4", "db_password=of-a-db", "owner=of-a-person", "empty=")
    call = Invocation(Path.cwd(), assignments=given)
    said = base_of(call, ["of-a-person"])
    assert said[1::2] == ("tasks=4", "db_password=...", "owner=...", "empty=")
    assert set(said[::2]) == {"--var"}


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, project = tmp_path / "gone", tmp_path / "project"
    gone.mkdir()
    project.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert base_of(Invocation(project), ()) == ("-C", str(project))


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


@pytest.mark.parametrize(
    ("outcomes", "health", "text"),
    [
        ((DONE, DONE), Health.FAILED, "Rolled back: apply a1 is reverted, but not all connectors"),
        ((DONE, FAILED), Health.NOT_ASKED, "Not rolled back"),
        ((DONE, SKIPPED), Health.FAILED, "Not rolled back"),
    ],
)
def test_a_rollback_to_a_connector_that_had_failed_is_no_failed_rollback(
    outcomes: tuple[Outcome, ...], health: Health, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rollback = RollbackResult(report=report(*outcomes, health=health))
    terminal._show_rollback(rollback, "a1", ApplyCommand())
    assert text in capsys.readouterr().out
