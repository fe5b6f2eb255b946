"""Which verbs there are, in the order that `connect --help` lists them.

A verb's module is imported when that verb is used and not before, so help for one never pays for
Kafka or Spark. The summaries stand here for the same reason.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from connect_reconciler.cli.everywhere import take_everywhere
from connect_reconciler.cli.invocation import Invocation


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
    "completion": Verb("completion", "Print a script that completes words in a shell."),
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
    take_everywhere(command)
    return command


def _alone(function: Any, name: str) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(function)
    return typer.main.get_command(app)


def command() -> Any:
    """The command `connect` with all its verbs."""
    found = typer.main.get_command(_app)
    take_everywhere(found)
    return found


def _show_version(wanted: bool) -> None:
    if wanted:
        load("version").callback()
        raise typer.Exit


_app = typer.Typer(
    cls=Verbs,
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
    context.obj = (context.obj or Invocation(Path.cwd())).in_environment(os.environ)
