"""The runtime's log: repeated lines are dropped, and the file is rotated."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connect_runtime.logs.rotation import rotate

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT: Final = 3
_CHECK_EVERY_S: Final = 5.0
# A little less than a minute, for lines that are logged once a minute
_REPEAT_S: Final = 55.0
_REMEMBERED: Final = 1000
_NUMBER: Final = re.compile(r"\d+")


def log_to(file: Path | None) -> None:
    """Sends this process's warnings to the file, or to stderr; call it once."""
    from connect_runtime.kafka.outages import log_outages
    from connect_runtime.logs import log_format

    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    log_format.log_to(file, logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Repeats())
    log_outages()


@dataclass(slots=True)
class _Seen:
    at: float
    left_out: int = 0


@dataclass(slots=True)
class Repeats:
    """A log filter: lets the same line pass once a minute, with the number of dropped repeats.

    Lines that differ only in numbers are the same.
    """

    clock: Callable[[], float] = time.monotonic
    _seen: dict[tuple[object, ...], _Seen] = field(default_factory=dict)

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:
            # the handler reports such a line; this filter must not raise
            return True
        kind = record.exc_info[0] if record.exc_info else None
        key = (record.name, record.levelno, kind, _NUMBER.sub("#", text))
        now = self.clock()
        seen = self._seen.get(key)
        if seen is not None and now - seen.at < _REPEAT_S:
            seen.left_out += 1
            return False
        if seen is not None and seen.left_out:
            record.msg, record.args = f"{text} (and {seen.left_out} times more since)", ()
        self._remember(key, now)
        return True

    def _remember(self, key: tuple[object, ...], now: float) -> None:
        self._seen.pop(key, None)
        self._seen[key] = _Seen(now)
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]


@contextlib.contextmanager
def rotate_when_large(file: Path) -> Iterator[None]:
    """Rotates the file whenever it has grown too large, while the context lasts."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_CHECK_EVERY_S):
            with contextlib.suppress(OSError):
                rotate(file, kept=_KEPT)

    keeper = threading.Thread(target=look, name="rotate-log", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
