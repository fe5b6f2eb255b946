"""Usage errors: what is wrong with a command line, and what to write instead.

Verbs and options of other tools get a hint with ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import typer

from connect_reconciler.cli.commands import VERBS
from connect_specs.diagnostics import Diagnostic

_VERBS: Mapping[str, str] = {
    **dict.fromkeys(("diff", "preview", "refresh", "compare"), "`connect plan` shows what differs"),
    **dict.fromkeys(
        ("list", "get", "ls", "ps", "describe", "state"), "`connect status` shows the connectors"
    ),
    **dict.fromkeys(
        ("destroy", "rm", "remove"),
        "remove the specs and run `connect apply`; `connect delete NAME` deletes one directly",
    ),
    **dict.fromkeys(
        ("create", "deploy", "update", "sync", "reconcile", "put", "edit"),
        "write specs, then `connect apply` changes the cluster to match them",
    ),
    **dict.fromkeys(("start", "run", "serve"), "`connect up`, or `connect resume NAME`"),
    **dict.fromkeys(("undo", "revert"), "`connect history`, then `connect rollback ID`"),
    **dict.fromkeys(("check", "lint"), "`connect validate` checks all files"),
    "log": "`connect logs NAME` prints what was logged",
    **dict.fromkeys(("pull", "adopt"), "`connect import` writes specs from live connectors"),
    **dict.fromkeys(("config", "dump", "cat"), "`connect export NAME --live` writes its config"),
    **dict.fromkeys(("workspace", "env"), "`--env NAME` chooses an environment"),
    **dict.fromkeys(("unlock", "force-unlock"), "`connect apply --takeover`"),
    "taint": "`connect restart NAME`",
    "reset": "`connect offsets reset NAME`",
    "help": "`connect --help`, or `connect VERB --help`",
}
_OFFSETS: Mapping[str, str] = {
    **dict.fromkeys(("get", "show", "ls", "describe"), "`connect offsets list NAME`"),
    **dict.fromkeys(
        ("set", "put", "patch", "write", "update", "edit", "move"),
        "`connect offsets alter NAME FILE`",
    ),
    **dict.fromkeys(("delete", "rm", "clear"), "`connect offsets reset NAME`"),
}
_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("--auto-approve", "--approve", "--assume-yes", "--no-input", "-y"),
        "--yes applies without a question",
    ),
    **dict.fromkeys(("--dry-run", "--check"), "`connect plan` changes nothing"),
    **dict.fromkeys(("--detailed-exit-code", "--exit-code"), "`connect plan --detailed-exitcode`"),
    **dict.fromkeys(("--chdir", "--dir", "--directory"), "-C DIR runs as if started in DIR"),
    **dict.fromkeys(
        ("--environment", "--workspace", "--var-file", "--profile", "-e"),
        "--env NAME reads values/NAME.yaml",
    ),
    **dict.fromkeys(("--output", "--format", "-o"), "--json writes the result as JSON"),
    **dict.fromkeys(("--no-color", "--no-colour"), "set NO_COLOR=1"),
    **dict.fromkeys(("--include", "--only"), "--target GLOB plans some connectors only"),
    **dict.fromkeys(("--concurrency", "--workers"), "--parallelism N"),
    **dict.fromkeys(
        ("--url", "--bootstrap-server", "--server"), "connect.yaml says where the cluster is"
    ),
}
_EXTRA = re.compile(r"unexpected extra argument\(s\) \((.*)\)", re.DOTALL)
_NO_VERB = re.compile(r"No such command (['\"])(.*?)\1(?:\. Did you mean|$)", re.DOTALL)
_TERRAFORM = re.compile(r"-[a-z][a-z-]+(=.*)?", re.DOTALL)


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
            return f"{command} has no option {option}", "", _for_option(option, context)
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
    if matched := _NO_VERB.search(text):
        return f"{command} has no verb {matched[2]!r}", "", _for_verb(matched[2], context)
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


def _for_option(option: str, context: Any) -> str:
    name = option if option.startswith("--") or len(option) == 2 else f"-{option}"
    options = [] if context is None else _options_of(context)
    if name in options:
        return f"write it with two dashes: {name}"
    if name == "--json" and context is not None and context.parent is None:
        return "write it after the verb: `connect plan --json`"
    if name in _OPTIONS:
        return _OPTIONS[name]
    near = get_close_matches(name, [word for word in options if word.startswith("--")], 1)
    return f"did you mean {near[0]}?" if near else ""


def _for_verb(word: str, context: Any) -> str:
    hints = _VERBS if context.parent is None else _OFFSETS if context.info_name == "offsets" else {}
    if word.lower() in hints:
        return hints[word.lower()]
    near = get_close_matches(word, context.command.commands, 1)
    return f"did you mean `{context.command_path} {near[0]}`?" if near else ""


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
