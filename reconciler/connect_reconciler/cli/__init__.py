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
    _open_closed_streams()
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


def _open_closed_streams() -> None:
    """Opens /dev/null in place of standard streams that the caller closed (`2>&-`). Else the next
    connection gets their number, and what libraries write to stderr goes to Kafka."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            # The system gives the lowest number that is free
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
