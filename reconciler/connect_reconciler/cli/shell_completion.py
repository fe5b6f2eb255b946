"""Completions for a shell, read from the project's files alone, never from a cluster.

Where the files cannot be read, nothing is offered.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from connect_reconciler.cli.session import Invocation

# The variable that the shells' scripts set
COMPLETE = "_CONNECT_COMPLETE"


def complete(command: Any) -> int:
    """Prints completions for a shell's script; returns the exit code."""
    from typer._completion_classes import completion_init
    from typer.completion import shell_complete

    completion_init()
    try:
        return shell_complete(command, {}, "connect", COMPLETE, os.environ[COMPLETE])
    except Exception:
        # an error message in the middle of a command line helps nobody
        return 1


def connector_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The connectors of the specs that start with `incomplete`, each with its file."""
    from connect_specs.loader import read_specs

    try:
        desired, _ = read_specs(_invocation(context).project())
    except Exception:
        return []
    return [
        (name, each.where.file)
        for name, each in desired.connectors.items()
        if name.startswith(incomplete)
    ]


def environments(context: typer.Context, incomplete: str) -> list[str]:
    """The environments that have a file in values/."""
    from connect_specs.project import find_project
    from connect_specs.values import load_values

    try:
        values = load_values(find_project(_invocation(context).folder).parent, None)
    except Exception:
        return []
    found = () if values is None else values.environments
    return [name for name in found if name.startswith(incomplete)]


def _invocation(context: typer.Context) -> Invocation:
    given = context.obj if isinstance(context.obj, Invocation) else Invocation(Path.cwd())
    return given.in_environment(os.environ)
