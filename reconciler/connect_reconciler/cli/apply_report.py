"""What a user is told after an apply: its report, as text and as JSON, and what to run next.

A command repeats the folder, environment, connectors and plan file of the one that ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

from connect_reconciler.apply.report import (
    LATER,
    UNHEALTHY,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode, NextStep, Stale
from connect_specs.plain_text import lines_of, listed, padded, width_of
from connect_specs.secrets import is_sensitive
from connect_specs.value_secrets import gives_secret

if TYPE_CHECKING:
    from connect_reconciler.cli.session import Invocation
    from connect_reconciler.plan.scope import Scope
    from connect_specs.desired import Project


# Errors of an apply that lost the lease to another one
_OTHERS = ("apply.taken-over", "apply.lease-lost")
_LEASED = "apply.leased"
# The user named another cluster than the plan is for: a new plan would not help
_ELSEWHERE = ("stale.project", "stale.environment")
# The longest line, with its end
_WIDTH = 101
# How long to wait for another apply
_WAIT = "10m"
_PLAN_AGAIN = "make the plan again"
# How many connectors a command names
_TARGETS = 3
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
    Health.DELETED: "not there any more",
    Health.UNKNOWN: "unknown whether it runs",
    Health.NOT_AWAITED: "not waited for",
}


@dataclass(frozen=True, slots=True)
class Run:
    """The command that applies a plan now: `apply`, or `rollback ID`.

    `base` holds its options -C and --env, `scope` those that say what it may do, as --target.
    `journal` is false over REST alone, where applies are not recorded: there is no rollback.
    """

    verb: tuple[str, ...] = ("apply",)
    base: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    file: str | None = None
    journal: bool = True

    def again(self, *options: str) -> str:
        """The same command, with further options."""
        file = () if self.file is None else (self.file,)
        return self.command(*self.verb, *file, *self.scope, *options)

    def command(self, *words: str) -> str:
        """Another command for the same project."""
        return join(("connect", *self.base, *words))

    @property
    def rolls_back(self) -> bool:
        return self.verb[0] == "rollback"


_APPLY = Run()


def after_apply(report: ApplyReport, run: Run) -> tuple[NextStep, ...]:
    """What to do after an apply; empty if everything is healthy."""
    if any(each.code in _OTHERS for each in report.ended_by):
        return (
            NextStep(run.command("history"), "shows what the other apply does"),
            NextStep(run.command("plan"), "shows what is left, once it has finished"),
        )
    if report.ok and not report.ended_by:
        awaited = not any(each.health is Health.NOT_AWAITED for each in report.connectors)
        return (
            () if awaited else (NextStep(run.command("status"), "shows whether everything runs"),)
        )
    return (*_inspecting(report, run), *_continuing(report, run), *_rolling_back(report, run))


def after_error(error: ConnectError, run: Run) -> tuple[NextStep, ...]:
    """What to do after an error before which nothing was changed."""
    codes = {each.code for each in error.diagnostics}
    if _LEASED in codes:
        return (
            NextStep(run.command("history"), "shows what the other apply does"),
            NextStep(run.again("--lock-timeout", _WAIT), "waits for it to finish"),
            NextStep(run.again("--takeover"), "takes the lease over from it"),
        )
    if not isinstance(error, Stale) or codes.intersection(_ELSEWHERE):
        return ()
    if run.file is None:
        return (NextStep(run.again(), "plans and asks again"),)
    verb = run.verb if run.rolls_back else ("plan",)
    return (
        NextStep(run.command(*verb, *run.scope, "--out", run.file), "plan again"),
        NextStep(run.again(), "then apply that"),
    )


def after_rollback(run: Run) -> tuple[NextStep, ...]:
    """What to do after an apply failed and was rolled back."""
    return (
        NextStep(run.command("plan"), "shows what the specs would change, once they are fixed"),
    )


def steps_text(steps: Sequence[NextStep]) -> str:
    """A heading and a line for each step, or two where one would be long; empty without any."""
    width = max((width_of(each.command) for each in steps), default=0)
    lines = [f"  {padded(each.command, width)}   {each.why}\n" for each in steps]
    if max(map(width_of, lines), default=0) > _WIDTH:
        lines = [f"  {each.command}\n      {each.why}\n" for each in steps]
    return lines_of("".join(["Next:\n", *lines])) if lines else ""


def _inspecting(report: ApplyReport, run: Run) -> Iterator[NextStep]:
    unwell = {each.name: each.health for each in report.connectors if each.health in UNHEALTHY}
    if report.counts[Outcome.UNKNOWN]:
        yield NextStep(run.command("plan"), "shows whether the unknown actions took effect")
    status = run.command("status", *_targets(unwell))
    if set(unwell.values()) == {Health.FALLS_BEHIND}:
        yield NextStep(status, "shows its tasks: a sink that falls behind needs more")
    elif unwell:
        yield NextStep(status, "shows what runs, and why the rest does not")


def _continuing(report: ApplyReport, run: Run) -> Iterator[NextStep]:
    counts = report.counts
    unwell = {each.health for each in report.connectors}.intersection(UNHEALTHY)
    failed = [each.name for each in report.connectors if each.health is Health.FAILED]
    if counts[Outcome.FAILED]:
        yield NextStep(run.again(), _unless(run, "continues, once the cause is fixed"))
    elif counts[Outcome.SKIPPED] or counts[Outcome.UNKNOWN]:
        yield NextStep(run.again(), _unless(run, "continues where this one stopped"))
    elif unwell and not run.rolls_back:
        # Its file would be stale: the spec is to change
        anew = Run(run.verb, run.base, run.scope, journal=run.journal)
        gone = unwell == {Health.DELETED}
        why = "creates it again" if gone else "applies the spec, once it is fixed"
        yield NextStep(anew.again(), _unless(run, why))
    if failed:
        # No spec need name what a rollback made
        alone = run.rolls_back and len(failed) <= _TARGETS
        for which in [(name,) for name in failed] if alone else [("--failed", *_targets(failed))]:
            restart = run.command("restart", *which)
            yield NextStep(restart, "restarts it, once a cause outside the spec is fixed")


def _unless(run: Run, why: str) -> str:
    """Over REST alone only the previous specs can undo an apply."""
    if run.journal:
        return why
    return f"{why}; with the previous specs, it reverts this"


def _rolling_back(report: ApplyReport, run: Run) -> Iterator[NextStep]:
    if report.counts[Outcome.DONE] and run.journal:
        what = "the rollback" if run.rolls_back else "the apply"
        yield NextStep(run.command("rollback", report.apply_id), f"or rolls back {what}")


def _targets(names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(names)
    if len(found) > _TARGETS:
        return ()
    return tuple(word for name in found for word in ("--target", name))


def run_of(
    call: Invocation,
    project: Project,
    scope: Scope,
    file: Path | None,
    verb: Sequence[str] = ("apply",),
    options: Sequence[str] = (),
) -> Run:
    """The command of this invocation, with further `options` that it needs."""
    words = [word for glob in scope.targets for word in ("--target", glob)]
    words += [word for glob in scope.exclude for word in ("--exclude", glob)]
    return Run(
        tuple(verb),
        base_of(call, project.secrets),
        (*words, *options),
        None if file is None else str(file),
        journal=not project.rest_only,
    )


def base_of(call: Invocation, secrets: Collection[str]) -> tuple[str, ...]:
    """The options -C, --env and --var of commands for the same project, without secret values."""
    base: tuple[str, ...] = () if _is_here(call.folder) else ("-C", str(call.folder))
    if call.env is not None:
        base += ("--env", call.env)
    for given in call.given:
        name, _, value = given.partition("=")
        hidden = is_sensitive(name, value) or gives_secret(value, secrets)
        base += ("--var", f"{name}=..." if hidden else given)
    return base


def _is_here(folder: Path) -> bool:
    try:
        return folder.samefile(Path.cwd())
    except OSError:
        return False  # the folder that the process was started in is gone


@contextmanager
def advised(run: Run) -> Iterator[None]:
    """Adds the next steps to errors; they replace hints that say the same without commands."""
    try:
        yield
    except ConnectError as error:
        error.next_steps = error.next_steps or after_error(error, run)
        if error.next_steps:
            error.diagnostics = tuple(map(_without_bare_hint, error.diagnostics))
        raise


def _without_bare_hint(diagnostic: Diagnostic) -> Diagnostic:
    return replace(diagnostic, hint="") if diagnostic.hint == _PLAN_AGAIN else diagnostic


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
    if any(each.health is Health.LATER for each in report.connectors):
        lines.append(f"{LATER} (`connect up` starts one)")
    return lines_of("\n".join(lines)) + "\n"


def _head(report: ApplyReport) -> str:
    if report.interrupted:
        return "Apply interrupted"
    return "Applied" if report.exit_code == ExitCode.OK else "Apply failed"


def report_json(report: ApplyReport, run: Run = _APPLY) -> dict[str, Any]:
    return {
        "apply_id": report.apply_id,
        "interrupted": report.interrupted,
        "exit_code": int(report.exit_code),
        "seconds": round(report.seconds, 3),
        "next": [asdict(each) for each in after_apply(report, run)],
        "runtime_up": report.runtime_up,
        "counts": {outcome.value: count for outcome, count in report.counts.items()},
        "connectors": [
            {
                "name": each.name,
                "ok": each.ok,
                "left": each.left,
                "health": each.health.value,
                "health_detail": LATER if each.health is Health.LATER else each.health_detail,
                "actions": [
                    {
                        "action": done.action.imperative,
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
        yield f"  not started ({why}): {listed(names, _NAMED)}"


def _connector(report: ConnectorReport) -> list[str]:
    state = _HEALTH[report.health]
    if report.health_detail:
        state += f": {report.health_detail}"
    lines = [f"  {report.name}: {state}"] if state else []
    for done in report.results:
        if done.outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            what = done.action.imperative
            lines.append(f"  {report.name}: {what} {done.outcome.value}: {done.detail}")
    if report.left:
        lines.append(f"  {report.name}: left as it is: {report.left}")
    return lines
