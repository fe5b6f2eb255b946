"""What to do after an apply that did not end well, as commands to copy. Pure.

A command has the folder, the environment, the connectors and the plan file of the one that failed,
where that named them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from shlex import join

from connect_reconciler.apply.report import UNWELL, ApplyReport, Health, Outcome
from connect_specs.diagnostics import ConnectError, NextStep, Stale
from connect_specs.printable import lines_of

# What ended an apply, where another one has the cluster now
_OTHERS = ("apply.taken-over", "apply.lease-lost")
_LEASED = "apply.leased"
# The user named another cluster than the plan is for: a new plan would not help
_ELSEWHERE = ("stale.project", "stale.environment")
# Of a line, with its end
_WIDTH = 101
# For another apply to end
_WAIT = "10m"
# Connectors that a command names
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Run:
    """The command that applies a plan now: `apply`, or `rollback ID`.

    `base` holds its options -C and --env, `scope` those that say what it may do, as --target.
    `journal` is false where applies are not written down, over REST alone: there is no rollback.
    """

    verb: tuple[str, ...] = ("apply",)
    base: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    file: str | None = None
    journal: bool = True

    def again(self, *options: str) -> str:
        """The same command."""
        file = () if self.file is None else (self.file,)
        return self.command(*self.verb, *file, *self.scope, *options)

    def command(self, *words: str) -> str:
        """Another command for the same project."""
        return join(("connect", *self.base, *words))

    @property
    def rolls_back(self) -> bool:
        """Whether it applies a rollback."""
        return self.verb[0] == "rollback"


def after_apply(report: ApplyReport, run: Run) -> tuple[NextStep, ...]:
    """What to do after an apply; nothing if all is well."""
    if any(each.code in _OTHERS for each in report.ended_by):
        return (
            NextStep(run.command("history"), "what the other apply does"),
            NextStep(run.command("plan"), "what is left to do, once it has ended"),
        )
    if report.ok and not report.ended_by:
        awaited = not any(each.health is Health.NOT_AWAITED for each in report.connectors)
        return () if awaited else (NextStep(run.command("status"), "whether all of it runs"),)
    return (*_looking(report, run), *_going_on(report, run), *_going_back(report, run))


def after_error(error: ConnectError, run: Run) -> tuple[NextStep, ...]:
    """What to do after an error before which nothing was changed."""
    codes = {each.code for each in error.diagnostics}
    if _LEASED in codes:
        return (
            NextStep(run.command("history"), "what the other apply does"),
            NextStep(run.again("--lock-timeout", _WAIT), "waits until it has ended"),
            NextStep(run.again("--takeover"), "ends it, and goes on after it"),
        )
    if not isinstance(error, Stale) or codes.intersection(_ELSEWHERE):
        return ()
    if run.file is None:
        return (NextStep(run.again(), "plans anew, and asks again"),)
    verb = run.verb if run.rolls_back else ("plan",)
    return (
        NextStep(run.command(*verb, *run.scope, "--out", run.file), "plan anew"),
        NextStep(run.again(), "then apply that"),
    )


def after_rollback(run: Run) -> tuple[NextStep, ...]:
    """What to do after an apply failed and was undone."""
    return (NextStep(run.command("plan"), "once the specs are fixed: what they would change"),)


def steps_text(steps: Sequence[NextStep]) -> str:
    """A heading and a line for each step, or two where one would be long; empty without any."""
    width = max((len(each.command) for each in steps), default=0)
    lines = [f"  {each.command.ljust(width)}   {each.why}\n" for each in steps]
    if max(map(len, lines), default=0) > _WIDTH:
        lines = [f"  {each.command}\n      {each.why}\n" for each in steps]
    return lines_of("".join(["Next:\n", *lines])) if lines else ""


def _looking(report: ApplyReport, run: Run) -> Iterator[NextStep]:
    unwell = {each.name: each.health for each in report.connectors if each.health in UNWELL}
    if report.counts[Outcome.UNKNOWN]:
        yield NextStep(run.command("plan"), "whether what is unknown took place")
    status = run.command("status", *_targets(unwell))
    if set(unwell.values()) == {Health.FALLS_BEHIND}:
        yield NextStep(status, "its tasks: a sink that falls behind needs more")
    elif unwell:
        yield NextStep(status, "what runs, and why the rest does not")


def _going_on(report: ApplyReport, run: Run) -> Iterator[NextStep]:
    counts = report.counts
    unwell = [each.name for each in report.connectors if each.health in UNWELL]
    failed = [each.name for each in report.connectors if each.health is Health.FAILED]
    if counts[Outcome.FAILED]:
        yield NextStep(run.again(), _unless(run, "goes on, once the cause is removed"))
    elif counts[Outcome.SKIPPED] or counts[Outcome.UNKNOWN]:
        yield NextStep(run.again(), _unless(run, "goes on where this one ended"))
    elif unwell and not run.rolls_back:
        # Its file would be stale: the spec is to change
        anew = Run(run.verb, run.base, run.scope, journal=run.journal)
        yield NextStep(anew.again(), _unless(run, "once the spec is fixed"))
    if failed:
        restart = run.command("restart", "--failed", *_targets(failed))
        yield NextStep(restart, "once a cause outside the spec is gone")


def _unless(run: Run, why: str) -> str:
    """Over REST alone the specs of before are the only way back."""
    if run.journal:
        return why
    return f"{why}; with the specs as they were, it undoes this"


def _going_back(report: ApplyReport, run: Run) -> Iterator[NextStep]:
    if report.counts[Outcome.DONE] and run.journal:
        what = "the rollback" if run.rolls_back else "the apply"
        yield NextStep(run.command("rollback", report.apply_id), f"or undo {what}")


def _targets(names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(names)
    if len(found) > _NAMED:
        return ()
    return tuple(word for name in found for word in ("--target", name))
