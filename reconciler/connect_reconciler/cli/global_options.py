"""Options that every verb takes, before or after its name. One after the name wins.

Each has a callback that changes the invocation, so no verb needs to know of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from connect_reconciler.cli.request_log import log_requests
from connect_reconciler.cli.session import Invocation
from connect_reconciler.cli.shell_completion import environments


def accept_global_options(command: Any) -> None:
    """Adds these options to a command and to its loaded subcommands."""
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


def _set_var(context: typer.Context, given: list[str] | None) -> None:
    if given:
        found = context.obj or Invocation(Path.cwd())
        _change(context, given=(*found.given, *given))


def _log_to_stderr(context: typer.Context, wanted: bool) -> None:
    log_requests(context, verbose=bool(wanted), file=None)


def _log_to_file(context: typer.Context, file: Path | None) -> None:
    if file is not None:
        here = context.obj or Invocation(Path.cwd())
        log_requests(context, verbose=False, file=here.path(file))


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
            help="Use the values in values/NAME.yaml (or set CONNECT_ENV).",
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
            help="Override a value of values/. Repeatable.",
            callback=_set_var,
            expose_value=False,
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Log every request to the cluster and to Kafka on stderr.",
            callback=_log_to_stderr,
            expose_value=False,
        ),
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="FILE",
            help="Append the same log to FILE, readable only by you.",
            callback=_log_to_file,
            expose_value=False,
        ),
    ] = None,
) -> None:
    """Declares the options; never called."""
