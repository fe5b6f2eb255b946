"""Writes what JVMs log, and what they and plugins print, to the log of this process.

Lines have the connector and task that Connect's logging context names, as those of Python tasks.
A line below another is indented, so that no plugin can write one that looks like another event.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

# The root, as names of Java's loggers are no concern of this process's
_log = logging.getLogger()

_TRACE: Final = 5
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
}
logging.addLevelName(_TRACE, "TRACE")
# `[orders|task-0] `, `[orders|task-0|offsets] `, `[orders|worker] `
_CONTEXT: Final = re.compile(r"\[(?P<connector>.*?)(\|task-(?P<task>\d+))?(\|[a-z]+)?\] ?")
_LONGEST: Final = 16_384
_A_SECOND: Final = 1_000
_OF_JVM: Final = "jvm"


def log_event(event: Mapping[str, Any], redact: Callable[[str], str]) -> None:
    """Logs an event of Java's logging, at its level. The JVM has dropped those below its levels."""
    text = event["text"]
    if "trace" in event:
        text = f"{text}\n{event['trace'].rstrip()}"
    level = _LEVELS.get(event["level"], logging.INFO)
    _write(event["logger"], level, redact(text), _about(event.get("context")))


def log_left_out(event: Mapping[str, Any]) -> None:
    """Logs how many lines of a second were not logged."""
    text = f"{event['count']} lines of a second were left out, beyond the first {_A_SECOND}"
    _write(__name__, logging.WARNING, text, _about(event["context"]))


def read_output(
    output: IO[bytes], keep: Callable[[str], None], redact: Callable[[str], str]
) -> None:
    """Logs what the JVM itself prints, and plugins in C, until its end: 1,000 lines of a second.
    Always reads on, as who prints would wait. `keep` gets each line."""
    second, count = 0, 0
    while line := output.readline(_LONGEST):
        text = redact(line.decode(errors="replace").rstrip())
        keep(text)
        current = int(time.monotonic())
        if current != second:
            if count > _A_SECOND:
                log_left_out({"count": count - _A_SECOND, "context": None})
            second, count = current, 0
        count += 1
        if count <= _A_SECOND:
            _write(_OF_JVM, logging.INFO, text, {})


def _write(logger: str, level: int, text: str, about: Mapping[str, object]) -> None:
    record = logging.LogRecord(logger, level, "", 0, "%s", (text.replace("\n", "\n  "),), None)
    record.__dict__.update(about)
    _log.handle(record)


def _about(context: str | None) -> Mapping[str, object]:
    match = _CONTEXT.fullmatch(context or "")
    if match is None:
        return {}
    task = match["task"]
    return {"connector": match["connector"], **({} if task is None else {"task": int(task)})}
