"""The command `connect`. Verbs are imported only when they are used."""

from __future__ import annotations

import os
import sys

# Exit codes above this mean a signal: 130 for Ctrl-C.
_BY_SIGNAL = 128


def main() -> int:
    """Runs the command line and returns the exit code.

    Exits at once if a signal ended the verb: threads and clients that Python waits for at its end
    may never finish.
    """
    try:
        from connect_reconciler.cli.entry import run

        code = run(sys.argv[1:])
        if code <= _BY_SIGNAL:
            return code
        sys.stdout.flush()
        sys.stderr.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        code = _BY_SIGNAL + 2
    os._exit(code)
