"""Renders files as sandboxed Jinja2 templates over an environment's values.

Unknown names are errors. A diagnostic repeats names from the template's own text, never the values
behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sized
from functools import cache, lru_cache, partial
from types import TracebackType
from typing import Any

from jinja2 import (
    StrictUndefined,
    Template,
    TemplateRuntimeError,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
)
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.fields import did_you_mean
from connect_specs.text_files import BYTES_MAX, LINE_END
from connect_specs.values import ENV, Values

_MARK = re.compile(r"\{\{|\{%|\{#")
_LINE_MARK = re.compile("\ue000([0-9]+)\ue001")
# Jinja's name, in tracebacks, of a template without a file
_SOURCE = "<template>"


class _Missing(UndefinedError):
    """A name that does not exist in `owner`, or nowhere if that is Jinja's `missing`."""

    def __init__(self, name: object, owner: object, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.owner = owner


class _Unknown(StrictUndefined):
    """An undefined value that reports its name when it is used."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: Any = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        super().__init__(hint, obj, name, exc)
        if exc is UndefinedError:
            self._undefined_exception: Any = partial(_Missing, name, obj)


class _NotText(Exception):
    """The result of an expression cannot be written into a file."""


class _TooLong(Exception):
    """The rendered text is longer than a file may be."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2 that reads maps by their own keys first: `db.items` is the value, not the method.

    The results of `**` and `*` are limited: a huge calculation cannot be interrupted.
    """

    intercepted_binops = frozenset({"**", "*"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if _size(operator, left, right) > BYTES_MAX:
            raise OverflowError
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


class _LineMarks(Extension):
    """Puts its line number in front of each line of the template's own text."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for token in stream:
            if token.type != "data":
                yield token
                continue
            first, *lines = token.value.split("\n")
            marked = (f"\ue000{token.lineno + at}\ue001{line}" for at, line in enumerate(lines, 1))
            yield Token(token.lineno, token.type, "\n".join((first, *marked)))


def _size(operator: str, left: Any, right: Any) -> int:
    """Returns the bits or characters of the result, if there may be many."""
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() * right if operator == "**" else 0
    if isinstance(left, int):
        left, right = right, left
    return len(left) * right if isinstance(left, Sized) and isinstance(right, int) else 0


def render(text: str, file: str, values: Values) -> str:
    """Returns the text of a file with its templates rendered. Raises Invalid."""
    try:
        return _rendered(text, values)
    # any exception is a mistake in the template, also RecursionError and MemoryError
    except Exception as error:
        problem = _problem(error, text, file, values)
    raise Invalid(problem)


def source_lines(text: str, rendered: str, values: Values) -> tuple[int, ...]:
    """Returns, for each line of `rendered`, the line of `text` that it comes from.

    Empty if they are the same, or unknown because the template looks at its own text.
    """
    if "{%" not in text and text.count("\n") == rendered.count("\n"):
        return ()
    try:
        marked = _rendered(text, values, marking=True)
    except Exception:
        return ()
    if _LINE_MARK.sub("", marked) != rendered:
        return ()
    lines: list[int] = []
    for line in LINE_END.split(marked):
        mark = _LINE_MARK.match(line)
        lines.append(int(mark[1]) if mark else lines[-1] if lines else 1)
    return tuple(lines)


@cache
def _sandbox(*, marking: bool = False) -> _Sandbox:
    return _Sandbox(
        undefined=_Unknown,
        autoescape=False,
        keep_trailing_newline=True,
        finalize=_written,
        extensions=[_LineMarks] if marking else [],
    )


# A file with secret values is rendered twice in a row, and compiling is the slow part
@lru_cache(maxsize=4)
def _compiled(text: str, *, marking: bool) -> Template:
    return _sandbox(marking=marking).from_string(text)


def _written(value: object) -> object:
    """Returns the text that the file gets for the value of an expression."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float, Undefined)):
        return value
    raise _NotText


def _rendered(text: str, values: Values, *, marking: bool = False) -> str:
    pieces: list[str] = []
    length = 0
    for piece in _compiled(text, marking=marking).generate(values.names):
        length += len(piece)
        if length > BYTES_MAX:
            raise _TooLong
        pieces.append(piece)
    return "".join(pieces)


def _problem(error: Exception, text: str, file: str, values: Values) -> Diagnostic:
    if isinstance(error, TemplateSyntaxError):
        location = _place(text, file, error.lineno, None)
        reason = (error.message or "").rstrip(".")
        hint = "write {% raw %}...{% endraw %} around braces that are not a template"
        return Diagnostic(
            "template.syntax", "this is not a Jinja2 template", location, reason, hint
        )
    line = _line(error.__traceback__)
    if isinstance(error, _Missing):
        return _undefined(error, text, file, line, values)
    location = _place(text, file, line, None)
    if isinstance(error, _NotText):
        message, hint = "a list or a map cannot be written here", "use | join(',') or | tojson"
        return Diagnostic("template.not-text", message, location, hint=hint)
    if isinstance(error, _TooLong):
        message = f"the rendered text is larger than {BYTES_MAX // (1024 * 1024)} MiB"
        hint = "look for a loop that is too long, or split the file"
        return Diagnostic("template.too-large", message, Location(file), hint=hint)
    reason = type(error).__name__
    hint = "check the types of the values that this line uses"
    if isinstance(error, SecurityError):
        reason = "templates may only read values"
        hint = "remove the expression that changes or calls something"
    return Diagnostic("template.failed", "the template cannot be rendered", location, reason, hint)


def _undefined(error: _Missing, text: str, file: str, line: int, values: Values) -> Diagnostic:
    # a computed name may be a secret: only names in the template's text are repeated
    name = error.name if isinstance(error.name, str) and error.name in text else None
    message = "a name is not defined" if name is None else f"{name!r} is not defined"
    owner = values.names if error.owner is missing else error.owner
    names = sorted(map(str, owner)) if isinstance(owner, Mapping) else []
    hint = "use a name of values/default.yaml, or add this one"
    if names:
        hint = did_you_mean(name or "", names)
    if values.env is None and values.environments:
        choose = f"choose an environment: --env {'|'.join(values.environments)}"
        hint = choose if name == ENV or not hint else f"{hint} or {choose}"
    return Diagnostic("template.undefined", message, _place(text, file, line, name), hint=hint)


def _line(traceback: TracebackType | None) -> int:
    """Returns the line of the template that failed: Jinja puts it into the traceback."""
    line = 1
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _SOURCE:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _place(text: str, file: str, line: int, name: str | None) -> Location:
    """Returns the location of `name` in that line, else of its first template mark."""
    lines = LINE_END.split(text)
    content = lines[line - 1] if line <= len(lines) else ""
    mark = _MARK.search(content)
    start = mark.start() if mark else 0
    match = name and re.compile(rf"\b{re.escape(name)}\b").search(content, start)
    return Location(file, line, (match.start() if match else start) + 1)
