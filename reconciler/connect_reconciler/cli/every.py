"""`--every`: how often a verb looks that goes on until it is interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, NoReturn, TypeVar

import typer

from connect_reconciler.cli.output import progress
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid

T = TypeVar("T")

Every = Annotated[
    str, typer.Option("--every", metavar="TIME", help="How often to look: 30s, 5min.")
]

_UNITS_S = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """`30s` as 30.0. Raises Invalid for what is no time, or less than 0.1 s."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = _UNITS_S.get(text[len(number) :] or "s")
    if unit is None or not number.replace(".", "", 1).isdecimal() or float(number) * unit < 0.1:
        hint = "write a number with s, min or h: 30s"
        raise Invalid(Diagnostic("usage", f"{text!r} is no time to wait", "--every", hint=hint))
    return float(number) * unit


def watch(look: Callable[[], T], pause_s: float, show: Callable[[T], None]) -> NoReturn:
    """Looks and shows what it found, again and again, until a signal comes. What stands in the way
    of a look, such as a Kafka that is away, is said; the next look may find more."""
    while True:
        try:
            found = look()
        except ConnectError as error:
            progress(f"cannot look now: {error}")
        else:
            show(found)
        time.sleep(pause_s)
