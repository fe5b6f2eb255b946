"""`connect apply`: shows the plan, asks, and makes it so.

With a runtime up, through its leader; with none, this process leads for as long as it takes and
writes what the next runtime finds.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import (
    DEFAULT,
    AllowEmpty,
    AsJson,
    Excludes,
    FailFast,
    HealthTimeout,
    HealthyFor,
    LockTimeout,
    MaxDeletes,
    Parallelism,
    Settle,
    TakeOver,
    Targets,
    Warned,
    Warnings,
    Yes,
    delete_options,
    ensure_whole,
    scope_of,
    with_delete_limits,
)
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.session import invocation
from connect_reconciler.workflow.user import Choices

if TYPE_CHECKING:
    from connect_reconciler.workflow.replanning import Replan


def apply(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A plan saved by `connect plan --out`."),
    ] = None,
    target: Targets = None,
    exclude: Excludes = None,
    allow_empty: AllowEmpty = False,
    max_deletes: MaxDeletes = None,
    yes: Yes = False,
    as_json: AsJson = False,
    warnings: Warnings = Warned.CHANGES,
    parallelism: Parallelism = DEFAULT.parallelism,
    fail_fast: FailFast = False,
    takeover: TakeOver = False,
    rollback_on_failure: Annotated[
        bool,
        typer.Option("--rollback-on-failure", help="If anything fails, roll back the whole apply."),
    ] = False,
    health_timeout: HealthTimeout = DEFAULT.health_timeout,
    healthy_for: HealthyFor = DEFAULT.healthy_for,
    settle: Settle = DEFAULT.settle,
    lock_timeout: LockTimeout = DEFAULT.lock_timeout,
) -> int:
    """Change the cluster to match the specs: shows the plan, asks, and applies it.

    Safe to kill and rerun: no action is repeated, and unfinished connectors are completed. With
    FILE, applies that saved plan, or changes nothing if the specs no longer produce it.
    """
    from connect_reconciler.cli.applying.commands import advised, run_of
    from connect_reconciler.cli.applying.terminal import Terminal, ensure_agreement
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.plan_output import read_plan
    from connect_reconciler.workflow.apply import ApplyRun
    from connect_reconciler.workflow.planning import observed, planned, specs_and_policies
    from connect_reconciler.workflow.replanning import FromFile, FromSpecs
    from connect_reconciler.workflow.rollback import ensure_journal

    if takeover:
        # Before another apply is ended for this one
        ensure_agreement(yes=yes)
    choices = Choices(parallelism, fail_fast, health_timeout, healthy_for, settle, lock_timeout)
    call = invocation(context)
    project = with_delete_limits(call.project(), max_deletes, allow_empty=allow_empty)
    if rollback_on_failure:
        ensure_journal(project)
    scope = scope_of(target, exclude)
    desired, policies = specs_and_policies(project)
    if file is not None:
        ensure_whole(scope)
    saved = None if file is None else read_plan(call.path(file))
    limits = delete_options(max_deletes, allow_empty=allow_empty)
    run = run_of(call, project, scope, file, options=limits)
    with advised(run), backend_of(project) as backend, ExitStack() as stack:
        if lock_timeout:
            backend.ensure_lease()
        # Before the cluster is looked at: what the other one does last must not be missed
        lease = stack.enter_context(backend.take_over(progress)) if takeover else None
        replan: Replan
        if saved is None:
            replan = FromSpecs(backend, desired, policies, scope)
            live = observed(backend, desired, scope)
            plan = planned(project, desired, live, policies, scope)
        else:
            replan = FromFile(saved, backend, desired, policies)
            plan, live = replan(saved)
        user = Terminal(yes, as_json, warnings, run)
        rollback_policies = policies if rollback_on_failure else None
        applying = ApplyRun(backend, user, choices, lease, replan, rollback_policies)
        ended = applying.run(plan, desired, live)
        user.tell_end(ended)
    return ended.exit_code
