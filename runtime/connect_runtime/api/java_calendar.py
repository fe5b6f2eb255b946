"""Java's calendar in UTC: Gregorian from 15 October 1582, Julian before, and lenient with fields.

Days are counted from 1 January 1970. Year 0 is 1 BC. `datetime` has neither the Julian calendar nor
years beyond 1 to 9999, and does not take the 13th month for January of the next year.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MILLIS_PER_DAY: Final = 24 * 60 * 60 * 1000
# 15 October 1582
_CUTOVER: Final = -141427
_CUTOVER_YEAR: Final = 1582
# days between 1 March of year 0 and the epoch
_GREGORIAN: Final = 719468
_JULIAN: Final = 719470


class Day(NamedTuple):
    """A day. `month` and `day` begin with 1, `weekday` is 0 for Monday."""

    year: int
    month: int
    day: int
    weekday: int
    day_of_year: int


def day_of(days: int) -> Day:
    """Returns a day since the epoch."""
    if days >= _CUTOVER:
        era, left = divmod(days + _GREGORIAN, 146097)
        year_of_era = (left - left // 1460 + left // 36524 - left // 146096) // 365
        year = year_of_era + era * 400
        day_of_march_year = left - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    else:
        era, left = divmod(days + _JULIAN, 1461)
        year_of_era = min(left // 365, 3)
        year = year_of_era + era * 4
        day_of_march_year = left - 365 * year_of_era
    shifted = (5 * day_of_march_year + 2) // 153
    day = day_of_march_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year += month <= 2
    return Day(year, month, day, (days + 3) % 7, days - days_since_epoch(year, 1, 1) + 1)


def days_since_epoch(year: int, month: int, day: int) -> int:
    """Returns the days since the epoch. Months and days may be out of range; the calendar of an
    earlier year then goes on."""
    is_early = year < _CUTOVER_YEAR
    over, month = divmod(month - 1, 12)
    year += over
    found = _days(year, month + 1, _GREGORIAN, gregorian=True) + day - 1
    if found >= _CUTOVER and not is_early:
        return found
    return _days(year, month + 1, _JULIAN, gregorian=False) + day - 1


def _days(year: int, month: int, offset: int, *, gregorian: bool) -> int:
    year -= month <= 2
    day_of_march_year = (153 * ((month + 9) % 12) + 2) // 5
    centuries = year // 400 - year // 100 if gregorian else 0
    return 365 * year + year // 4 + centuries + day_of_march_year - offset
