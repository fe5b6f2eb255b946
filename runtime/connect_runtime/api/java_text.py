"""Prints values as Java does (`String.valueOf`), for texts that reach users or records.

Used by Connect's error texts, StringConverter and the file sink. Numbers differ most: Java prints
`1.0E7` where Python prints `10000000.0`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any


def java_text(value: Any) -> str:
    """`String.valueOf(value)`. Bytes, which Java prints as an address, are shown as UTF-8."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{java_text(k)}={java_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(java_text, value)) + "]"
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    return str(value)


def java_double(value: float) -> str:
    """`Double.toString`: the shortest digits, scientific outside [1e-3, 1e7)."""
    text = repr(value)
    # within these limits, Python writes the same
    return text if 1e-3 <= abs(value) < 1e7 else _java_number(value, text)


def java_float(value: float) -> str:
    """`Float.toString`: the shortest digits that name the same 32-bit float."""
    if math.isnan(value) or math.isinf(value):
        return java_double(value)
    wanted = struct.pack(">f", value)
    text = next(
        t for t in (f"{value:.{d}g}" for d in range(1, 18)) if struct.pack(">f", float(t)) == wanted
    )
    return _java_number(value, text)


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
