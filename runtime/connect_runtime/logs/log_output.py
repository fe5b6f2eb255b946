"""The log of a runtime and its tasks: its format, text or JSON with one event a line, and the
rotation of its files.

Both formats have the connector and task of an event: those of the event itself (`extra=`), else
those of its process. The processes of tasks inherit the format by an environment variable.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Final

_log = logging.getLogger(__name__)

VARIABLE: Final = "CONNECT_LOG_FORMAT"

_TEXT: Final = "%(asctime)s %(levelname)s %(about)s%(message)s (%(name)s)"
_FIELDS: Final = ("connector", "task", "worker")
_ROTATED_BYTES: Final = 10 * 1024 * 1024
_process_is_about: dict[str, str | int] = {}


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


def chosen() -> LogFormat:
    """Returns the format of the environment variable; text for anything unknown."""
    return LogFormat.JSON if os.environ.get(VARIABLE) == LogFormat.JSON else LogFormat.TEXT


def log_to(file: Path | None, level: int) -> None:
    """Sets up logging of this process, once: to the file, or to stderr."""
    handler: logging.Handler = logging.StreamHandler()
    if file is not None:
        # half of a surrogate pair, such as in a record that failed, is no UTF-8
        handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(JsonLines() if chosen() is LogFormat.JSON else TextLines())
    logging.basicConfig(level=level, handlers=[handler])
    # else Python prints these itself, over several lines
    logging.captureWarnings(True)
    threading.excepthook = _log_end_of_thread


def text_about(connector: str, text: str, logger: str) -> str:
    """Returns a line of text about a connector, as `logger` would log it at this moment."""
    record = logging.LogRecord(logger, logging.INFO, "", 0, "%s", (text,), None)
    record.connector = connector
    return TextLines().format(record)


def process_is_about(**fields: str | int) -> None:
    """Sets the `worker`, `connector` and `task` of all events that name no others."""
    _process_is_about.update(fields)


class TextLines(logging.Formatter):
    """Text that begins like Connect's: `[orders|task-0]` names the connector and its task."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        record.msg, record.args = _message(record), ()
        about = _about(record)
        record.about = ""
        if "connector" in about:
            task = f"|task-{about['task']}" if "task" in about else ""
            record.about = f"[{about['connector']}{task}] "
        return super().format(record)


class JsonLines(logging.Formatter):
    """JSON: time (UTC), level, logger, message, and where known connector, task, worker and
    exception."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
            **_about(record),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)


def _about(record: logging.LogRecord) -> dict[str, str | int]:
    of_event = {name: getattr(record, name, None) for name in _FIELDS}
    # a plugin may use the same names for objects of its own
    return {**_process_is_about, **{k: v for k, v in of_event.items() if isinstance(v, str | int)}}


def _message(record: logging.LogRecord) -> str:
    """Returns the event's text, also if its arguments do not fit: Python would print a trace of the
    call, and no event."""
    try:
        return record.getMessage()
    except Exception as error:  # of the code that logs, such as a plugin
        text = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        return f"{text} (its arguments cannot be shown: {type(error).__name__})"


def _log_end_of_thread(end: threading.ExceptHookArgs) -> None:
    if end.exc_type is SystemExit:
        return
    name = "?" if end.thread is None else end.thread.name
    error = end.exc_value or end.exc_type()
    _log.error("The thread %s ended by an exception", name, exc_info=error)


def open_log(file: Path) -> IO[bytes]:
    """Opens the file for appending; only its user may read it."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def rotate(file: Path, *, copies: int = 2, most_bytes: int = _ROTATED_BYTES) -> None:
    """Moves the content to `<file>.1`, that to `.2`, and so on, if it is larger than `most_bytes`.
    There are so many older `copies` at most. Raises OSError.

    Several processes write to one open file, such as the JVM, so it is copied and emptied; lines
    written in between are lost.
    """
    if not file.exists() or file.stat().st_size <= most_bytes:
        return
    for number in range(copies, 1, -1):
        newer = older(file, number - 1)
        if newer.exists():
            newer.replace(older(file, number))
    copy = older(file, 1)
    try:
        copy.touch(mode=0o600)
        shutil.copyfile(file, copy)
    finally:
        # also if the disk is full
        os.truncate(file, 0)


def older(file: Path, number: int = 1) -> Path:
    """Returns the file that the text was moved to when the log became large, so many times ago."""
    return file.with_name(f"{file.name}.{number}")
