"""`connect completion` and `connect version`: about the command itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import result, result_json
from connect_reconciler.cli.shell_completion import COMPLETE


class Shell(StrEnum):
    """The shells that there are scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes verbs, options, connectors and environments.

    Names come from the project's files, never from a cluster. In bash, and likewise in zsh:
    source <(connect completion bash). In fish: connect completion fish | source.
    """
    from typer._completion_shared import get_completion_script

    result(get_completion_script(prog_name="connect", complete_var=COMPLETE, shell=shell.value))


def version(as_json: AsJson = False) -> None:
    """Show the version of connect and of the Python that runs it."""
    import platform
    from importlib.metadata import version as version_of

    found = version_of("connect-reconciler")
    if as_json:
        result_json({"connect": found, "python": platform.python_version()})
    else:
        result(f"connect {found} (Python {platform.python_version()})")
