"""The command that applies a plan, told to the part that says what to do next."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from connect_reconciler.cli.applying.next_steps import Run, after_error
from connect_specs.diagnostics import ConnectError, Diagnostic
from connect_specs.secret_values import is_sensitive
from connect_specs.value_secrets import gives_secret

if TYPE_CHECKING:
    from connect_reconciler.cli.invocation import Invocation
    from connect_reconciler.plan.scope import Scope
    from connect_specs.desired import Project

_PLAN_AGAIN = "make the plan again"


def run_of(
    call: Invocation,
    project: Project,
    scope: Scope,
    file: Path | None,
    verb: Sequence[str] = ("apply",),
    options: Sequence[str] = (),
) -> Run:
    """The command as it would be written again, with further `options` that it needs then."""
    words = [word for glob in scope.targets for word in ("--target", glob)]
    words += [word for glob in scope.exclude for word in ("--exclude", glob)]
    return Run(
        tuple(verb),
        base_of(call, project.secrets),
        (*words, *options),
        None if file is None else str(file),
        journal=project.target is None or bool(project.kafka),
    )


def base_of(call: Invocation, secrets: Collection[str]) -> tuple[str, ...]:
    """The options -C, --env and --var of every command for the same project; a value of --var that
    is a secret is left out, for the reader to write."""
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
    """Errors get what to do next, in place of hints that say the same without the commands."""
    try:
        yield
    except ConnectError as error:
        error.next_steps = error.next_steps or after_error(error, run)
        if error.next_steps:
            error.diagnostics = tuple(map(_without_bare_hint, error.diagnostics))
        raise


def _without_bare_hint(diagnostic: Diagnostic) -> Diagnostic:
    return replace(diagnostic, hint="") if diagnostic.hint == _PLAN_AGAIN else diagnostic
