"""Lets https listeners use keys and certificates that were renewed in their files.

Certificates are short-lived where a machine issues them, and a restart would move all tasks.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 10.0

_Stamp: TypeAlias = tuple[int, int, int] | None


class RenewedKeys:
    """Returns the context of a new connection: what `make` returned, and returns once a file has
    changed. What cannot be loaded, such as half of a renewal, leaves everything as it is.

    A client that resumes a session shows no certificate. Sessions end with the context that began
    them, so that clients resume none once they are no longer trusted.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Iterable[Path]) -> None:
        """Raises as `make` does."""
        self._make = make
        self._files = tuple(files)
        self._stamps = self._stamp_all()
        self._looked_at = time.monotonic()
        self._newest = make()

    def __call__(self) -> ssl.SSLContext:
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            self._look()
        return self._newest

    def _look(self) -> None:
        stamps = self._stamp_all()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._newest = self._make()
            _log.info("Key stores of https listeners were renewed")
        except Exception as error:  # a connection must not fail because of it
            _log.warning("Renewed key stores of https listeners are not used: %s", error)

    def _stamp_all(self) -> list[_Stamp]:
        return [_stamp(file) for file in self._files]


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
