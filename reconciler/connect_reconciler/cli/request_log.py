"""`--verbose` and `--log-file`: every request to a cluster and every call to Kafka, as it is made.

Secrets are redacted where a request is made: `backend.rest.exchange_log` and
`connect_runtime.kafka.calls`.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import typer

from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable


_FORMAT: Final = "%(asctime)s.%(msecs)03d %(name)s %(message)s"
_TIME: Final = "%Y-%m-%dT%H:%M:%S"
_PREFIX: Final = "connect.asked."


def log_requests(context: typer.Context, *, verbose: bool, file: Path | None) -> None:
    """Logs requests to stderr, or to the file, until the command ends. Raises Invalid."""
    if verbose:
        _add(context, "stderr", lambda: _Handler(sys.stderr))
    if file is not None:
        _add(context, str(file), lambda: _Handler(_opened(file), owns=True))


class _Handler(logging.StreamHandler[IO[str]]):
    """Stops logging, without an error, when its stream cannot be written."""

    def __init__(self, stream: IO[str], *, owns: bool = False) -> None:
        super().__init__(stream)
        self._owns = owns
        self._broken = False
        self.setFormatter(_Format(_FORMAT, _TIME))

    def emit(self, record: logging.LogRecord) -> None:
        if not self._broken:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        self._broken = True
        if self._owns:
            why = getattr(sys.exc_info()[1], "strerror", None) or "the file is closed"
            sys.stderr.write(f"warning: --log-file can no longer be written: {why}\n")

    def close(self) -> None:
        super().close()
        if self._owns:
            try:
                self.stream.close()
            except OSError:
                self._broken = True


class _Format(logging.Formatter):
    """One line per record, whatever it contains."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace(_PREFIX, "", 1)
        return "".join(each if each.isprintable() else " " for each in text)


def _add(context: typer.Context, where: str, make: Callable[[], logging.Handler]) -> None:
    """Adds one handler per place, even if the option is given before and after the verb."""
    logger = logging.getLogger(_PREFIX.rstrip("."))
    if any(each.name == where for each in logger.handlers):
        return
    handler = make()
    handler.name = where
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False

    def end() -> None:
        logger.removeHandler(handler)
        handler.close()
        if not logger.handlers:
            logger.setLevel(logging.NOTSET)
            logger.propagate = True

    context.find_root().call_on_close(end)


def _opened(path: Path) -> IO[str]:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # Not for a device or a pipe
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.fchmod(handle, 0o600)
    except OSError as error:
        what = "the file of --log-file cannot be written"
        hint = "name a file in an existing, writable folder"
        raise Invalid(
            Diagnostic("usage.log-file", what, str(path), error.strerror or "", hint)
        ) from error
    return os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace")
