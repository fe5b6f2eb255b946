"""The real command, which says where it is at one moment of an apply and waits there to be killed,
or for SIGUSR1 to go on.

`python -m support.pausing <before|after>:<started|done>:<Action> <words of the command>`, such as
`before:done:AlterOffsets apply --yes`: the offsets are written, their record is not.
"""

import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from connect_reconciler import cli
from connect_reconciler.backend.ledger import Ledger
from connect_reconciler.ledger.journal import JournalEntry

goes_on = threading.Event()

_LOOK_S = 0.1


def main(moment: str, words: Sequence[str]) -> None:
    """Runs the command with the one ledger call of `moment` watched."""
    when, method, action = moment.split(":")
    signal.signal(signal.SIGUSR1, lambda number, frame: goes_on.set())
    real = getattr(Ledger, method)

    def watched(ledger: Ledger, step: JournalEntry, *records: Any, **more: Any) -> None:
        if step.action == action and when == "before":
            _pause(moment)
        real(ledger, step, *records, **more)
        if step.action == action and when == "after":
            _pause(moment)

    setattr(Ledger, method, watched)
    sys.argv = ["connect", *words]
    sys.exit(cli.main())


def _pause(moment: str) -> None:
    sys.stdout.write(f"at {moment}\n")
    sys.stdout.flush()
    # The kernel may give the signal to another thread, and Python's handler waits for this one
    while not goes_on.wait(_LOOK_S):
        pass


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
