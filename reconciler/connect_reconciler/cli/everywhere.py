"""Options that may stand before the verb and after it. What stands after the verb wins.

Each has a callback that changes the invocation, so that no verb needs to know of any.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from connect_reconciler.cli.asked_log import tell
from connect_reconciler.cli.completing import environments
from connect_reconciler.cli.invocation import Invocation


def take_everywhere(command: Any) -> None:
    """Lets a command, and each of its parts that is loaded, take these options."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_options)
    _take(command, typer.main.get_command(app).params)


def _take(command: Any, options: list[Any]) -> None:
    command.params += options
    for part in getattr(command, "commands", {}).values():
        if part is not None:
            _take(part, options)


def _change(context: typer.Context, **fields: Any) -> None:
    context.obj = replace(context.obj or Invocation(Path.cwd()), **fields)


def _choose_folder(context: typer.Context, project: Path | None) -> None:
    if project is None:
        return
    if not project.is_dir():
        raise typer.BadParameter(f"{project} is not a folder", param_hint="--project")
    _change(context, folder=project)


def _choose_env(context: typer.Context, env: str | None) -> None:
    if env is not None:
        _change(context, env=env)


def _give(context: typer.Context, given: list[str] | None) -> None:
    if given:
        found = context.obj or Invocation(Path.cwd())
        _change(context, given=(*found.given, *given))


def _tell_asked(context: typer.Context, wanted: bool) -> None:
    tell(context, verbose=bool(wanted), file=None)


def _log_asked(context: typer.Context, file: Path | None) -> None:
    if file is not None:
        here = context.obj or Invocation(Path.cwd())
        tell(context, verbose=False, file=here.path(file))


def _options(
    project: Annotated[
        Path | None,
        typer.Option(
            "--project",
            "-C",
            metavar="DIR",
            help="Run as if started in DIR.",
            callback=_choose_folder,
            # Files that other options name are relative to it
            is_eager=True,
            expose_value=False,
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            metavar="NAME",
            help="Read all files with the values of values/NAME.yaml (or set CONNECT_ENV).",
            callback=_choose_env,
            expose_value=False,
            autocompletion=environments,
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--var",
            metavar="NAME=VALUE",
            help="Set a value over those in values/; may be repeated.",
            callback=_give,
            expose_value=False,
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Say on stderr what is asked of the cluster and of Kafka.",
            callback=_tell_asked,
            expose_value=False,
        ),
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="FILE",
            help="Append the same to FILE, which others cannot read.",
            callback=_log_asked,
            expose_value=False,
        ),
    ] = None,
) -> None:
    """Only its options are used."""
