"""Options that every verb takes, before or after its name. One after the name wins.

Each has a callback that changes the invocation, so no verb needs to know of them. The lines of
`--verbose` and `--log-file` are redacted where a request is made:
`backend.rest.exchange_log` and `connect_runtime.kafka.kafka_logging`.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from connect_reconciler.cli.session import Invocation, environments
from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable
_FORMAT: Final = "%(asctime)s.%(msecs)03d %(name)s %(message)s"
_TIME: Final = "%Y-%m-%dT%H:%M:%S"
_PREFIX: Final = "connect.requests."


def accept_global_options(command: Any) -> None:
    """Adds these options to a command and to its loaded subcommands."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_options)
    _take(command, typer.main.get_command(app).params)


def _take(command: Any, options: list[Any]) -> None:
    command.params += options
    for subcommand in getattr(command, "commands", {}).values():
        if subcommand is not None:
            _take(subcommand, options)


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


def _set_var(context: typer.Context, assignments: list[str] | None) -> None:
    if assignments:
        call = context.obj or Invocation(Path.cwd())
        _change(context, assignments=(*call.assignments, *assignments))


def _log_to_stderr(context: typer.Context, requested: bool) -> None:
    if requested:
        _log_requests(context, "stderr", lambda: _Handler(sys.stderr))


def _log_to_file(context: typer.Context, file: Path | None) -> None:
    if file is not None:
        path = (context.obj or Invocation(Path.cwd())).path(file)
        _log_requests(context, str(path), lambda: _Handler(_opened(path), owns=True))


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
    assignments: Annotated[
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


class _Handler(logging.StreamHandler[IO[str]]):
    """Stops logging, without an error, when its stream cannot be written."""

    def __init__(self, stream: IO[str], *, owns: bool = False) -> None:
        super().__init__(stream)
        self._owns = owns
        self._broken = False
        self.setFormatter(_Format(_FORMAT, _TIME))

    def emit(self, record: logging.LogRecord) -> None:
        if not self._broken:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        self._broken = True
        if self._owns:
            reason = getattr(sys.exc_info()[1], "strerror", None) or "the file is closed"
            sys.stderr.write(f"warning: --log-file can no longer be written: {reason}\n")

    def close(self) -> None:
        super().close()
        if self._owns:
            try:
                self.stream.close()
            except OSError:
                self._broken = True


class _Format(logging.Formatter):
    """One line per record, whatever it contains."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace(_PREFIX, "", 1)
        return "".join(character if character.isprintable() else " " for character in text)


def _log_requests(context: typer.Context, place: str, make: Callable[[], logging.Handler]) -> None:
    """Logs requests until the command ends; once for each place, even if the option is given before
    and after the verb."""
    logger = logging.getLogger(_PREFIX.rstrip("."))
    if any(attached.name == place for attached in logger.handlers):
        return
    handler = make()
    handler.name = place
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False

    def end() -> None:
        logger.removeHandler(handler)
        handler.close()
        if not logger.handlers:
            logger.setLevel(logging.NOTSET)
            logger.propagate = True

    context.find_root().call_on_close(end)


def _opened(path: Path) -> IO[str]:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # Not for a device or a pipe
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.fchmod(handle, 0o600)
    except OSError as error:
        problem = "the file of --log-file cannot be written"
        hint = "name a file in an existing, writable folder"
        raise Invalid(
            Diagnostic("usage.log-file", problem, str(path), error.strerror or "", hint)
        ) from error
    return os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace")
