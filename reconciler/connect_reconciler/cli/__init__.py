"""The command `connect`: one verb a file, found by name and imported only when it is used."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line; the result is the process's exit code."""
    from connect_reconciler.cli.entry import run

    return run(sys.argv[1:])
