"""`connect completion`: the script with which a shell completes verbs, options and names."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from connect_reconciler.cli.completing import COMPLETE
from connect_reconciler.cli.output import result


class Shell(StrEnum):
    """The shells that there are scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes verbs, options, connectors and environments.

    Names come from the project's files; no cluster is asked. In bash, and likewise in zsh:
    source <(connect completion bash). In fish: connect completion fish | source.
    """
    from typer._completion_shared import get_completion_script

    result(get_completion_script(prog_name="connect", complete_var=COMPLETE, shell=shell.value))
