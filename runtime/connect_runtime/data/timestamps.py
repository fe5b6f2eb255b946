"""Converts dates and times to epoch milliseconds, which is what Connect's are, and back.

Without a zone they are UTC. Parts of a millisecond are cut off.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, TypeAlias

from connect_runtime.api import DataError

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
        raise _out_of_range(millis) from error


def date_of(millis: int) -> dt.date:
    """Returns the day in UTC. Raises `DataError` outside of the years 1 to 9999."""
    return from_millis(millis).date()


def time_of(millis: int) -> dt.time:
    """Returns the time of day in UTC."""
    return (_EPOCH + (millis % MILLIS_PER_DAY) * _MILLISECOND).time()


def _out_of_range(millis: int) -> DataError:
    return DataError(f"{millis} ms since the epoch is outside of the years 1 to 9999")
