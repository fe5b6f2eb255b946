"""Ctrl-C, SIGTERM and a closed terminal end a verb: an apply after its actions, all else at once.

The exception that a signal raises does not arrive everywhere: not inside a call of librdkafka, not
while a pool waits for its threads, and in destructors and callbacks it is lost. So a thread learns
of each signal from the system and ends the process after a deadline. SIGHUP stays ignored under
nohup.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Exit codes above this tell a shell which signal ended a process.
BY_SIGNAL = 128

# Time to release a lease or to remove a half-written file.
_GRACE_S = 1.5
# The same if an embedded Kafka has to be stopped
_KAFKA_GRACE_S = 20.0
_LOOK_S = 0.05

_Handler: TypeAlias = Callable[[int, FrameType | None], None]

_NOTHING = "interrupted: nothing was changed"
_SOMETHING = "interrupted"


class Interruption:
    """The line that reports an interruption, written once by whichever thread comes first.
    `number` is the signal that ends the verb; 0 until one arrives."""

    def __init__(self) -> None:
        self.number = 0
        self._changing = False
        self._reported = threading.Lock()

    def may_change(self) -> None:
        """From now on, the line does not promise that nothing was changed."""
        self._changing = True

    @property
    def line(self) -> str:
        return _SOMETHING if self._changing else _NOTHING

    def report(self) -> None:
        """Writes to the descriptor: another thread may hold the stream's lock for ever."""
        if self._reported.acquire(blocking=False):
            with contextlib.suppress(OSError):
                os.write(2, f"{'' if not os.isatty(2) else chr(10)}{self.line}\n".encode())


_current = Interruption()


def begin_interruption() -> Interruption:
    """Starts a new interruption, for the verb that starts now."""
    global _current
    _current = Interruption()
    return _current


def may_change() -> None:
    """Call it before a verb changes anything that an interruption would leave changed."""
    _current.may_change()


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; context managers clean up on the way out."""

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
    """The first signal raises KeyboardInterrupt or Terminated, even within `stop_requested`.

    For waits before anything has started that should be completed.
    """

    def end(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        _terminate(number, frame)

    # No deadline while a signal only sets a flag, not even between two handlers
    with _handled(end, signal.SIGINT, signal.SIGTERM, signal.SIGHUP), _deadline(suspended=False):
        yield


def _terminate(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        _leave_terminal()
    raise Terminated(number)


class StopRequest:
    """Whether a signal arrived. Not an Event: a handler may interrupt the code that holds the
    Event's lock, and would then wait for it for ever."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout_s: float) -> bool:
        """Waits for a signal; whether one arrived."""
        deadline = time.monotonic() + timeout_s
        while not self._set and (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(left_s, _LOOK_S))
        return self._set


@contextmanager
def stop_requested() -> Iterator[StopRequest]:
    """A request to stop, set by the first SIGINT, SIGTERM or SIGHUP; the second one raises
    KeyboardInterrupt."""
    told = StopRequest()

    def tell(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
            # a shell and the kernel both send it when a terminal is closed
            told.set()
            return
        if told.is_set():
            raise KeyboardInterrupt
        told.set()

    with _deadline(suspended=True), _handled(tell, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
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
    """Redirects output to nowhere: writes to a closed terminal fail and break the cleanup."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _Deadline:
    """The time that a signal leaves. Only the main thread sets it; the watching thread reads it."""

    suspended = False
    grace_s = _GRACE_S


@contextmanager
def end_by_deadline(interruption: Interruption) -> Iterator[None]:
    """The first signal leaves 1.5 s to leave the context. A second signal, or the end of that time,
    ends the process after the interruption is reported. Main thread only."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(told, interruption), name="signals", daemon=True)
    watch.start()
    try:
        with _lost_signals_hidden():
            yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(tell)
        watch.join()


@contextmanager
def _deadline(*, suspended: bool) -> Iterator[None]:
    """Suspends the deadline where the code in the context ends on signals by itself, or restores it
    for a part of such code."""
    before, _Deadline.suspended = _Deadline.suspended, suspended
    try:
        yield
    finally:
        _Deadline.suspended = before


@contextmanager
def time_to_stop_kafka() -> Iterator[None]:
    """Extends the deadline to 20 s: the code in the context stops a Kafka when it ends."""
    before, _Deadline.grace_s = _Deadline.grace_s, _KAFKA_GRACE_S
    try:
        yield
    finally:
        _Deadline.grace_s = before


@contextmanager
def _lost_signals_hidden() -> Iterator[None]:
    """Hides the traceback of a signal's exception that Python drops in a destructor."""
    before = sys.unraisablehook

    def tell(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, Exception):
            before(lost)

    sys.unraisablehook = tell
    try:
        yield
    finally:
        sys.unraisablehook = before


def _watch(told: int, interruption: Interruption) -> None:
    with os.fdopen(told, "rb", buffering=0) as signals:
        while (first := _ending(signals.read(1))) is not None:
            if first and not _Deadline.suspended:
                interruption.number = first
                _count_down(told, first, interruption.report)
                return


def _ending(read: bytes | None) -> int | None:
    """The signal's number, 0 for one that ends nothing; None if no more will come."""
    if not read:
        return None
    return read[0] if read[0] in ENDING else 0


def _count_down(told: int, number: int, report: Callable[[], None]) -> None:
    ready, _, _ = select.select([told], [], [], _Deadline.grace_s)
    if ready and not os.read(told, 1):
        return
    with contextlib.suppress(OSError):
        report()
    os._exit(BY_SIGNAL + number)
