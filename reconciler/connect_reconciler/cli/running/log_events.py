"""Reads the logs of a runtime and its tasks as events, and follows them as they grow.

An event is a line of JSON, or a line of text that begins with its time, with the trace below it.
Other lines, such as progress, are events about no connector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from connect_specs.diagnostics import Diagnostic, Failed

_HEAD = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ([A-Z]+) (.*)")
_TRACE = "Traceback (most recent call last)"
_ABOUT = re.compile(r"\[(.+?)(?:\|task-\d+)?\] ")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """`text` is as it was written, without the last newline; `at` in seconds since the epoch."""

    at: float
    text: str
    connector: str | None = None


def events(lines: Iterable[str], last: LogEvent | None = None) -> Iterator[LogEvent]:
    """Yields the events in these lines. `last` is the event before: what of its trace comes late is
    one more event like it."""
    event, text = last, list[str]()
    in_trace = last is not None and _TRACE in last.text
    for line in lines:
        found = _json_event(line) or _text_event(line)
        if found or event is None or not (in_trace or line.startswith((" ", "\t"))):
            if event is not None and text:
                yield replace(event, text="\n".join(text))
            event, text = found or LogEvent(event.at if event else 0.0, line), []
            in_trace = False
        text.append(line)
        in_trace = in_trace or _TRACE in line
    if event is not None and text:
        yield replace(event, text="\n".join(text))


def _json_event(line: str) -> LogEvent | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
        at = datetime.fromisoformat(found["time"]).timestamp()
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return LogEvent(at, line, found.get("connector"))


def _text_event(line: str) -> LogEvent | None:
    found = _HEAD.match(line)
    if found is None:
        return None
    try:
        # a log without a zone is in that of this machine
        at = datetime.fromisoformat(f"{found[1]}.{found[2]}").astimezone().timestamp()
    except (ValueError, OverflowError):
        return None
    about = _ABOUT.match(found[4])
    return LogEvent(at, line, about[1] if about else None)


def is_about(event: LogEvent, name: str | None) -> bool:
    """Whether the event is about the connector; without a name, all are wanted."""
    return name is None or event.connector == name


class LogFiles:
    """Reads files that grow, and that are emptied when they become large."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [_LogFile(file) for file in files]

    def read(self) -> list[LogEvent]:
        """Returns the events since the last call, in the order of their times. A last line without
        its end waits for the next call. Raises Failed: logs.unreadable."""
        found = [event for file in self._files for event in file.read()]
        return sorted(found, key=lambda event: event.at)


@dataclass(slots=True)
class _LogFile:
    path: Path
    at: int = 0
    rest: bytes = b""
    last: LogEvent | None = None

    def read(self) -> list[LogEvent]:
        found = list(events(self._new_lines(), self.last))
        self.last = found[-1] if found else self.last
        return found

    def _new_lines(self) -> list[str]:
        try:
            with self.path.open("rb") as log:
                if log.seek(0, 2) < self.at:  # emptied since
                    self.at, self.rest = 0, b""
                log.seek(self.at)
                new = log.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            what, why = "the log cannot be read", error.strerror or type(error).__name__
            raise Failed(Diagnostic("logs.unreadable", what, str(self.path), why)) from error
        self.at += len(new)
        *lines, self.rest = (self.rest + new).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def log_files(data_folder: Path) -> tuple[Path, ...]:
    """Returns where a runtime with this data folder, and its tasks, log."""
    return (data_folder / "runtime.log", data_folder / "spark" / "spark.log")
