"""Ctrl-C, SIGTERM and a closed terminal ask a verb to end at the next good moment; twice means now.

SIGHUP is left ignored where it is, as under nohup.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

from connect_reconciler.cli.cutting import cut_again, not_cut

_LOOK_S = 0.05

_Handler: TypeAlias = Callable[[int, FrameType | None], None]


class Terminated(BaseException):
    """SIGTERM or SIGHUP came: whatever was started is ended on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def raised_on_sigterm() -> Iterator[None]:
    """SIGTERM and SIGHUP raise Terminated while the context lasts."""
    with _handled(_terminate, signal.SIGTERM, signal.SIGHUP):
        yield


@contextmanager
def at_once() -> Iterator[None]:
    """The first signal ends what the context holds by KeyboardInterrupt or Terminated, also within
    `told_to_stop`: for waits before anything has begun that should be completed."""

    def end(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        _terminate(number, frame)

    # Who is merely told of a signal must not be cut, not even between two handlers
    with _handled(end, signal.SIGINT, signal.SIGTERM, signal.SIGHUP), cut_again():
        yield


def _terminate(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        _leave_terminal()
    raise Terminated(number)


class Told:
    """Whether a signal came. No Event: a signal's handler may interrupt the very code that holds an
    Event's lock, and would wait for it for ever."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout_s: float) -> bool:
        """Whether a signal came; waits for one for so long."""
        deadline = time.monotonic() + timeout_s
        while not self._set and (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(left_s, _LOOK_S))
        return self._set


@contextmanager
def told_to_stop() -> Iterator[Told]:
    """Set by SIGINT, SIGTERM and SIGHUP while the context lasts; the second one raises
    KeyboardInterrupt."""
    told = Told()

    def tell(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
            # a shell and the kernel both send it when a terminal is closed
            told.set()
            return
        if told.is_set():
            raise KeyboardInterrupt
        told.set()

    with not_cut(), _handled(tell, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield told


@contextmanager
def _handled(handler: _Handler, *numbers: signal.Signals) -> Iterator[None]:
    before = {
        number: signal.signal(number, handler)
        for number in numbers
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _leave_terminal() -> None:
    """Writes to a terminal that is gone fail, and would cut the orderly end short."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)
