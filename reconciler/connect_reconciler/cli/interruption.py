"""What is said where a signal ended a verb: one line, and what it means for the cluster."""

from __future__ import annotations

import contextlib
import os
import threading

_NOTHING = "interrupted: nothing was changed"
_SOMETHING = "interrupted"


class Interruption:
    """One line, said once, by whichever thread comes first."""

    def __init__(self) -> None:
        self._changing = False
        self._said = threading.Lock()

    def may_change(self) -> None:
        """From here on nobody can promise that nothing was changed."""
        self._changing = True

    @property
    def line(self) -> str:
        return _SOMETHING if self._changing else _NOTHING

    def say(self) -> None:
        """To the terminal itself: another thread may hold the stream's lock for ever."""
        if self._said.acquire(blocking=False):
            with contextlib.suppress(OSError):
                os.write(2, f"{'' if not os.isatty(2) else chr(10)}{self.line}\n".encode())


_current = Interruption()


def begin() -> Interruption:
    """The one of a verb that begins now."""
    global _current
    _current = Interruption()
    return _current


def may_change() -> None:
    """To be called before a verb changes anything that an interruption would leave changed."""
    _current.may_change()
