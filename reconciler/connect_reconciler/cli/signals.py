"""Ctrl-C and SIGTERM as a wish that is granted at the next good moment; twice means now."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """SIGTERM came: whatever was started is ended on the way out."""


@contextmanager
def raised_on_sigterm() -> Iterator[None]:
    """SIGTERM raises Terminated while the context lasts."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def told_to_stop() -> Iterator[threading.Event]:
    """Set by SIGINT and SIGTERM while the context lasts; the second one raises
    KeyboardInterrupt."""
    told = threading.Event()

    def tell(number: int, frame: FrameType | None) -> None:
        if told.is_set():
            raise KeyboardInterrupt
        told.set()

    before = {each: signal.signal(each, tell) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
