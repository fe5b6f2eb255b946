"""`connect apply`: shows the plan, asks, and makes it so.

With a runtime up, through its leader; with none, this process leads for as long as it takes and
writes what the next runtime finds.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.applying.choices import (
    DEFAULT,
    Choices,
    FailFast,
    HealthTimeout,
    HealthyFor,
    LockTimeout,
    Parallelism,
    Settle,
    TakeOver,
    Yes,
)
from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.plan_forms import Warned, Warnings
from connect_reconciler.cli.scoping import (
    AllowEmpty,
    Excludes,
    MaxDeletes,
    Targets,
    delete_options,
    ensure_whole,
    scope_of,
    with_delete_limits,
)

if TYPE_CHECKING:
    from connect_reconciler.cli.applying.replanning import Again


def apply(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A plan that `connect plan --out` saved."),
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
        typer.Option("--rollback-on-failure", help="If anything fails, undo all that was done."),
    ] = False,
    health_timeout: HealthTimeout = DEFAULT.health_timeout,
    healthy_for: HealthyFor = DEFAULT.healthy_for,
    settle: Settle = DEFAULT.settle,
    lock_timeout: LockTimeout = DEFAULT.lock_timeout,
) -> int:
    """Make the cluster what the specs say: shows the plan, asks, and carries it out.

    Can be killed and run again: nothing is done twice, and no connector is left unfinished. With
    FILE it does what that plan says, if the specs here still give it, or nothing.
    """
    from connect_reconciler.cli.applying.leasing import ensure_lease, taken_over
    from connect_reconciler.cli.applying.replanning import FromFile, FromSpecs
    from connect_reconciler.cli.applying.running import advised, run_of
    from connect_reconciler.cli.applying.show_and_apply import need_someone_to_ask, show_and_apply
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.journals import ensure_journal
    from connect_reconciler.cli.plan_output import read_plan
    from connect_reconciler.cli.planning import observed, planned
    from connect_reconciler.cli.reading import specs_and_policies

    if takeover:
        # Before another apply is ended for this one
        need_someone_to_ask(yes=yes)
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
    with advised(run), client(project) as properties, ExitStack() as stack:
        if lock_timeout:
            ensure_lease(project, properties)
        # Before the cluster is looked at: what the other one does last must not be missed
        lease = stack.enter_context(taken_over(project, properties)) if takeover else None
        again: Again
        if saved is None:
            again = FromSpecs(project, desired, policies, properties, scope)
            live = observed(project, desired, properties, scope)
            plan = planned(project, desired, live, policies, scope)
        else:
            again = FromFile(saved, project, desired, policies, properties)
            plan, live = again(saved)
        undo = None
        if rollback_on_failure:
            from connect_reconciler.cli.applying.undo import Undo

            undo = Undo(project, desired, policies, properties, choices, lease)
        return show_and_apply(
            plan,
            project,
            desired,
            live,
            properties,
            choices,
            yes=yes,
            as_json=as_json,
            warned=warnings,
            run=run,
            lease=lease,
            undo=undo,
            again=again,
        )
