"""The command `connect`: one verb a file, found by name and imported only when it is used."""

from __future__ import annotations

import os
import sys

# A shell tells so that a signal ended a process: 130 for Ctrl-C.
_BY_SIGNAL = 128


def main() -> int:
    """Runs the command line; the result is the process's exit code. Does not return where a signal
    ended a verb: what Python waits for at its end, such as threads and clients, may never come."""
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
