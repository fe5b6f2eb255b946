"""The table of verbs, in the order that `connect --help` lists them; and the options of all verbs.

A verb's module is imported only when the verb is used, so that help does not import Kafka or Spark.
The summaries are here for the same reason. Options that every verb takes stand before or after its
name; those after it win. Each has a callback that changes the invocation, so no verb needs to know
of them. The lines of `--verbose` and `--log-file` are redacted where a request is made:
`backend.rest.exchange_log` and `connect_runtime.kafka.kafka_logging`.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from connect_reconciler.cli.options import expanded
from connect_reconciler.cli.session import Invocation, environments
from connect_specs.diagnostics import Diagnostic, Invalid

_FORMAT: Final = "%(asctime)s.%(msecs)03d %(name)s %(message)s"
_TIME: Final = "%Y-%m-%dT%H:%M:%S"
_PREFIX: Final = "connect.requests."


@dataclass(frozen=True, slots=True)
class Verb:
    """`module` holds a function of the verb's name, or a `typer.Typer` with its subcommands."""

    module: str
    summary: str


VERBS: Mapping[str, Verb] = {
    "init": Verb("local", "Create a small project: connect.yaml and an example connector."),
    "validate": Verb("local", "Check connect.yaml, specs, policies and tests. Needs no cluster."),
    "test": Verb("testing", "Run converters and transformations over records, and test them."),
    "plan": Verb("apply", "Show what apply would change, and its effect on your data."),
    "show": Verb("apply", "Show a saved plan. Needs no project and no cluster."),
    "apply": Verb("apply", "Change the cluster to match the specs."),
    "history": Verb("history", "List past applies, or show one in detail."),
    "rollback": Verb("history", "Restore the state from before an apply."),
    "drift": Verb("drift", "Show changes made outside connect: what, since when, by whom."),
    "import": Verb("conversion", "Write specs from live connectors and adopt them."),
    "export": Verb("conversion", "Export connectors as JSON, .properties or Strimzi resources."),
    "doctor": Verb("status", "Check topics, versions, and whether REST API and topics agree."),
    "up": Verb("runtime", "Run this project's connectors and, if embedded, its Kafka."),
    "password": Verb("runtime", "Show where the REST API's password is kept, or replace it."),
    "down": Verb("runtime", "Stop what `connect up` started."),
    "logs": Verb("logs", "Print what the runtime and its tasks log about a connector."),
    "distributed": Verb("runtime", "Run connectors from an Apache worker.properties file."),
    "standalone": Verb(
        "runtime", "Run connectors alone, with offsets in a file, as Apache's does."
    ),
    "package": Verb("local", "Pack this Python environment for the nodes of a Spark cluster."),
    "status": Verb("status", "Show connectors, their tasks and why they failed."),
    "offsets": Verb("connector", "List, alter or reset a connector's offsets."),
    "stop": Verb("connector", "Stop a connector: its tasks end; offsets can then be altered."),
    "pause": Verb("connector", "Pause a connector: its tasks process nothing."),
    "resume": Verb("connector", "Resume a paused or stopped connector."),
    "restart": Verb("restart", "Restart a connector, or everything that failed."),
    "delete": Verb("connector", "Delete a connector from the cluster."),
    "plugins": Verb("plugins", "List or install plugins, or write their lock file."),
    "completion": Verb("local", "Print a completion script for your shell."),
    "version": Verb("local", "Show the version."),
}


class VerbGroup(TyperGroup):
    """Lists all verbs and loads only the one that is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Only the names are used, to suggest one for a mistyped verb.
        names: Any = dict.fromkeys(VERBS)
        self.commands = names

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load(cmd_name) if cmd_name in VERBS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


def load(name: str) -> Any:
    verb = VERBS[name]
    function = f"{name}_" if iskeyword(name) else name
    member = getattr(import_module(f"connect_reconciler.cli.verbs.{verb.module}"), function)
    command = (
        typer.main.get_command(member) if isinstance(member, typer.Typer) else _alone(member, name)
    )
    accept_global_options(command)
    return command


def _alone(function: Any, name: str) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(expanded(function))
    return typer.main.get_command(app)


def command() -> Any:
    root = typer.main.get_command(_app)
    accept_global_options(root)
    return root


def _show_version(requested: bool) -> None:
    if requested:
        load("version").callback()
        raise typer.Exit


_app = typer.Typer(
    cls=VerbGroup,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Plan and apply for Kafka Connect, and a Connect runtime on Spark.",
    epilog="Exit codes: 0 done, 1 failed, 2 invalid, 3 unreachable, 4 changes pending, 5 stale, "
    "130 interrupted. Documentation: README.md and docs/ in the repository.",
)


@_app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    context.obj = _invocation(context).in_environment(os.environ)


# --- the options of all verbs ---


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


def _invocation(context: typer.Context) -> Invocation:
    invocation: Invocation = context.obj or Invocation(Path.cwd())
    return invocation


def _change(context: typer.Context, **fields: Any) -> None:
    context.obj = replace(_invocation(context), **fields)


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
        _change(context, assignments=(*_invocation(context).assignments, *assignments))


def _log_to_stderr(context: typer.Context, requested: bool) -> None:
    if requested:
        _log_requests(context, "stderr", lambda: _Handler(sys.stderr))


def _log_to_file(context: typer.Context, file: Path | None) -> None:
    if file is not None:
        path = _invocation(context).path(file)
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
