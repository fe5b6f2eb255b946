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
from contextlib import AbstractContextManager, contextmanager
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
        """Removes from the line the promise that nothing was changed."""
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
    """Records that the verb now changes something that an interruption would leave changed."""
    _current.may_change()


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; context managers clean up on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def raised_on_sigterm() -> Iterator[None]:
    """Raises Terminated on SIGTERM and SIGHUP while the context lasts."""
    with _handled(_end, signal.SIGTERM, signal.SIGHUP):
        yield


@contextmanager
def at_once() -> Iterator[None]:
    """Raises KeyboardInterrupt or Terminated on the first signal, even within `stop_requested`.

    For waits before anything has started that should be completed.
    """
    # No deadline while a signal only sets a flag, not even between two handlers
    with _handled(_end, *ENDING), _deadline(suspended=False):
        yield


def _end(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    if number == signal.SIGHUP:
        _leave_terminal()
    raise Terminated(number)


class StopFlag:
    """A flag that a signal sets. Not an Event: a handler may interrupt the code that holds the
    Event's lock, and would then wait for it for ever."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout_s: float) -> bool:
        """Waits for a signal; returns true if one arrived."""
        deadline = time.monotonic() + timeout_s
        while not self._set and (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(left_s, _LOOK_S))
        return self._set


@contextmanager
def stop_requested() -> Iterator[StopFlag]:
    """Yields a request to stop, set by the first SIGINT, SIGTERM or SIGHUP; the second one raises
    KeyboardInterrupt."""
    request = StopFlag()

    def stop(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
            # a shell and the kernel both send it when a terminal is closed
            request.set()
            return
        if request.is_set():
            raise KeyboardInterrupt
        request.set()

    with _deadline(suspended=True), _handled(stop, *ENDING):
        yield request


@contextmanager
def _handled(handler: _Handler, *numbers: signal.Signals) -> Iterator[None]:
    handlers = {
        number: signal.signal(number, handler)
        for number in numbers
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in handlers.items():
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
    """Ends the process 1.5 s after the first signal, or on a second one, if it is still in the
    context; the interruption is reported first. Main thread only."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    earlier_writer = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watch = threading.Thread(
        target=_watch, args=(reader, interruption), name="signals", daemon=True
    )
    watch.start()
    try:
        with _lost_signals_hidden():
            yield
    finally:
        signal.set_wakeup_fd(earlier_writer)
        os.close(writer)
        watch.join()


@contextmanager
def _deadline(**changes: float) -> Iterator[None]:
    """Changes the deadline while the context lasts: `suspended` where its code ends on signals by
    itself, or not for a part of such code; `grace_s` for code that takes longer to end."""
    previous = {name: getattr(_Deadline, name) for name in changes}
    for name, value in changes.items():
        setattr(_Deadline, name, value)
    try:
        yield
    finally:
        for name, value in previous.items():
            setattr(_Deadline, name, value)


def time_to_stop_kafka() -> AbstractContextManager[None]:
    """Extends the deadline to 20 s: the code in the context stops a Kafka when it ends."""
    return _deadline(grace_s=_KAFKA_GRACE_S)


@contextmanager
def _lost_signals_hidden() -> Iterator[None]:
    """Hides the traceback of a signal's exception that Python drops in a destructor."""
    earlier_hook = sys.unraisablehook

    def on_lost(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, Exception):
            earlier_hook(lost)

    sys.unraisablehook = on_lost
    try:
        yield
    finally:
        sys.unraisablehook = earlier_hook


def _watch(reader: int, interruption: Interruption) -> None:
    with os.fdopen(reader, "rb", buffering=0) as signals:
        while (first := _signal_number(signals.read(1))) is not None:
            if first and not _Deadline.suspended:
                interruption.number = first
                _count_down(reader, first, interruption.report)
                return


def _signal_number(byte: bytes | None) -> int | None:
    """Returns the signal's number, 0 for one that ends nothing; None if no more will come."""
    if not byte:
        return None
    return byte[0] if byte[0] in ENDING else 0


def _count_down(reader: int, number: int, report: Callable[[], None]) -> None:
    ready, _, _ = select.select([reader], [], [], _Deadline.grace_s)
    if ready and not os.read(reader, 1):
        return
    with contextlib.suppress(OSError):
        report()
    os._exit(BY_SIGNAL + number)
