"""Texts of errors are those that Python prints, also when the same stack was printed before."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import orjson
import pytest

from connect_runtime.api import ConfigError, DataError
from connect_runtime.traces import trace_text
from connect_specs.diagnostics import Diagnostic, Unreachable
from connect_specs.secrets import Redactor


def fails(number: int) -> None:
    raise ValueError(f"number {number}")


def causes(number: int) -> None:
    try:
        fails(number)
    except ValueError as error:
        raise LookupError(f"because of {number}") from error


def during(number: int) -> None:
    try:
        causes(number)
    except LookupError:
        fails(-number)


def hides(number: int) -> None:
    try:
        fails(number)
    except ValueError:
        raise KeyError("alone") from None


def notes(number: int) -> None:
    error = OSError(number, "two\nlines")
    error.add_note("a note")
    raise error


def circular(number: int) -> None:
    first, second = ValueError(f"first {number}"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def grouped(number: int) -> None:
    raise ExceptionGroup("several", [ValueError(number), KeyError(number)])


def never_raised(number: int) -> None:
    raise ValueError("raised") from KeyError("not raised")


class Unspeakable(ValueError):
    def __str__(self) -> str:
        raise RuntimeError


def unspeakable(number: int) -> None:
    raise Unspeakable(number)


def of_connect(number: int) -> None:
    try:
        raise DataError("")
    except DataError as error:
        raise ConfigError.invalid("key", number) from error


def of_json(number: int) -> None:
    orjson.loads("{" * number)


def of_unicode(number: int) -> None:
    (b"\xff" * number).decode()


def deep(number: int, left: int = 20) -> None:
    deep(number, left - 1) if left else fails(number)


@pytest.mark.parametrize(
    "fail",
    [
        fails, causes, during, hides, notes, circular, grouped, never_raised, deep, unspeakable,
        of_connect, of_json, of_unicode,
    ],
)  # fmt: skip
def test_a_trace_is_that_of_python(fail: Callable[[int], None]) -> None:
    for number in (1, 2):
        with pytest.raises(Exception) as found:
            fail(number)
        error = found.value
        expected = "".join(traceback.format_exception(error)).rstrip()
        assert trace_text(error, Redactor()) == expected


def test_a_trace_says_why() -> None:
    """The text of an error is what happened; a right that is missing is its reason."""

    def refused() -> None:
        raise Unreachable(Diagnostic("x", "The topic cannot be read", "t", "Broker: not allowed"))

    with pytest.raises(Unreachable) as found:
        refused()
    last = trace_text(found.value, Redactor()).splitlines()[-1]
    assert last.endswith("Unreachable: t: The topic cannot be read (Broker: not allowed)")
