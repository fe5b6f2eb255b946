"""The runtime's log: no line is repeated for hours, and no file grows without end.

The file belongs to the whole process, with what the JVM prints to the same descriptor; so it is cut
by copying it away and truncating it, which works for every writer that appends.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s (%(name)s)"
_MAX_BYTES: Final = 10 * 1024 * 1024
_KEPT: Final = 3
_LOOK_EVERY_S: Final = 5.0
# A little less than what says itself once a minute
_REPEAT_S: Final = 55.0
_REMEMBERED: Final = 1000
_NUMBER: Final = re.compile(r"\d+")


def log_to(file: Path | None) -> None:
    """Sends this process's warnings to the file, or to stderr; call it once."""
    from connect_runtime.kafka.outages import tell_outages

    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    logging.basicConfig(level=logging.WARNING, format=_FORMAT, filename=file)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Repeats())
    tell_outages()


@dataclass(slots=True)
class _Said:
    at: float
    left_out: int = 0


@dataclass(slots=True)
class Repeats:
    """A filter for handlers: lets the same line pass once a minute, with the number of those that
    it left out. Lines that differ in numbers alone are the same."""

    clock: Callable[[], float] = time.monotonic
    _said: dict[tuple[object, ...], _Said] = field(default_factory=dict)

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:
            # the handler says what is wrong with such a line, where this filter must not raise
            return True
        kind = record.exc_info[0] if record.exc_info else None
        key = (record.name, record.levelno, kind, _NUMBER.sub("#", text))
        now = self.clock()
        said = self._said.get(key)
        if said is not None and now - said.at < _REPEAT_S:
            said.left_out += 1
            return False
        if said is not None and said.left_out:
            record.msg, record.args = f"{text} (and {said.left_out} times more since)", ()
        self._remember(key, now)
        return True

    def _remember(self, key: tuple[object, ...], now: float) -> None:
        self._said.pop(key, None)
        self._said[key] = _Said(now)
        if len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]


@contextlib.contextmanager
def cut_when_large(file: Path) -> Iterator[None]:
    """While the context lasts, the file is cut whenever it has grown too large."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_EVERY_S):
            cut(file)

    keeper = threading.Thread(target=look, name="cut-log", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


def cut(file: Path, max_bytes: int = _MAX_BYTES) -> None:
    """Moves the text of a file that is too large to `<file>.1`, and that of older ones on."""
    with contextlib.suppress(OSError):
        if file.stat().st_size <= max_bytes:
            return
        for number in range(_KEPT - 1, 0, -1):
            older = _numbered(file, number)
            if older.exists():
                older.replace(_numbered(file, number + 1))
        # on a full disk the copy fails; the log is cut all the same
        with contextlib.suppress(OSError):
            shutil.copy(file, _numbered(file, 1))
        with file.open("r+b") as log:
            log.truncate(0)


def _numbered(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")
