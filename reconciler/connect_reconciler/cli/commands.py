"""The table of verbs, in the order that `connect --help` lists them.

A verb's module is imported only when the verb is used, so that help does not import Kafka or Spark.
The summaries are here for the same reason.
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

from connect_reconciler.cli.global_options import accept_global_options
from connect_reconciler.cli.session import Invocation


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
    "plugins": Verb("plugins", "List the cluster's plugins, or write their lock file."),
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
    app.command(name)(function)
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
    context.obj = (context.obj or Invocation(Path.cwd())).in_environment(os.environ)
