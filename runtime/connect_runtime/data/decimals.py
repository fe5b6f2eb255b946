"""Converts Decimals to their digits and back without rounding.

Python rounds to 28 digits, if it is not told otherwise. Large numbers are refused: converting them
takes time that grows with the square of their length.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

from connect_runtime.api import DataError
from connect_runtime.api.java_types import java_class

MOST_BYTES: Final = 4096  # about 10,000 digits
_MOST_DIGITS: Final = MOST_BYTES * 2
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def decimal_of(data: bytes, scale: int) -> Decimal:
    """Returns the number whose unscaled value these bytes are, big-endian, in two's complement.
    Raises DataError."""
    if not data:
        raise DataError("Zero length BigInteger")
    if len(data) > MOST_BYTES:
        raise DataError(f"A Decimal has {len(data)} bytes; {MOST_BYTES} are supported")
    return _scaled(int.from_bytes(data, "big", signed=True), scale)


def unscaled(value: Any, scale: int) -> int:
    """Returns the value times 10 to the power of the scale. Raises DataError unless that is a whole
    number."""
    places = _places(value)
    if max(value.adjusted(), 0) + scale > _MOST_DIGITS:
        raise _too_long()
    shifted = value.scaleb(scale, _EXACT)
    if shifted != shifted.to_integral_value():
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. Schema has scale"
            f" {scale}, value has scale {places}."
        )
    return int(shifted)


def decimal_text(value: Any, scale: int) -> str:
    """Returns a number with all its digits, and at least `scale` of them after the point; with an
    exponent where Java's `BigDecimal.toString` has one, as in 0E-8. Raises DataError."""
    places = max(_places(value), scale)
    if value.adjusted() > _MOST_DIGITS:
        raise _too_long()
    return str(_scaled(unscaled(value, places), places))


def data_of(number: int) -> bytes:
    """Returns the shortest bytes of a number, big-endian, in two's complement."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _too_long() -> DataError:
    return DataError(f"A Decimal has more than {_MOST_DIGITS} digits")


def _scaled(number: int, scale: int) -> Decimal:
    return Decimal(number).scaleb(-scale, _EXACT)


def _places(value: Any) -> int:
    """Returns how many digits are after the point, which is negative for 1E+2."""
    if not isinstance(value, Decimal):
        found = java_class(value, bits=8)
        raise DataError(f"Invalid type for Decimal, expected BigDecimal but was class {found}")
    exponent = value.as_tuple().exponent
    if isinstance(exponent, str):
        raise DataError(f"{value} is not a number")
    return -exponent
