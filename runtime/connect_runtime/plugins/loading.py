"""Loads the plugins that packages register, so that one that hangs holds up no other one.

Importing a module, and asking a class its version, run third-party code, which may never return.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint
from typing import Final, Generic, TypeVar

_log = logging.getLogger(__name__)

T = TypeVar("T")

# How long to wait for one entry point, and for all. Large packages take seconds on a busy machine.
_EACH_S: Final = 10.0
_ALL_S: Final = 30.0


class Loading(Generic[T]):
    """Calls `load` once for each entry point. Used from any thread."""

    def __init__(self, entries: Iterable[EntryPoint], load: Callable[[EntryPoint], T]) -> None:
        self._load = load
        self._found: list[T] = []
        self._waits_until = time.monotonic() + _ALL_S
        self._tried = threading.Event()
        entries = tuple(entries)
        if not entries:
            self._tried.set()
            return
        threading.Thread(
            target=self._try_all, args=(entries,), name="load-plugins", daemon=True
        ).start()

    def found(self) -> list[T]:
        """Returns what is loaded. Waits for the others, but no longer for one that hangs: it is
        there once it has loaded."""
        self._tried.wait(max(0.0, self._waits_until - time.monotonic()))
        return list(self._found)

    def _try_all(self, entries: Iterable[EntryPoint]) -> None:
        try:
            for entry in entries:
                # One after the other: of modules that import each other, two threads get halves.
                one = threading.Thread(
                    target=self._try, args=(entry,), name=f"load-{entry.name}", daemon=True
                )
                try:
                    one.start()
                except RuntimeError:  # the system has no more threads
                    self._try(entry)
                    continue
                one.join(_EACH_S)
                if one.is_alive():
                    text = "The plugin %s (%s) has not loaded in %.0f s: it is left out until then"
                    _log.warning(text, entry.name, entry.value, _EACH_S)
        finally:
            self._tried.set()

    def _try(self, entry: EntryPoint) -> None:
        try:
            self._found.append(self._load(entry))
        except BaseException as error:  # a plugin may also call sys.exit
            _log.warning("The plugin %s (%s) cannot be used: %s", entry.name, entry.value, error)
