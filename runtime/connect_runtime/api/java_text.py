"""Prints values as Java does (`String.valueOf`), for texts that reach users or records, and takes
texts apart as Java does.

Used by Connect's error texts, StringConverter and the file sink. Numbers differ most: Java prints
`1.0E7` where Python prints `10000000.0`. Dates are in UTC, whatever the machine's time zone is.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from connect_runtime.api.java_calendar import day_of
from connect_runtime.api.java_numbers import BLANKS, to_float
from connect_runtime.api.java_utf8 import java_utf8

if TYPE_CHECKING:
    from connect_runtime.api.schema import Schema

_NORMAL: Final = 2.0**-126  # smaller numbers of 32 bits have fewer digits
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_EPOCH: Final = dt.date(1970, 1, 1)
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)


def java_trim(text: str) -> str:
    """`String.trim`: without blanks and control characters around it. Other white space, such as a
    no-break space, stays."""
    return text.strip(BLANKS)


def java_list(text: str) -> list[str]:
    """The entries of a config value of type LIST: what is between commas and the blanks around
    them."""
    trimmed = java_trim(text)
    return _COMMA.split(trimmed) if trimmed else []


def java_text(value: Any, schema: Schema | None = None) -> str:
    """`String.valueOf(value)` of a value of `schema`, which tells floats of 32 bits from others.
    Bytes, which Java prints as an address, are shown as UTF-8."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_float = schema is not None and schema.type.name == "FLOAT32"
        return java_float(value) if is_float else java_double(value)
    if isinstance(value, Mapping):
        keys, items = (None, None) if schema is None else (schema.keys, schema.values)
        entries = (f"{java_text(k, keys)}={java_text(v, items)}" for k, v in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        items = None if schema is None else schema.items
        return "[" + ", ".join(java_text(each, items) for each in value) + "]"
    if isinstance(value, bytes | bytearray):
        return java_utf8(bytes(value))
    if isinstance(value, dt.date | dt.time):
        return _java_date(value)
    return str(value)


def _java_date(value: dt.date | dt.time) -> str:
    """`Date.toString`. A time is one of the first day, a day begins at midnight."""
    time, date = dt.time(), _EPOCH
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC)
        time, date = utc.time(), utc.date()
    elif isinstance(value, dt.date):
        date = value
    else:
        time = value
    day = day_of((date - _EPOCH).days)
    return (
        f"{_WEEKDAYS[day.weekday]} {_MONTHS[day.month - 1]} {day.day:02}"
        f" {time:%H:%M:%S} UTC {day.year}"
    )


def java_double(value: float) -> str:
    """`Double.toString` of Java 19 and later: the shortest digits, scientific outside [1e-3, 1e7).
    Before, Java wrote more digits of some numbers, such as 1.9999999999999998E23."""
    text = repr(value)
    # within these limits, Python writes the same
    if 1e-3 <= abs(value) < 1e7 or value == 0:
        return text
    # of numbers that one digit names, Java writes the nearest two
    two = f"{value:.1e}"
    return _java_number(value, two if float(two) == value else text)


def java_float(value: float) -> str:
    """`Float.toString` of Java 19 and later: the shortest digits that name the same 32-bit float,
    in the form of `java_double`."""
    value = to_float(value)
    # what fewer than 6 digits name ends with zeros in 6, but for numbers of less than 24 bits
    texts = (f"{value:.{digits}e}" for digits in range(5 if abs(value) >= _NORMAL else 1, 9))
    return _java_number(value, next((t for t in texts if to_float(float(t)) == value), ""))


def _java_number(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, power = shortest.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0.0"
    # value == 0.<digits> * 10**point
    leading_zeros = len(whole + fraction) - len(digits)
    point = len(whole) + int(power or 0) - leading_zeros
    digits = digits.rstrip("0") or "0"
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
