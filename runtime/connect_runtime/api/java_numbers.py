"""Converts numbers as Java does: `Number.intValue()` and its like, and reading numbers from text.

Integers are cut to their low bits; fractions are cut off and limited to the type's range first.
Reading raises ValueError for what Java refuses.
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
# What `String.trim` removes
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
    value = _odd(value)
    try:
        found: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return found


def to_floats(values: Sequence[float]) -> list[float]:
    """Returns `to_float` of each value, which is much quicker than one by one."""
    return array("f", values).tolist()


def _odd(value: Number) -> float:
    """Returns the value as a number of 64 bits, whose last bit is set if digits were lost. It tells
    on which side of the middle between two numbers of 32 bits the value is."""
    double = to_double(value)
    if isinstance(value, float) or value == double or math.isinf(double):
        return double
    (bits,) = struct.unpack(">q", struct.pack(">d", double))
    if bits & 1:
        return double
    return math.nextafter(double, math.inf if value > double else -math.inf)


def between_floats(values: Sequence[float], rounded: Sequence[float]) -> bool:
    """Whether a value is in the middle between two numbers of 32 bits, so that digits which it has
    lost may decide between them. `rounded` is `to_floats` of the values."""
    others = [value + (value - near) for value, near in zip(values, rounded, strict=True)]
    rows = zip(others, to_floats(others), values, rounded, strict=True)
    return any(other == far and value != near for other, far, value, near in rows)


def parse_integer(text: str, bits: int) -> int:
    """`Integer.parseInt` and its like: digits after an optional sign, within the type's range."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f'For input string: "{text}"')
    value = int(text)
    if wrapped(value, bits) != value:
        raise ValueError(f'Value out of range: "{text}"')
    return value


def parse_double(text: str) -> float:
    """`Double.parseDouble`."""
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
    """`new BigDecimal(text)`."""
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
