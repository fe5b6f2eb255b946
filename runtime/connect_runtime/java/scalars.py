"""Java's values: converts numbers as `Number.intValue()` and its like do, reads numbers from texts,
prints values (`String.valueOf`), takes texts apart, and names classes.

Integers are cut to their low bits; fractions are cut off and limited to the type's range first.
Reading raises ValueError for texts that Java refuses. Connect's error texts, StringConverter and
the file sink print: Java prints `1.0E7` where Python prints `10000000.0`. Dates are in UTC on every
machine.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from array import array
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

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


if TYPE_CHECKING:
    from connect_runtime.api.schema import Schema

_NORMAL: Final = 2.0**-126  # smaller numbers of 32 bits have fewer digits
MONTHS: Final = tuple(
    "January February March April May June July August September October November December".split()
)
WEEKDAYS: Final = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
_EPOCH: Final = dt.date(1970, 1, 1)
# half of a surrogate pair: its first byte never continues a character
_HALF: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)
_NAMES: Final[tuple[tuple[tuple[type[Any], ...], str], ...]] = (
    ((str,), "java.lang.String"),
    ((bool,), "java.lang.Boolean"),
    ((float,), "java.lang.Double"),
    ((bytes, bytearray, memoryview), "[B"),
    ((dict,), "java.util.HashMap"),
    ((list, tuple), "java.util.ArrayList"),
    ((Decimal,), "java.math.BigDecimal"),
    ((dt.date, dt.time), "java.util.Date"),
)
# The widest number that each class holds. Values without a schema are never narrower than a Long.
_INTEGERS: Final = ((8, "Byte"), (16, "Short"), (32, "Integer"), (64, "Long"))


def java_trim(text: str) -> str:
    """Returns `text.trim()`: without blanks and control characters around it. Other white space,
    such as a no-break space, stays."""
    return text.strip(BLANKS)


def java_list(text: str) -> list[str]:
    """Returns the entries of a config value of type LIST: the texts between commas, without the
    blanks around them."""
    trimmed = java_trim(text)
    return _COMMA.split(trimmed) if trimmed else []


def java_split(text: str, separator: str) -> list[str]:
    """Returns `text.split(separator)` for a single character: without empty entries at the end. A
    text that is empty is one entry."""
    entries = text.split(separator)
    while len(entries) > 1 and not entries[-1]:
        entries.pop()
    return entries if entries[0] or len(entries) > 1 or not text else []


def java_text(value: Any, schema: Schema | None = None) -> str:
    """Returns `String.valueOf(value)`. `schema` distinguishes floats of 32 bits from those of 64.
    Bytes, which Java prints as an address, become UTF-8."""
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
        return "[" + ", ".join(java_text(item, items) for item in value) + "]"
    if isinstance(value, bytes | bytearray):
        return java_utf8(bytes(value))
    if isinstance(value, dt.date | dt.time):
        return _java_date(value)
    return str(value)


def _java_date(value: dt.date | dt.time) -> str:
    """Returns `Date.toString()`. A time is one of the first day, a day begins at midnight."""
    time, date = dt.time(), _EPOCH
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC)
        time, date = utc.time(), utc.date()
    elif isinstance(value, dt.date):
        date = value
    else:
        time = value
    day = f"{WEEKDAYS[date.weekday()][:3]} {MONTHS[date.month - 1][:3]} {date.day:02}"
    return f"{day} {time:%H:%M:%S} UTC {date.year}"


def java_utf8(data: bytes) -> str:
    """Returns `new String(data, UTF_8)`, in which bytes that are no UTF-8 are replaced.

    Half of a surrogate pair, in three bytes, is one replaced character in Java and three in Python.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _HALF.sub(b"\xff", data).decode("utf-8", "replace")


def java_double(value: float) -> str:
    """Returns `Double.toString(value)` of Java 19 and later: the shortest digits, scientific
    outside [1e-3, 1e7). Earlier versions wrote more digits of some numbers."""
    text = repr(value)
    # within these limits, Python writes the same
    if 1e-3 <= abs(value) < 1e7 or value == 0:
        return text
    # of numbers that one digit names, Java writes the nearest two
    two_digits = f"{value:.1e}"
    return _java_number(value, two_digits if float(two_digits) == value else text)


def java_float(value: float) -> str:
    """Returns `Float.toString(value)` of Java 19 and later: the shortest digits that name the same
    32-bit float, in the form of `java_double`."""
    value = to_float(value)
    # numbers that fewer than 6 digits name end with zeros in 6, unless they have less than 24 bits
    texts = (f"{value:.{digits}e}" for digits in range(5 if abs(value) >= _NORMAL else 1, 9))
    return _java_number(value, next((t for t in texts if to_float(float(t)) == value), ""))


def _java_number(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, power = shortest.lstrip("-").lower().partition("e")
    integer, _, fraction = mantissa.partition(".")
    digits = (integer + fraction).lstrip("0")
    if not digits:
        return f"{sign}0.0"
    # value == 0.<digits> * 10**point
    leading_zeros = len(integer + fraction) - len(digits)
    point = len(integer) + int(power or 0) - leading_zeros
    digits = digits.rstrip("0") or "0"
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def java_class(value: Any, *, bits: int = 64) -> str:
    """Returns the name of the Java class that Connect would hold the value in. Integers are of the
    narrowest class that holds them and at least `bits` wide. A class can set its Java name as
    `java_class`."""
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool):
        for width, name in _INTEGERS:
            if width >= bits and -(1 << (width - 1)) <= value < 1 << (width - 1):
                return f"java.lang.{name}"
        return "java.math.BigInteger"
    for types, name in _NAMES:
        if isinstance(value, types):
            return name
    cls = type(value)
    return str(getattr(cls, "java_class", f"{cls.__module__}.{cls.__qualname__}"))
