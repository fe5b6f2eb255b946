"""Runs a command line, reports its errors and returns the exit code.

Every failure ends here. Errors for the user are ConnectErrors; anything else is a bug, reported as
one line and a file with the traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from connect_reconciler.cli.commands import VERBS
from connect_reconciler.cli.commands import command as connect
from connect_reconciler.cli.output import escape_unencodable, show_waits
from connect_reconciler.cli.signals import (
    BY_SIGNAL,
    Terminated,
    begin_interruption,
    end_by_deadline,
    raised_on_sigterm,
)
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode

if TYPE_CHECKING:
    from connect_specs.diagnostics import Location, NextStep

_DATA = ".connect"
_NOT_ALLOWED = (errno.EROFS, errno.EACCES)


def run(argv: Sequence[str]) -> int:
    """Runs one verb. Never raises; reports what went wrong."""
    as_json = "--json" in argv
    escape_unencodable()
    show_waits()
    interrupted = begin_interruption()
    try:
        with end_by_deadline(interrupted):
            return _invoke(list(argv) or ["--help"])
    except ConnectError as error:
        return _report(error.diagnostics, error.exit_code, as_json, error.next_steps)
    except typer.TyperException as error:
        return _report([wrong_usage(error, argv)], ExitCode.INVALID, as_json)
    except (KeyboardInterrupt, typer.Abort):
        interrupted.report()
        return ExitCode.INTERRUPTED
    except Terminated as terminated:
        interrupted.report()
        return BY_SIGNAL + terminated.number
    except BrokenPipeError:
        return _broken_pipe()
    except (Exception, SystemExit) as error:
        # A plugin may call sys.exit. C code may replace a signal's exception with one of its own
        if interrupted.number:
            interrupted.report()
            return BY_SIGNAL + interrupted.number
        diagnostic = _folder_is_gone(error) or _unwritable(error) or _bug(error)
        return _report([diagnostic], ExitCode.FAILED, as_json)


def _invoke(argv: list[str]) -> int:
    from connect_reconciler.cli.session import COMPLETE, complete

    command = connect()
    if COMPLETE in os.environ:
        return complete(command)
    with raised_on_sigterm():
        # not by calling it, which turns Ctrl-C into an exit code of its own
        try:
            with command.make_context("connect", argv) as context:
                code = command.invoke(context)
        except typer.Exit as end:
            code = end.exit_code
        sys.stdout.flush()
    return code if isinstance(code, int) else ExitCode.OK


def _report(
    diagnostics: Sequence[Diagnostic],
    code: ExitCode,
    as_json: bool,
    steps: Sequence[NextStep] = (),
) -> int:
    from connect_reconciler.cli.apply_report import steps_text
    from connect_reconciler.cli.output import result_json
    from connect_specs.plain_text import render_diagnostics

    try:
        sys.stderr.write(render_diagnostics(diagnostics))
        if as_json:
            document: dict[str, object] = {"exit_code": int(code)}
            document |= {"diagnostics": to_json(diagnostics)}
            document |= {"next": [asdict(step) for step in steps]} if steps else {}
            result_json({"error": document})
        elif steps:
            sys.stderr.write(steps_text(steps))
    except BrokenPipeError:
        _broken_pipe()
    except OSError:
        # The error may be that nothing can be written there, and stderr has it
        _discard_output()
    return code


def to_json(diagnostics: Sequence[Diagnostic]) -> list[dict[str, object]]:
    """Diagnostics as `--json` shows them."""
    return [
        {
            "code": diagnostic.code,
            "what": diagnostic.what,
            "where": None if diagnostic.where is None else str(diagnostic.where),
            **_position(diagnostic.where),
            "why": diagnostic.why,
            "hint": diagnostic.hint,
        }
        for diagnostic in diagnostics
    ]


def _position(place: Location | str | None) -> dict[str, object]:
    if place is None or isinstance(place, str):
        return {}
    return {"file": place.file, "line": place.line, "column": place.column}


def _broken_pipe() -> int:
    _discard_output()
    return ExitCode.FAILED


def _discard_output() -> None:
    """Redirects stdout to nowhere: Python would fail again when it closes stdout at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _folder_is_gone(error: BaseException) -> Diagnostic | None:
    """Explains a removed current folder, as in the shell of a job that was cleaned up."""
    if not isinstance(error, FileNotFoundError):
        return None
    try:
        Path.cwd()
    except FileNotFoundError:
        problem, hint = "the current folder was removed", "change to a folder that exists"
        return Diagnostic("usage", problem, hint=hint)
    return None


def _unwritable(error: BaseException) -> Diagnostic | None:
    """Explains a full disk, a folder that this user may not write, or a file in the way in
    .connect/: no bug."""
    from connect_reconciler.cli.project_files import NO_SPACE

    if not isinstance(error, OSError):
        return None
    if error.errno in NO_SPACE:
        hint = "free some space, and run this again"
    elif error.errno in _NOT_ALLOWED and error.filename:
        hint = "connect writes to .connect/ beside connect.yaml; allow this user to write there"
    elif error.filename and _DATA in Path(str(error.filename)).parts:
        hint = "connect keeps its own files in .connect/; move away what is in their place"
    else:
        return None
    file = None if error.filename is None else str(error.filename)
    problem = (
        "a file, or the output, cannot be written" if file is None else "a file cannot be written"
    )
    return Diagnostic("file.unwritable", problem, file, error.strerror or "", hint)


def _bug(error: BaseException) -> Diagnostic:
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    problem = f"a bug in connect: {type(error).__name__} at {place}"
    try:
        file = _write_report("".join(_without_texts(error)))
    except OSError:
        return Diagnostic(
            "internal", problem, hint="please report it; its report cannot be written"
        )
    return Diagnostic("internal", problem, hint=f"please report it with {file}")


def _without_texts(error: BaseException) -> Iterator[str]:
    """Yields the traceback and those of its causes, without texts: they may hold config values."""
    import traceback

    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _without_texts(earlier)
        yield "\nwhich led to:\n\n"
    yield "Traceback (most recent call last), without the exception's text:\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__module__}.{type(error).__qualname__}\n"


def _write_report(text: str) -> Path:
    """Writes to .connect/ of the project, else to the temporary folder."""
    import tempfile

    folder = next((f for f in _folders_above() if f.is_dir() and os.access(f, os.W_OK)), None)
    handle, name = tempfile.mkstemp(prefix="connect-crash-", suffix=".txt", dir=folder, text=True)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return Path(name)


def _folders_above() -> list[Path]:
    current = Path.cwd()
    return [folder / _DATA for folder in (current, *current.parents)]


def wrong_usage(error: typer.TyperException, words: Sequence[str]) -> Diagnostic:
    """Returns the diagnostic for a usage error of the command line `connect words`."""
    context = getattr(error, "ctx", None)
    # The parser leaves the verb out of errors about the values of options
    verb = next((word for word in words if word in VERBS), "")
    command = context.command_path if context else f"connect {verb}".rstrip()
    problem = error.format_message().rstrip(".").replace("Value error, ", "")
    return Diagnostic("usage", problem, hint=f"see `{command} --help`")
