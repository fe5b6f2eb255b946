"""The only way out: results to stdout, progress to stderr, and colour only where it is wanted."""

from __future__ import annotations

import codecs
import contextlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TextIO

import typer

from connect_specs.printable import lines_of, one_line

_ESCAPED = "connect-escaped"


def result(text: str) -> None:
    """A verb's answer."""
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")
    sys.stdout.flush()


def result_json(value: object) -> None:
    """A verb's answer as one JSON document."""
    result(json.dumps(value, indent=2, ensure_ascii=False))


def show_what_can_be_shown() -> None:
    """Makes stdout escape what its encoding does not have, as JSON does, instead of failing."""
    if isinstance(sys.stdout, TextIOWrapper):
        codecs.register_error(_ESCAPED, _escaped)
        sys.stdout.reconfigure(errors=_ESCAPED)


def progress(text: str) -> None:
    """What is happening, for whoever watches; never the answer. If nobody does, that is no
    failure."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{lines_of(text)}\n")
        sys.stderr.flush()


def tell_waits() -> None:
    """Shows as progress what a verb waits for when that takes long."""
    handler = _Progress()
    handler.name = "progress"
    logger = logging.getLogger("connect.waits")
    logger.handlers[:] = [handler]
    logger.propagate = False


class _Progress(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        progress(record.getMessage())


def agreed(question: str) -> bool:
    """Whether somebody on the terminal says yes. On stderr, like all that is not the result: the
    question must be seen when stdout is a file. Raises typer.Abort where the input ends."""
    while True:
        answer: str = typer.prompt(f"{question} [y/N]", default="", show_default=False, err=True)
        match answer.strip().lower():
            case "y" | "yes":
                return True
            case "n" | "no" | "":
                return False
            case _:
                progress("answer y or n")


def colour(stream: TextIO) -> bool:
    """Whether colour is wanted on that stream: a terminal, and NO_COLOR not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int | None:
    """How wide stdout is; None where it is no terminal, and lines may be as long as they like."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, as wide as they need to be; control characters are escaped."""
    cells = [[one_line(cell) for cell in row] for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
    return "".join(f"{line}\n" for line in lines)
