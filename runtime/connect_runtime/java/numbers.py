"""Converts numbers as Java does: `Number.intValue()` and its like, and reading numbers from text.

Integers are cut to their low bits; fractions are cut off and limited to the type's range first.
Reading raises ValueError for texts that Java refuses.
"""

from __future__ import annotations

import math
import re
import struct
from array import array
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

Number = int | float | Decimal

_INTEGER: Final = re.compile(r"[+-]?\d+")
# Java's floating-point literals, with blanks around them
_FLOAT: Final = re.compile(
    r"[\x00-\x20]*[+-]?(?:NaN|Infinity"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
    r"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
    r")[\x00-\x20]*"
)
# `String.trim` removes these
BLANKS: Final = "".join(map(chr, range(0x21)))
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?")
_MOST_EXPONENT: Final = 2**31 - 1


def to_integer(value: Number, bits: int) -> int:
    """Returns the value as an integer of 8, 16, 32 or 64 bits."""
    if isinstance(value, float):
        # Java has no conversion from a fraction to less than 32 bits
        value = _limited(value, max(bits, 32))
    elif isinstance(value, Decimal) and int(value.as_tuple().exponent) >= 64:
        # its low 64 bits are 0, and writing it out could take all memory
        return 0
    return wrapped(int(value), bits)


def _limited(value: float, bits: int) -> int:
    if math.isnan(value):
        return 0
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if value <= low:
        return low
    return high if value >= high else int(value)


def wrapped(value: int, bits: int) -> int:
    """Returns the low `bits` of an integer, as a signed number."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def to_double(value: Number) -> float:
    """Returns the value as a number of 64 bits."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_float(value: Number) -> float:
    """Returns the value as a number of 32 bits."""
    value = _with_sticky_bit(value)
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def to_floats(values: Sequence[float]) -> list[float]:
    """Returns `to_float` of each value, which is much quicker than one by one."""
    return array("f", values).tolist()


def _with_sticky_bit(value: Number) -> float:
    """Returns the value as a number of 64 bits, whose last bit is set if digits were lost: the
    value is then still on its side of the middle between two numbers of 32 bits."""
    double = to_double(value)
    if isinstance(value, float) or value == double or math.isinf(double):
        return double
    (bits,) = struct.unpack(">q", struct.pack(">d", double))
    if bits & 1:
        return double
    return math.nextafter(double, math.inf if value > double else -math.inf)


def between_floats(values: Sequence[float], rounded: Sequence[float]) -> bool:
    """Returns True if a value is in the middle between two numbers of 32 bits, so that digits which
    it has lost may decide between them. `rounded` is `to_floats` of the values."""
    mirrored = [value + (value - near) for value, near in zip(values, rounded, strict=True)]
    rows = zip(mirrored, to_floats(mirrored), values, rounded, strict=True)
    return any(mirror == far and value != near for mirror, far, value, near in rows)


def parse_integer(text: str, bits: int) -> int:
    """Returns `Integer.parseInt(text)` and its like: digits after an optional sign, within the
    type's range."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f'For input string: "{text}"')
    value = int(text)
    if wrapped(value, bits) != value:
        raise ValueError(f'Value out of range: "{text}"')
    return value


def parse_double(text: str) -> float:
    """Returns `Double.parseDouble(text)`."""
    if _FLOAT.fullmatch(text) is None:
        raise ValueError(f'For input string: "{text}"')
    text = text.strip(BLANKS)
    if "x" in text or "X" in text:
        try:
            return float.fromhex(text.rstrip("fFdD") if "p" in text.lower() else text)
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return float(text.rstrip("fFdD"))


def parse_decimal(text: str) -> Decimal:
    """Returns `new BigDecimal(text)`."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(f"Not a decimal number: {text}")
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"Not a decimal number: {text}") from error
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _MOST_EXPONENT:
        raise ValueError(f"Not a decimal number: {text}")
    return value
