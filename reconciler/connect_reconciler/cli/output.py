"""Writes results to stdout and progress to stderr; colours and wraps only on terminals."""

from __future__ import annotations

import codecs
import contextlib
import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from io import TextIOWrapper
from typing import NoReturn, TextIO, TypeVar

import typer

from connect_specs.diagnostics import ConnectError
from connect_specs.plain_text import duration_text, lines_of, width_of

T = TypeVar("T")

PROGRESS = "connect.progress"

_log = logging.getLogger(PROGRESS)
_ESCAPED = "connect-escaped"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXPLANATION = re.compile(rf" *(?:{_COLOUR.pattern})*(?:→ |why: |hint: )")


def result(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")
    sys.stdout.flush()


def result_json(value: object) -> None:
    """Writes a verb's result as one JSON document."""
    result(json.dumps(value, indent=2, ensure_ascii=False))


def escape_unencodable() -> None:
    """Makes stdout escape characters that its encoding lacks, as JSON does, instead of failing."""
    if isinstance(sys.stdout, TextIOWrapper):
        codecs.register_error(_ESCAPED, _escaped)
        sys.stdout.reconfigure(errors=_ESCAPED)


def progress(text: str) -> None:
    """Shows progress to the user, never the result. A stderr that is closed, or that a plugin took
    away, is not an error."""
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s", text)
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{lines_of(text)}\n")
        sys.stderr.flush()


def progress_of_wait(obstacle: str, limit_s: float) -> None:
    """Shows which other apply is waited for, and for how long at most."""
    progress(f"{obstacle}; waiting up to {duration_text(limit_s)} for it to finish")


def show_progress_as_json() -> None:
    """Makes each line of progress an event, for a log whose lines are all JSON."""
    from connect_runtime.logs.log_output import JsonLines

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    _log.handlers[:] = [handler]
    _log.setLevel(logging.INFO)
    _log.propagate = False


def progress_of(connector: str, text: str) -> None:
    """Shows what happened to a connector, after `show_progress_as_json`."""
    _log.info("%s", text, extra={"connector": connector})


def show_waits() -> None:
    """Shows long waits for Kafka or REST as progress."""
    handler = _Progress()
    handler.name = "progress"
    logger = logging.getLogger("connect.waits")
    logger.handlers[:] = [handler]
    logger.propagate = False


class _Progress(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        progress(record.getMessage())


def confirmed(question: str) -> bool:
    """Asks the user to confirm, on stderr: the question must be seen when stdout is a file.

    Raises typer.Abort where the input ends.
    """
    while True:
        answer: str = typer.prompt(f"{question} [y/N]", default="", show_default=False, err=True)
        match answer.strip().lower():
            case "y" | "yes":
                return True
            case "n" | "no" | "":
                return False
            case _:
                progress("please answer y or n")


def colour(stream: TextIO) -> bool:
    """Returns true for a stream that takes colours: a terminal, and NO_COLOR not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int | None:
    """Returns the width of stdout; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def with_hanging_indent(text: str, width: int | None) -> str:
    """Breaks explanations that are longer than a line of the terminal, and indents what follows.

    Only lines that begin with an arrow or a label are broken: others hold values to copy. `width`
    None, where stdout is no terminal, leaves all lines as they are.
    """
    if width is None:
        return text
    return "".join(_hanging(line, width) for line in text.splitlines(keepends=True))


def _hanging(line: str, width: int) -> str:
    label = _EXPLANATION.match(line)
    if label is None or _visible(line.rstrip("\n")) <= width:
        return line
    first, *words = line[label.end() :].rstrip("\n").split(" ")
    lines = [label[0] + first]
    for word in words:
        if _visible(lines[-1]) + 1 + _visible(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(" " * _visible(label[0]) + word)
    return "\n".join(lines) + "\n"


def _visible(text: str) -> int:
    """Returns the width of the text in columns, without colours."""
    return width_of(_COLOUR.sub("", text))


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def watch(look: Callable[[], T], pause_s: float, show: Callable[[T], None]) -> NoReturn:
    """Looks and shows the findings until a signal arrives. Errors, such as an unreachable Kafka,
    are shown as progress and retried."""
    while True:
        try:
            findings = look()
        except ConnectError as error:
            progress(f"cannot check now: {error}")
        else:
            show(findings)
        time.sleep(pause_s)
