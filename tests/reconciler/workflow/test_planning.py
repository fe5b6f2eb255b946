"""What was shown is what is done: more than that is shown again, and asked for again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import cel
import pytest

from connect_reconciler.actions import AlterOffsets, Counts
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.report import (
    ActionResult,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_reconciler.backend import open_backend
from connect_reconciler.backend.backend import Backend
from connect_reconciler.cli.terminal import Terminal
from connect_reconciler.model.live import Live, LogRange
from connect_reconciler.policies.policy import Policy
from connect_reconciler.workflow import apply
from connect_reconciler.workflow.apply import ApplyRun, Denials, RollbackResult
from connect_reconciler.workflow.planning import FromSpecs, PlanChanged, Planned, observed
from connect_reconciler.workflow.rollback import FromSnapshots
from connect_reconciler.workflow.user import Choices
from connect_specs.desired import Desired, DesiredConnector, Pin, Project
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid, Location, Stale
from support.applying import PROJECT, Applying, desired_of
from support.fake_cluster import FakeCluster
from support.plan_sources import backend_of, source_of
from support.rollbacks import ledger

Changes = Callable[[Applying, Desired], None]


def spec(name: str, file: str = "x") -> DesiredConnector:
    config = {"name": name, "connector.class": "FileStreamSink", "topics": "t", "file": file}
    return DesiredConnector(name, config, Location(f"{name}.yaml", 1, 1))


BACKEND = open_backend(PROJECT, {})
WANTED = desired_of(spec("a", "new"), spec("b"))


def planned_of(plan: Plan, live: Live) -> Planned:
    return Planned(plan=plan, desired=WANTED, live=live)


def run_of(user: Terminal, rollback_policies: tuple[Policy, ...] | None = None) -> ApplyRun:
    source = FromSpecs(backend=BACKEND, policies=(), desired=WANTED)
    return ApplyRun(BACKEND, user, Choices(), source, rollback_policies=rollback_policies)


@pytest.fixture
def world() -> Applying:
    """One connector is to be changed, another one to be created."""
    made = Applying(key=b"key")
    made.kafka.create_topics()
    assert made.apply(desired_of(spec("a"))).exit_code == 0
    return made


def nothing(world: Applying, desired: Desired) -> None:
    """Nothing happened meanwhile."""


def change_came_late(world: Applying, desired: Desired) -> None:
    """What an apply that was killed had asked for."""
    FakeCluster(world.kafka).update_config("a", spec("a", "new").config)


def all_was_done(world: Applying, desired: Desired) -> None:
    assert world.apply(desired).exit_code == 0


def deleted_by_hand(world: Applying, desired: Desired) -> None:
    FakeCluster(world.kafka).delete("a")


@pytest.mark.parametrize(
    ("meanwhile", "left"),
    [(nothing, ["a", "b"]), (change_came_late, ["b"]), (all_was_done, [])],
)
def test_what_is_left_of_the_plan_is_applied(
    world: Applying, meanwhile: Changes, left: list[str]
) -> None:
    source = source_of(WANTED, world.observe)
    shown = source.plan()
    meanwhile(world, WANTED)
    planned = source.plan_under_lease(shown)
    assert [action.connector for action in planned.plan.actions] == left
    report = world.apply(WANTED, planned.plan)
    assert report.exit_code == 0
    assert world.plan(WANTED).empty
    assert planned.live.connectors.keys() == {"a"} | {"b"} - {*left}


def changed_by_hand(world: Applying, desired: Desired) -> None:
    """The same key: it would be overwritten, and nobody was shown that."""
    FakeCluster(world.kafka).update_config("a", spec("a", "by hand").config)


def key_added_by_hand(world: Applying, desired: Desired) -> None:
    """A key that no spec has: the plan would remove it."""
    FakeCluster(world.kafka).update_config("a", {**spec("a").config, "errors.tolerance": "all"})


@pytest.mark.parametrize("meanwhile", [deleted_by_hand, changed_by_hand, key_added_by_hand])
def test_what_was_not_shown_is_not_done(world: Applying, meanwhile: Changes) -> None:
    source = source_of(WANTED, world.observe)
    shown = source.plan()
    meanwhile(world, WANTED)
    with pytest.raises(PlanChanged) as changed:
        source.plan_under_lease(shown)
    assert changed.value.planned.plan.actions == world.plan(WANTED).actions


def test_the_clusters_answers_about_secrets_are_kept(world: Applying) -> None:
    live = world.observe(WANTED)
    now = replace(live, password_keys={"a": frozenset({"q"}), "b": frozenset({"r"})})
    source = source_of(WANTED, lambda _: now)
    answered = replace(live, password_keys={"a": frozenset({"p"})})
    shown = replace(source.plan(), live=answered)
    assert source.plan_under_lease(shown).live.password_keys == {
        "a": frozenset({"p", "q"}),
        "b": frozenset({"r"}),
    }


def test_a_policy_that_denies_by_now_is_obeyed(world: Applying) -> None:
    """The trap: allowed before six, applied after a wait until seven."""
    live = world.observe(WANTED)
    policy = Policy("late", "deny", cel.compile("now.hour >= 18"), Location("p.yaml"))
    late = replace(live, now_ms=(24 * 365 + 19) * 3_600_000)
    shown = source_of(WANTED, lambda _: live, policies=(policy,)).plan()
    for now, denied in ((live, False), (late, True)):
        source = source_of(WANTED, lambda _, now=now: now, policies=(policy,))
        if not denied:
            assert source.plan_under_lease(shown).plan == shown.plan
            continue
        with pytest.raises(PlanChanged) as changed:
            source.plan_under_lease(shown)
        assert [each.code for each in changed.value.planned.plan.errors] == ["policy.deny"]


def test_a_saved_rollback_that_is_not_possible_by_now_says_why(world: Applying) -> None:
    backend = backend_of(world.observe, lambda: ledger(world))
    second = world.apply(WANTED).apply_id
    source = FromSnapshots(backend=backend, policies=(), apply_id=second, files=WANTED)
    saved = source.plan().plan
    assert saved.errors == ()
    world.time.at += 10
    renamed = desired_of(replace(spec("c", "new"), renamed_from="a"), spec("b"))
    assert world.apply(renamed).exit_code == 0
    plan = replace(source, saved=saved).plan().plan
    assert [each.code for each in plan.errors] == ["rollback.renamed-since"]


def test_policies_see_the_offsets_that_were_found_once_a_sink_was_stopped(world: Applying) -> None:
    """In the place of the estimate, and beside those that were found for another sink."""
    assert world.apply(desired_of(spec("a"), spec("b"))).exit_code == 0
    world.kafka.ranges["t", 0] = LogRange(0, 100)
    world.kafka.groups |= {"connect-a": {("t", 0): 60}, "connect-b": {("t", 0): 50}}
    back = [replace(spec(name), pin=Pin("p", to="earliest")) for name in ("a", "b")]
    plan = world.plan(desired_of(*back))
    each_few = cel.compile("change.again > 100")
    all_few = cel.compile("plan.changes.map(c, c.again)[0] + plan.changes.map(c, c.again)[1] > 150")
    for program, again, denied in ((each_few, 101, "a"), (each_few, 90, ""), (all_few, 80, "b")):
        denials = Denials(plan, (Policy("few", "deny", program, Location("p.yaml")),), 0)
        found = ""
        for action in (each for each in plan.actions if isinstance(each, AlterOffsets)):
            moves = tuple(replace(move, counts=Counts(again)) for move in action.moves)
            found = found or (action.connector if denials(replace(action, moves=moves)) else "")
        assert found == denied


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the user was asked on a terminal, and agreed to."""
    found: list[str] = []

    def prompt(text: str, **more: Any) -> str:
        found.append(text)
        return "y"

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    return found


