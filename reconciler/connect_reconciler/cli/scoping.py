"""`--target` and `--exclude`: a plan about some connectors only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.completing import connector_names
from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from connect_reconciler.plan.scope import Scope

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
