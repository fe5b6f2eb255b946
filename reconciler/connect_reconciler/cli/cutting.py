"""Ends the process a short while after a signal, whatever it waits for then.

The exception that a signal raises does not get everywhere at once: not into a call of librdkafka,
not past a pool whose threads wait for an answer, and in a destructor or a callback it is lost. So a
thread of its own learns of each signal from the system, and counts from there.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A shell tells so that a signal ended a process.
BY_SIGNAL = 128

# To release a lease or take back half a file; what is left open then is as after a kill.
_ORDERLY_S = 1.5
# The same with a Kafka of its own to stop
_WITH_BROKER_S = 20.0


class _Signals:
    """How a signal is taken now. Set by the main thread alone, and read by the other."""

    unhurried = False
    patience_s = _ORDERLY_S


@contextmanager
def cut_short(last_words: Callable[[], None]) -> Iterator[None]:
    """While the context lasts, the first signal leaves 1.5 s to come out of it; the second one, or
    the end of that time, ends the process, after `last_words`. Main thread only."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(told, last_words), name="signals", daemon=True)
    watch.start()
    try:
        with _lost_signals_untold():
            yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(tell)


@contextmanager
def not_cut() -> Iterator[None]:
    """While the context lasts, whoever opened it sees to it that signals end it."""
    with _unhurried(True):
        yield


@contextmanager
def cut_again() -> Iterator[None]:
    """A part of `not_cut` that signals end like everything else."""
    with _unhurried(False):
        yield


@contextmanager
def _unhurried(wanted: bool) -> Iterator[None]:
    before, _Signals.unhurried = _Signals.unhurried, wanted
    try:
        yield
    finally:
        _Signals.unhurried = before


@contextmanager
def time_to_stop_kafka() -> Iterator[None]:
    """While the context lasts, a signal leaves 20 s: whoever opened it has a Kafka to stop."""
    before, _Signals.patience_s = _Signals.patience_s, _WITH_BROKER_S
    try:
        yield
    finally:
        _Signals.patience_s = before


@contextmanager
def _lost_signals_untold() -> Iterator[None]:
    """Where Python drops what a signal raised, in a destructor, its traceback is not shown."""
    before = sys.unraisablehook

    def tell(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, Exception):
            before(lost)

    sys.unraisablehook = tell
    try:
        yield
    finally:
        sys.unraisablehook = before


def _watch(told: int, last_words: Callable[[], None]) -> None:
    with os.fdopen(told, "rb", buffering=0) as signals:
        while (first := _ending(signals.read(1))) is not None:
            if first and not _Signals.unhurried:
                _count_down(told, first, last_words)
                return


def _ending(read: bytes | None) -> int | None:
    """Which signal came, 0 for one that ends nothing; None if none will come any more."""
    if not read:
        return None
    return read[0] if read[0] in ENDING else 0


def _count_down(told: int, number: int, last_words: Callable[[], None]) -> None:
    ready, _, _ = select.select([told], [], [], _Signals.patience_s)
    if ready and not os.read(told, 1):
        return
    with contextlib.suppress(OSError):
        last_words()
    os._exit(BY_SIGNAL + number)
