"""`--target` and `--exclude`: a plan about some connectors only. `--allow-empty` and
`--max-deletes`: how much it may delete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.completing import connector_names
from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from connect_reconciler.plan.scope import Scope
    from connect_specs.desired import Project

Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="GLOB",
        help="Only connectors whose names match. Repeatable.",
        autocompletion=connector_names,
    ),
]
Excludes = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="GLOB",
        help="Leave these connectors out. Repeatable.",
        autocompletion=connector_names,
    ),
]
AllowEmpty = Annotated[
    bool,
    typer.Option("--allow-empty", help="Let the plan remove all connectors that the project owns."),
]
MaxDeletes = Annotated[
    int | None,
    typer.Option("--max-deletes", min=0, metavar="N", help="Refuse a plan with more deletes."),
]


def with_delete_limits(project: Project, most: int | None, *, allow_empty: bool) -> Project:
    """The project with what the command line says; without a number, connect.yaml's holds."""
    limits = replace(project.deletes, allow_empty=allow_empty)
    if most is not None:
        limits = replace(limits, most=most, where=None)
    return replace(project, deletes=limits)


def delete_options(most: int | None, *, allow_empty: bool) -> tuple[str, ...]:
    """The same on a command line."""
    number = () if most is None else ("--max-deletes", str(most))
    return (*(("--allow-empty",) if allow_empty else ()), *number)


def scope_of(targets: list[str] | None, exclude: list[str] | None) -> Scope:
    """What the two options choose."""
    from connect_reconciler.plan.scope import Scope

    return Scope(tuple(targets or ()), tuple(exclude or ()))


def ensure_whole(scope: Scope) -> None:
    """Raises Invalid where a plan that was saved is asked to be another one."""
    if not scope.whole:
        what = "a saved plan is applied as it is, so --target and --exclude have no place here"
        hint = "give them to `connect plan --out`"
        raise Invalid(Diagnostic("apply.scope-of-a-file", what, hint=hint))
