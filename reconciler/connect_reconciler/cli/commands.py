"""Which verbs there are, in the order that `connect --help` lists them.

A verb's module is imported when that verb is used and not before, so help for one never pays for
Kafka or Spark. The summaries stand here for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from connect_reconciler.cli.invocation import Invocation, invocation

_ENV_HELP = "Read all files with the values of values/NAME.yaml."
_VAR_HELP = "Set a value over those in values/; may be repeated."


@dataclass(frozen=True, slots=True)
class Verb:
    """`module` holds a function of the verb's name, or a `typer.Typer` for one with parts."""

    module: str
    summary: str


VERBS: Mapping[str, Verb] = {
    "init": Verb("init", "Write a small project here: connect.yaml and one connector."),
    "validate": Verb("validate", "Check connect.yaml and every spec; touches nothing."),
    "plan": Verb("plan", "Show what apply would change, and what that means for the data."),
    "show": Verb("show", "Show a saved plan, without a project or a cluster."),
    "apply": Verb("apply", "Make the cluster what the specs say."),
    "history": Verb("history", "List the applies, or show what one did."),
    "rollback": Verb("rollback", "Bring back what was before an apply."),
    "drift": Verb("drift", "Show what was changed by hand, since when and by whom."),
    "import": Verb("import_", "Write specs from live connectors, and adopt them."),
    "export": Verb("export", "Write connectors as JSON, .properties or for Strimzi."),
    "doctor": Verb("doctor", "Compare the cluster's topics with its REST API, and check both."),
    "up": Verb("up", "Run this project's connectors, with a Kafka of their own if need be."),
    "password": Verb("password", "Say where the password of the REST API is, or replace it."),
    "down": Verb("down", "Stop what up started."),
    "distributed": Verb("distributed", "Run from an Apache worker.properties file."),
    "status": Verb("status", "Show connectors, their tasks and why they failed."),
    "offsets": Verb("offsets", "List, alter or reset a connector's offsets."),
    "stop": Verb("states", "Stop a connector: its tasks end, its offsets may be altered."),
    "pause": Verb("states", "Pause a connector: its tasks stay and wait."),
    "resume": Verb("states", "Run a connector that is paused or stopped."),
    "restart": Verb("restart", "Restart a connector, or all that failed."),
    "delete": Verb("states", "Delete a connector."),
    "plugins": Verb("plugins", "List the cluster's plugins, or lock what is known of them."),
    "version": Verb("version", "Show the version."),
}


class Verbs(TyperGroup):
    """Knows every verb by name and loads the one that is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Only the names count, to suggest one for a mistyped verb.
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
    """The command of one verb."""
    verb = VERBS[name]
    function = f"{name}_" if iskeyword(name) else name
    found = getattr(import_module(f"connect_reconciler.cli.verbs.{verb.module}"), function)
    command = (
        typer.main.get_command(found) if isinstance(found, typer.Typer) else _alone(found, name)
    )
    _take_options(command, _alone(_values, "values").params)
    return command


def _alone(function: Any, name: str) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(function)
    return typer.main.get_command(app)


def _take_options(command: Any, options: list[Any]) -> None:
    """Lets `--env` and `--var` stand after the verb, too."""
    command.params += options
    for part in getattr(command, "commands", {}).values():
        _take_options(part, options)


def _choose_env(context: typer.Context, env: str | None) -> None:
    if env is not None:
        context.obj = replace(invocation(context), env=env)


def _give(context: typer.Context, given: list[str] | None) -> None:
    if given:
        found = invocation(context)
        context.obj = replace(found, given=(*found.given, *given))


def _values(
    env: Annotated[
        str | None,
        typer.Option(
            "--env", metavar="NAME", help=_ENV_HELP, callback=_choose_env, expose_value=False
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--var", metavar="NAME=VALUE", help=_VAR_HELP, callback=_give, expose_value=False
        ),
    ] = None,
) -> None:
    """Only its options are used."""


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    help="Plan and apply for Kafka Connect, and a Connect runtime on Spark.",
    epilog="Exit codes: 0 done, 1 failed, 2 invalid, 3 unreachable, 4 changes pending, 5 stale.",
)


@app.callback()
def root(
    context: typer.Context,
    project: Annotated[
        Path | None,
        typer.Option("--project", "-C", metavar="DIR", help="Run as if started in DIR."),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option("--env", metavar="NAME", envvar="CONNECT_ENV", help=_ENV_HELP),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help=_VAR_HELP),
    ] = None,
) -> None:
    folder = Path.cwd() if project is None else project
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder", param_hint="--project")
    context.obj = Invocation(folder, env, tuple(given or ()))
