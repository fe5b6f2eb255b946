"""The logs of this project's runtime and its tasks: written, and read again as events.

An event is a line of JSON, or a line of text that begins with its time, with the trace below it.
Other lines, such as progress, are events about no connector. In the runtime's own log repeated
lines are dropped.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

from connect_runtime.logs.log_output import older
from connect_specs.diagnostics import Diagnostic, Failed

LOG: Final = "runtime.log"
_HEAD: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ([A-Z]+) (.*)")
_TRACE: Final = "Traceback (most recent call last)"
# A little less than a minute, for lines that are logged once a minute
_REPEAT_S: Final = 55.0
_REMEMBERED: Final = 1000
_NUMBER: Final = re.compile(r"\d+")


# --- reading ---


@dataclass(frozen=True, slots=True)
class LogEvent:
    """`text` is as it was written, without the last newline; `at` in seconds since the epoch.
    `connector` is what a line of JSON names, `message` what a line of text says after its level."""

    at: float
    text: str
    connector: str | None = None
    message: str = ""


def events(lines: Iterable[str], last: LogEvent | None = None) -> Iterator[LogEvent]:
    """Yields the events in these lines. `last` is the event before: what of its trace comes late is
    one more event like it."""
    event, text = last, list[str]()
    in_trace = last is not None and _TRACE in last.text
    for line in lines:
        start = _json_event(line) or _text_event(line)
        if start or event is None or not (in_trace or line.startswith((" ", "\t"))):
            if event is not None and text:
                yield replace(event, text="\n".join(text))
            event, text = start or LogEvent(event.at if event else 0.0, line), []
            in_trace = False
        text.append(line)
        in_trace = in_trace or _TRACE in line
    if event is not None and text:
        yield replace(event, text="\n".join(text))


def _json_event(line: str) -> LogEvent | None:
    if not line.startswith("{"):
        return None
    try:
        fields = json.loads(line)
        at = datetime.fromisoformat(fields["time"]).timestamp()
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return LogEvent(at, line, fields.get("connector"))


def _text_event(line: str) -> LogEvent | None:
    head = _HEAD.match(line)
    if head is None:
        return None
    try:
        # a log without a zone is in that of this machine
        at = datetime.fromisoformat(f"{head[1]}.{head[2]}").astimezone().timestamp()
    except (ValueError, OverflowError):
        return None
    return LogEvent(at, line, message=head[4])


def is_about(event: LogEvent, name: str | None) -> bool:
    """Returns true if the event is about the connector, or if there is no name. A line of text may
    be about several connectors, if a name has brackets."""
    if name is None or event.connector is not None:
        return name in (None, event.connector)
    return _about(name).match(event.message) is not None


@cache
def _about(name: str) -> re.Pattern[str]:
    return re.compile(rf"\[{re.escape(name)}(\|task-\d+)?\] ")


class LogFiles:
    """Reads files that grow, and that are emptied when they become large."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [_LogFile(file) for file in files]

    def read(self) -> list[LogEvent]:
        """Returns the events since the last call, in the order of their times. A last line without
        its end waits for the next call. Raises Failed: logs.unreadable."""
        log_events = [event for file in self._files for event in file.read()]
        return sorted(log_events, key=lambda event: event.at)


@dataclass(slots=True)
class _LogFile:
    path: Path
    at: int = 0
    unfinished: bytes = b""
    last: LogEvent | None = None
    # as it was before the last read
    older_file: tuple[int, int] | None = None

    def read(self) -> list[LogEvent]:
        log_events = list(events(self._new_lines(), self.last))
        self.last = log_events[-1] if log_events else self.last
        return log_events

    def _new_lines(self) -> list[str]:
        earlier_file, self.older_file = self.older_file, _identity(older(self.path))
        rotated = b""
        try:
            with self.path.open("rb") as log:
                if log.seek(0, 2) < self.at:  # emptied since
                    # the rotation may have come after the look above
                    self.older_file = _identity(older(self.path))
                    if self.older_file == earlier_file:
                        self.unfinished = b""
                    else:
                        rotated = self._rotated()
                    self.at = 0
                log.seek(self.at)
                content = log.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            problem, reason = "the log cannot be read", error.strerror or type(error).__name__
            raise Failed(Diagnostic("logs.unreadable", problem, str(self.path), reason)) from error
        self.at += len(content)
        *lines, self.unfinished = (self.unfinished + rotated + content).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def _rotated(self) -> bytes:
        """Returns what was written between the last call and the rotation."""
        try:
            with older(self.path).open("rb") as log:
                log.seek(self.at)
                return log.read()
        except OSError:
            return b""


def _identity(file: Path) -> tuple[int, int] | None:
    """Returns inode and time of a file, which differ for the one that replaces it; None if it is
    gone."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def log_files(data_folder: Path) -> tuple[Path, ...]:
    """Returns where a runtime with this data folder, and its tasks, log."""
    return (data_folder / LOG, data_folder / "spark" / "spark.log")


# --- writing ---


def log_to(file: Path | None) -> None:
    """Sends this process's warnings to the file, or to stderr; call it once."""
    from connect_runtime.kafka.kafka_logging import log_outages
    from connect_runtime.logs import log_output

    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    log_output.log_to(file, logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Repeats())
    log_outages()


@dataclass(slots=True)
class _PassedLine:
    at: float
    left_out: int = 0


@dataclass(slots=True)
class Repeats:
    """A log filter: lets the same line pass once a minute, with the number of dropped repeats.

    Lines that differ only in numbers are the same, if they are about the same connector and task.
    """

    clock: Callable[[], float] = time.monotonic
    _passed: dict[tuple[object, ...], _PassedLine] = field(default_factory=dict)

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:
            # the handler reports such a line; this filter must not raise
            return True
        kind = record.exc_info[0] if record.exc_info else None
        # a plugin may use these names for objects of its own
        values = (getattr(record, name, None) for name in ("connector", "task"))
        about = tuple(value for value in values if isinstance(value, str | int))
        key = (record.name, record.levelno, kind, about, _NUMBER.sub("#", text))
        time_s = self.clock()
        passed = self._passed.get(key)
        if passed is not None and time_s - passed.at < _REPEAT_S:
            passed.left_out += 1
            return False
        if passed is not None and passed.left_out:
            record.msg, record.args = f"{text} (and {passed.left_out} times more since)", ()
        self._remember(key, time_s)
        return True

    def _remember(self, key: tuple[object, ...], time_s: float) -> None:
        self._passed.pop(key, None)
        self._passed[key] = _PassedLine(time_s)
        if len(self._passed) > _REMEMBERED:
            del self._passed[next(iter(self._passed))]
