"""Runs a command line, reports its errors and returns the exit code.

Every failure ends here. Errors for the user are ConnectErrors; anything else is a bug, reported as
one line and a file with the traceback. Usage errors have a hint with the form to write.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
_EXTRA = re.compile(r"unexpected extra argument\(s\) \((.*)\)", re.DOTALL)
_NO_VERB = re.compile(r"No such command (['\"])(.*?)\1(?:\. Did you mean '([\w-]+)'.*)?", re.DOTALL)
_TERRAFORM = re.compile(r"-[a-z][a-z-]+(=.*)?", re.DOTALL)


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


# --- usage errors ---


def wrong_usage(error: typer.TyperException, words: Sequence[str]) -> Diagnostic:
    """Returns the diagnostic for a usage error of the command line `connect words`."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else _command(words)
    problem, reason, hint = _explain(error, context, command, words)
    return Diagnostic("usage", problem, why=reason, hint=hint or f"see `{command} --help`")


def _explain(
    error: typer.TyperException, context: Any, command: str, words: Sequence[str]
) -> tuple[str, str, str]:
    """Returns problem, reason and hint; the last two may be empty."""
    text = error.format_message().rstrip(".")
    match type(error).__name__:
        case "NoSuchOption":
            option = _as_written(str(getattr(error, "option_name", "")), words)
            near = getattr(error, "possibilities", None) or ()
            return f"{command} has no option {option}", "", _for_option(option, near, context)
        case "BadOptionUsage":
            option = str(getattr(error, "option_name", ""))
            wants = "requires an argument" in text
            return f"{option} {'needs a value' if wants else 'takes no value'}", "", ""
        case "MissingParameter":
            name = _name(getattr(error, "param", None))
            return f"{command} needs {name}", "", f"`{command} {name}`; see `{command} --help`"
        case "BadParameter":
            return _for_value(error)
        case _:
            return _by_text(text, context, command)


def _by_text(text: str, context: Any, command: str) -> tuple[str, str, str]:
    """Explains errors that differ only in their text."""
    if matched := _NO_VERB.fullmatch(text):
        hint = f"did you mean `{command} {matched[3]}`?" if matched[3] else ""
        if context.parent is not None:
            # the nearest name may do harm: that of `set` is `reset`
            hint = f"write one of {_subcommands(context)}"
        return f"{command} has no verb {matched[2]!r}", "", hint
    if matched := _EXTRA.search(text):
        return f"{command} does not take {matched[1]!r}", "", _more_names(command, context)
    if text == "Missing command":
        needs = "a verb" if context.parent is None else f"one of {_subcommands(context)}"
        return f"{command} needs {needs}", "", ""
    return text, "", ""


def _command(words: Sequence[str]) -> str:
    """Returns the command with its verb, which the parser leaves out of errors about options."""
    verb = next((word for word in words if word in VERBS), "")
    return f"connect {verb}".rstrip()


def _as_written(option: str, words: Sequence[str]) -> str:
    """Returns the option as typed: of `-auto-approve` the parser names only the first letter."""
    if option.startswith("--"):
        return option
    long = (word for word in words if word.startswith(option) and _TERRAFORM.fullmatch(word))
    return next((word.partition("=")[0] for word in long), option)


def _for_option(option: str, near: Sequence[str], context: Any) -> str:
    """Returns a hint for an unknown option; `near` are options with similar names, best first."""
    if context is not None and f"-{option}" in _options_of(context):
        return f"write it with two dashes: -{option}"
    if option == "--json" and context is not None and context.parent is None:
        return "write it after the verb: `connect plan --json`"
    return f"did you mean {near[0]}?" if near else ""


def _for_value(error: typer.TyperException) -> tuple[str, str, str]:
    """Explains an invalid value by the values that the option takes, not in pydantic's texts."""
    param = getattr(error, "param", None)
    mistake = _first_of(error.__cause__)
    if param is None or mistake is None:
        name = getattr(error, "param_hint", None) or ("" if param is None else _name(param))
        message = str(getattr(error, "message", error)).rstrip(".")
        return (f"{name}: {message}" if name else message), "", ""
    return f"{mistake[0]!r} is not a valid value for {_name(param)}", mistake[1], ""


def _first_of(cause: BaseException | None) -> tuple[object, str] | None:
    """Returns the first invalid value and the expected ones; None for another cause."""
    if cause is None or not hasattr(cause, "errors"):
        return None
    first = cause.errors()[0]
    limits = first.get("ctx", {})
    match first["type"]:
        case "int_parsing" | "int_type" | "int_from_float":
            expectation = "it takes a whole number"
        case "float_parsing" | "float_type" | "finite_number":
            expectation = "it takes a number"
        case "greater_than_equal":
            expectation = f"it takes {limits.get('ge')} or more"
        case "less_than_equal":
            expectation = f"it takes {limits.get('le')} or less"
        case _:
            _, _, choices = str(first["msg"]).partition("is not one of ")
            expectation = (
                f"it takes one of {choices.replace(chr(39), '').rstrip('.')}" if choices else ""
            )
    return first["input"], expectation


def _name(param: Any) -> str:
    """Returns the option, such as `--parallelism`, or the argument as help shows it."""
    if param is None:
        return "a value"
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    return str(next((option for option in param.opts if option.startswith("--")), param.opts[0]))


def _options_of(context: Any) -> list[str]:
    options = (option for option in context.command.params if option.param_type_name == "option")
    return [name for option in options for name in option.opts]


def _subcommands(context: Any) -> str:
    return ", ".join(context.command.commands)


def _more_names(command: str, context: Any) -> str:
    params = context.command.params if context else []
    names = [_name(param) for param in params if param.param_type_name == "argument"]
    if not names and context and "--target" in _options_of(context):
        return f"`{command} --target GLOB` limits it to connectors with matching names"
    return f"write `{' '.join([command, *names])}`" if names else ""