def shown_and_applied(
    world: Applying, monkeypatch: pytest.MonkeyPatch, *, yes: bool
) -> tuple[int, list[Plan]]:
    """Its exit code and the plans that were carried out, where the first one is overtaken."""
    carried: list[Plan] = []
    shown, live = world.plan(desired_of(spec("a"), spec("b"))), world.observe(WANTED)
    now = world.plan(WANTED)

    def execute(self: ApplyRun, planned: Planned, **more: Any) -> ApplyReport:
        if planned.plan is shown:
            raise PlanChanged(planned_of(now, live))
        carried.append(planned.plan)
        return ApplyReport("id", ())

    monkeypatch.setattr(ApplyRun, "_execute", execute)
    applied = run_of(Terminal(yes=yes, as_json=False)).run(planned_of(shown, live))
    return applied.exit_code, carried


def test_what_is_new_is_asked_for_again(
    world: Applying, monkeypatch: pytest.MonkeyPatch, asked: list[str], capsys: Any
) -> None:
    code, (carried,) = shown_and_applied(world, monkeypatch, yes=False)
    assert (code, carried) == (ExitCode.OK, world.plan(WANTED))
    assert len(asked) == 2
    said = capsys.readouterr()
    assert "this is what there is to do now" in said.err
    assert said.out.count("+ b: create") == 2
    assert said.out.count("~ a: ") == 1


