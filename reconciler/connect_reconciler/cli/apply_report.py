"""The output after an apply: its report, as text and as JSON, and the commands to run next.

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
from connect_specs.diagnostics import ConnectError, ExitCode, NextStep, Stale
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
# Time to wait for another apply
_WAIT = "10m"
_PLAN_AGAIN = "make the plan again"
# At most so many connectors are named in a command
_TARGETS = 3
# At most so many connectors that were not started are named; --json names all
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
class ApplyCommand:
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
        """Returns the same command, with further options."""
        file = () if self.file is None else (self.file,)
        return self.command(*self.verb, *file, *self.scope, *options)

    def command(self, *words: str) -> str:
        """Returns another command for the same project."""
        return join(("connect", *self.base, *words))

    @property
    def rolls_back(self) -> bool:
        return self.verb[0] == "rollback"


_APPLY = ApplyCommand()


def after_apply(report: ApplyReport, run: ApplyCommand) -> tuple[NextStep, ...]:
    """Returns the next steps after an apply; none if everything is healthy."""
    if any(diagnostic.code in _OTHERS for diagnostic in report.ended_by):
        return (
            NextStep(run.command("history"), "shows what the other apply does"),
            NextStep(run.command("plan"), "shows what is left, once it has finished"),
        )
    if report.ok and not report.ended_by:
        awaited = not any(entry.health is Health.NOT_AWAITED for entry in report.connectors)
        return (
            () if awaited else (NextStep(run.command("status"), "shows whether everything runs"),)
        )
    return (*_inspecting(report, run), *_continuing(report, run), *_rolling_back(report, run))


def after_error(error: ConnectError, run: ApplyCommand) -> tuple[NextStep, ...]:
    """Returns the next steps after an error before which nothing was changed."""
    codes = {diagnostic.code for diagnostic in error.diagnostics}
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


def steps_text(steps: Sequence[NextStep]) -> str:
    """Returns a heading and a line for each step, or two where one would be long; empty without
    steps."""
    width = max((width_of(step.command) for step in steps), default=0)
    lines = [f"  {padded(step.command, width)}   {step.why}\n" for step in steps]
    if max(map(width_of, lines), default=0) > _WIDTH:
        lines = [f"  {step.command}\n      {step.why}\n" for step in steps]
    return lines_of("".join(["Next:\n", *lines])) if lines else ""


def _inspecting(report: ApplyReport, run: ApplyCommand) -> Iterator[NextStep]:
    unwell = {entry.name: entry.health for entry in report.connectors if entry.health in UNHEALTHY}
    if report.counts[Outcome.UNKNOWN]:
        yield NextStep(run.command("plan"), "shows whether the unknown actions took effect")
    status = run.command("status", *_targets(unwell))
    if set(unwell.values()) == {Health.FALLS_BEHIND}:
        yield NextStep(status, "shows its tasks: a sink that falls behind needs more")
    elif unwell:
        yield NextStep(status, "shows what runs, and why the rest does not")


def _continuing(report: ApplyReport, run: ApplyCommand) -> Iterator[NextStep]:
    counts = report.counts
    unwell = {entry.health for entry in report.connectors}.intersection(UNHEALTHY)
    failed = [entry.name for entry in report.connectors if entry.health is Health.FAILED]
    if counts[Outcome.FAILED]:
        yield NextStep(run.again(), _effect_text(run, "continues, once the cause is fixed"))
    elif counts[Outcome.SKIPPED] or counts[Outcome.UNKNOWN]:
        yield NextStep(run.again(), _effect_text(run, "continues where this one stopped"))
    elif unwell and not run.rolls_back:
        # Its file would be stale: the spec is to change
        without_file = ApplyCommand(run.verb, run.base, run.scope, journal=run.journal)
        gone = unwell == {Health.DELETED}
        effect = "creates it again" if gone else "applies the spec, once it is fixed"
        yield NextStep(without_file.again(), _effect_text(run, effect))
    if failed:
        # No spec need name what a rollback made
        alone = run.rolls_back and len(failed) <= _TARGETS
        for which in [(name,) for name in failed] if alone else [("--failed", *_targets(failed))]:
            restart = run.command("restart", *which)
            yield NextStep(restart, "restarts it, once a cause outside the spec is fixed")


def _effect_text(run: ApplyCommand, effect: str) -> str:
    """Returns the effect; over REST alone with a hint that the previous specs undo the apply."""
    if run.journal:
        return effect
    return f"{effect}; with the previous specs, it reverts this"


def _rolling_back(report: ApplyReport, run: ApplyCommand) -> Iterator[NextStep]:
    if report.counts[Outcome.DONE] and run.journal:
        subject = "the rollback" if run.rolls_back else "the apply"
        yield NextStep(run.command("rollback", report.apply_id), f"or rolls back {subject}")


def _targets(names: Iterable[str]) -> tuple[str, ...]:
    connectors = tuple(names)
    if len(connectors) > _TARGETS:
        return ()
    return tuple(word for name in connectors for word in ("--target", name))


def run_of(
    call: Invocation,
    project: Project,
    scope: Scope,
    file: Path | None,
    verb: Sequence[str] = ("apply",),
    options: Sequence[str] = (),
) -> ApplyCommand:
    """Returns the command of this invocation, with further `options` that it needs."""
    words = [word for glob in scope.targets for word in ("--target", glob)]
    words += [word for glob in scope.exclude for word in ("--exclude", glob)]
    return ApplyCommand(
        tuple(verb),
        base_of(call, project.secrets),
        (*words, *options),
        None if file is None else str(file),
        journal=not project.rest_only,
    )


def base_of(call: Invocation, secrets: Collection[str]) -> tuple[str, ...]:
    """Returns the options -C, --env and --var of commands for the same project, without secret
    values."""
    base: tuple[str, ...] = () if _is_here(call.folder) else ("-C", str(call.folder))
    if call.env is not None:
        base += ("--env", call.env)
    for assignment in call.assignments:
        name, _, value = assignment.partition("=")
        hidden = is_sensitive(name, value) or gives_secret(value, secrets)
        base += ("--var", f"{name}=..." if hidden else assignment)
    return base


def _is_here(folder: Path) -> bool:
    try:
        return folder.samefile(Path.cwd())
    except OSError:
        return False  # the folder that the process was started in is gone


@contextmanager
def advised(run: ApplyCommand) -> Iterator[None]:
    """Adds the next steps to errors; they replace hints that say the same without commands."""
    try:
        yield
    except ConnectError as error:
        error.next_steps = error.next_steps or after_error(error, run)
        if error.next_steps:
            error.diagnostics = tuple(
                replace(diagnostic, hint="") if diagnostic.hint == _PLAN_AGAIN else diagnostic
                for diagnostic in error.diagnostics
            )
        raise


def render_report(report: ApplyReport, run: ApplyCommand = _APPLY) -> str:
    """Returns the report as text, with the next steps."""
    return render_outcome(report) + steps_text(after_apply(report, run))


def render_outcome(report: ApplyReport) -> str:
    """Returns the report as text: the end of the apply, the actions by outcome, each connector."""
    counts = [f"{count} {outcome.value}" for outcome, count in report.counts.items() if count]
    unwell = sum(entry.health in UNHEALTHY for entry in report.connectors)
    counts += [f"{unwell} unhealthy"] if unwell else []
    took = f", in {report.seconds:.1f} s" if counts else ""
    lines = [f"{_head(report)}: {', '.join(counts) or 'nothing to do'}{took}"]
    for entry in report.connectors:
        if not entry.not_begun:
            lines += _connector(entry)
    lines += _not_started(entry for entry in report.connectors if entry.not_begun)
    if any(entry.health is Health.LATER for entry in report.connectors):
        lines.append(f"{LATER} (`connect up` starts one)")
    return lines_of("\n".join(lines)) + "\n"


def _head(report: ApplyReport) -> str:
    if report.interrupted:
        return "Apply interrupted"
    return "Applied" if report.exit_code == ExitCode.OK else "Apply failed"


def report_json(report: ApplyReport, run: ApplyCommand = _APPLY) -> dict[str, Any]:
    return {
        "apply_id": report.apply_id,
        "interrupted": report.interrupted,
        "exit_code": int(report.exit_code),
        "seconds": round(report.seconds, 3),
        "next": [asdict(step) for step in after_apply(report, run)],
        "runtime_up": report.runtime_up,
        "counts": {outcome.value: count for outcome, count in report.counts.items()},
        "connectors": [
            {
                "name": entry.name,
                "ok": entry.ok,
                "left": entry.left,
                "health": entry.health.value,
                "health_detail": LATER if entry.health is Health.LATER else entry.health_detail,
                "actions": [
                    {
                        "action": done.action.imperative,
                        "outcome": done.outcome.value,
                        "detail": done.detail,
                    }
                    for done in entry.results
                ],
            }
            for entry in report.connectors
        ],
    }


def _not_started(reports: Iterable[ConnectorReport]) -> Iterator[str]:
    """Yields one line for all connectors that were not started for the same reason."""
    names_by_reason = defaultdict(list)
    for report in reports:
        names_by_reason[report.results[0].detail].append(report.name)
    for reason, names in names_by_reason.items():
        yield f"  not started ({reason}): {listed(names, _NAMED)}"


def _connector(report: ConnectorReport) -> list[str]:
    state = _HEALTH[report.health]
    if report.health_detail:
        state += f": {report.health_detail}"
    lines = [f"  {report.name}: {state}"] if state else []
    for done in report.results:
        if done.outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            action = done.action.imperative
            lines.append(f"  {report.name}: {action} {done.outcome.value}: {done.detail}")
    if report.left:
        lines.append(f"  {report.name}: left as it is: {report.left}")
    return lines
