"""Renders an exception as text for statuses, logs and reports, with secrets redacted.

Python reads source files and parses their lines for each stack that it prints. While records fail,
the same stack is printed again and again, so its text is kept.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from types import CodeType, TracebackType
from typing import Final

from connect_runtime.api import ConnectorError
from connect_specs.diagnostics import ConnectError
from connect_specs.secrets import Redactor

_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"
_STACKS: Final = 256
_OWN_JVM: Final = "This task shares no JVM on this node until its config changes"


class JavaError(ConnectorError):
    """An exception of a Java plugin or of Connect. `type` is its class, `text` its message,
    `status` the HTTP status of Apache's worker, `trace` the stack trace."""

    def __init__(self, type: str, text: str, status: int, trace: str) -> None:
        super().__init__(f"{type}: {text}")
        self.type = type
        self.text = text
        self.status = status
        self.trace = trace


def own_jvm_trace(reason: str) -> str:
    """Returns the trace of a task that has ended a JVM, and shares none since."""
    return f"{_OWN_JVM}, as it was alone in one that ended: {reason}"


def names_own_jvm(trace: str | None) -> bool:
    """Returns whether a task that has ended a JVM has this trace."""
    return trace is not None and _OWN_JVM in trace


def trace_text(error: BaseException, redactor: Redactor) -> str:
    """Returns the traceback with causes and contexts, redacted; of a Java exception its own."""
    if isinstance(error, JavaError):
        return redactor.redact(error.trace.rstrip())
    return redactor.redact(_formatted(error).rstrip())


def _formatted(error: BaseException) -> str:
    """Returns the text of `traceback.format_exception`, with the reasons of Connect's errors."""
    texts: list[str] = []
    formatted: set[int] = set()
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, BaseExceptionGroup):
            return "".join(traceback.format_exception(error))
        formatted.add(id(current))
        texts[:0] = [_stack_text(current.__traceback__), *_last_lines(current)]
        cause = current.__cause__
        context = None if current.__suppress_context__ else current.__context__
        if cause is not None and id(cause) not in formatted:
            texts.insert(0, _CAUSE)
            current = cause
        elif context is not None and id(context) not in formatted:
            texts.insert(0, _CONTEXT)
            current = context
        else:
            current = None
    return "".join(texts)


def _last_lines(error: BaseException) -> Iterable[str]:
    """Returns the lines of `traceback.format_exception_only`, which takes its time for errors that
    are not of syntax and the like; with the reason, if the error has one."""
    cls, text = type(error), ""
    kinds = ConnectorError | ConnectError | ValueError
    simple = isinstance(error, kinds) and not hasattr(error, "__notes__")
    if simple:
        try:
            text = str(error)
            if isinstance(error, ConnectError) and error.why:
                text += f" ({error.why})"
        except Exception:
            simple = False
    if not simple:
        return traceback.format_exception_only(error)
    name = cls.__qualname__
    if cls.__module__ not in ("builtins", "__main__"):
        name = f"{cls.__module__}.{name}"
    return (f"{name}: {text}\n" if text else f"{name}\n",)


class _Stacks:
    """Texts of stacks, by their calls."""

    def __init__(self) -> None:
        self._texts: dict[tuple[tuple[CodeType, int], ...], str] = {}

    def __call__(self, stack: TracebackType | None) -> str:
        key = tuple(_calls(stack))
        text = self._texts.get(key)
        if text is None:
            head = "Traceback (most recent call last):\n" if key else ""
            text = head + "".join(traceback.format_tb(stack))
            if len(self._texts) >= _STACKS:
                self._texts.clear()
            self._texts[key] = text
        return text


_stack_text = _Stacks()


def _calls(stack: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    while stack is not None:
        yield stack.tb_frame.f_code, stack.tb_lasti
        stack = stack.tb_next