def test_nobody_agreed_to_what_is_new(
    world: Applying, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """--yes agrees to what was shown."""
    with pytest.raises(Stale) as refused:
        shown_and_applied(world, monkeypatch, yes=True)
    assert refused.value.diagnostics[0].code == "stale.moved"
    assert capsys.readouterr().out.count("~ a: ") == 1


def test_errors_that_came_meanwhile_are_those_of_the_plan(
    world: Applying, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    shown, live = world.plan(WANTED), world.observe(WANTED)
    denied = replace(shown, errors=(Diagnostic("policy.deny", "not after six"),))

    def execute(self: ApplyRun, planned: Planned, **more: Any) -> ApplyReport:
        raise PlanChanged(planned_of(denied, live))

    monkeypatch.setattr(ApplyRun, "_execute", execute)
    ended = run_of(Terminal(yes=True, as_json=False)).run(planned_of(shown, live))
    assert (ended.exit_code, ended.plan, ended.report) == (ExitCode.INVALID, denied, None)
    assert "not applied: the plan has errors" in capsys.readouterr().err


def test_an_apply_is_rolled_back_although_nobody_reads_its_report(
    world: Applying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: `connect apply --yes --rollback-on-failure | head`."""
    shown, live = world.plan(WANTED), world.observe(WANTED)
    result = ActionResult(shown.actions[0], Outcome.DONE)
    failed = ConnectorReport("a", (result,), health=Health.FAILED)
    report = ApplyReport("id", (failed,), exit_code=ExitCode.FAILED)
    rolled_back: list[str] = []

    def unread(self: Terminal, report: ApplyReport, **more: Any) -> None:
        raise BrokenPipeError

    def roll_back(self: ApplyRun, apply_id: str, *more: Any) -> RollbackResult:
        rolled_back.append(apply_id)
        return RollbackResult()

    monkeypatch.setattr(ApplyRun, "_execute", lambda *_, **more: report)
    monkeypatch.setattr(ApplyRun, "_roll_back", roll_back)
    monkeypatch.setattr(Terminal, "report", unread)
    user = Terminal(yes=True, as_json=False)
    with pytest.raises(BrokenPipeError):
        run_of(user, rollback_policies=()).run(planned_of(shown, live))
    assert rolled_back == ["id"]


def test_ctrl_c_before_a_rollback_does_not_lose_the_report(
    world: Applying, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, live = world.plan(WANTED), world.observe(WANTED)
    result = ActionResult(shown.actions[0], Outcome.DONE)
    failed = ConnectorReport("a", (result,), health=Health.FAILED)
    report = ApplyReport("id", (failed,), exit_code=ExitCode.FAILED)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ApplyRun, "_execute", lambda *_, **more: report)
    monkeypatch.setattr(FromSnapshots, "observe", interrupted)
    user = Terminal(yes=True, as_json=True)
    ended = run_of(user, rollback_policies=()).run(planned_of(shown, live))
    assert (ended.report, ended.exit_code) == (report, ExitCode.FAILED)
    assert ended.rollback is not None
    assert [each.code for each in ended.rollback.errors] == ["rollback.interrupted"]


@pytest.mark.parametrize(("text", "found"), [("500", 0.5), ("10s", 60), ("", 60), ("9" * 5000, 60)])
def test_an_interval_of_workers_that_is_none_ends_no_rollback(text: str, found: float) -> None:
    assert apply._commits_s({"offset.flush.interval.ms": text}) == found


def test_what_is_new_after_a_killed_apply_needs_someone_to_ask(
    world: Applying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was nothing to do, so nobody had to agree; only the journal was to be closed."""
    done, live = world.plan(desired_of(spec("a"))), world.observe(WANTED)
    unfinished: Any = ("killed",)
    live = replace(live, ledger=replace(live.ledger, unfinished=unfinished))
    now = world.plan(WANTED)

    def execute(self: ApplyRun, planned: Planned, **more: Any) -> ApplyReport:
        raise PlanChanged(planned_of(now, live))

    monkeypatch.setattr(ApplyRun, "_execute", execute)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    with pytest.raises(Stale):
        run_of(Terminal(yes=False, as_json=False)).run(planned_of(done, live))


# --- before the cluster is asked ---


class _Unreachable:
    """Stands for a cluster that must not be asked."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def observe(self, desired: Desired) -> Live:
        pytest.fail("the cluster was asked")


def test_properties_that_cannot_be_used_are_refused_before_the_cluster_is_asked() -> None:
    project = replace(
        PROJECT,
        kafka={"bootstrap.servers": "kafka:9092"},
        worker={"offset.flush.interval.ms": "soon"},
    )
    with pytest.raises(Invalid) as refusal:
        observed(cast(Backend, _Unreachable(project)), desired_of())
    assert "offset.flush.interval.ms" in refusal.value.diagnostics[0].what
