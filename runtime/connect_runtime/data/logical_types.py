"""Converts the logical types: dates and times to epoch milliseconds, Decimals to their digits.

Dates and times without a zone are UTC; parts of a millisecond are cut off. Decimals are never
rounded: Python's default is 28 digits. Large ones are refused: converting them takes time that
grows with the square of their length.
"""

from __future__ import annotations

import datetime as dt
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final, TypeAlias

from connect_runtime.api import DataError
from connect_runtime.java.scalars import java_class

DateOrTime: TypeAlias = dt.date | dt.time

MILLIS_PER_DAY: Final = 24 * 60 * 60 * 1000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)


def to_millis(value: DateOrTime) -> int:
    """Returns the milliseconds since the epoch; of a time, those since midnight."""
    if isinstance(value, dt.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1000 + value.microsecond // 1000
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=dt.UTC)
        return (value - _EPOCH) // _MILLISECOND
    return (value - _EPOCH.date()).days * MILLIS_PER_DAY


def from_millis(millis: int) -> dt.datetime:
    """Returns a timestamp. Raises `DataError` outside of the years 1 to 9999."""
    try:
        return _EPOCH + millis * _MILLISECOND
    except OverflowError as error:
        text = f"{millis} ms since the epoch is outside of the years 1 to 9999"
        raise DataError(text) from error


def date_of(millis: int) -> dt.date:
    """Returns the day in UTC. Raises `DataError` outside of the years 1 to 9999."""
    return from_millis(millis).date()


def time_of(millis: int) -> dt.time:
    """Returns the time of day in UTC."""
    return (_EPOCH + (millis % MILLIS_PER_DAY) * _MILLISECOND).time()


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
        actual = java_class(value, bits=8)
        raise DataError(f"Invalid type for Decimal, expected BigDecimal but was class {actual}")
    exponent = value.as_tuple().exponent
    if isinstance(exponent, str):
        raise DataError(f"{value} is not a number")
    return -exponent
