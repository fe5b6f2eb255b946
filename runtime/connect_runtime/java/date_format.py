"""Formats and parses times by the patterns of Java's SimpleDateFormat, in UTC and English.

Weeks are refused: they depend on the locale of the Java VM. Parsing is lenient, as Java's is by
default: the 32nd of January is the 1st of February. The calendar is the Gregorian one at all times,
as in `datetime`, but with years beyond 1 to 9999; Java's is the Julian one before 15 October 1582.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_runtime.java.scalars import MONTHS, WEEKDAYS, to_integer, wrapped

_MILLIS_PER_DAY: Final = 24 * 60 * 60 * 1000
_EPOCH: Final = dt.date(1970, 1, 1)
# the calendar repeats itself after 400 years
_YEARS_OF_CYCLE: Final = 400
_DAYS_OF_CYCLE: Final = 146097
_LETTERS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
_OF_WEEKS: Final = "wWYF"
# Fields of digits: directly followed by such a field, a number is as long as its letters.
_NUMBERS: Final = "ydkHmsSDFKhu"
_ERAS: Final = {"BC": 0, "AD": 1, "Before Christ": 0, "Anno Domini": 1}
_AM_PM: Final = {"AM": 0, "PM": 1}
_UTC_NAMES: Final = ("Coordinated Universal Time", "UTC")
_INTEGER: Final = re.compile(r"-?\d+")
_OFFSETS: Final = {
    "Z": re.compile(r"(\d{2})(\d{2})"),
    "GMT": re.compile(r"(\d{1,2}):(\d{2})"),
    "X": re.compile(r"(\d{2})"),
    "XX": re.compile(r"(\d{2})(\d{2})"),
    "XXX": re.compile(r"(\d{2}):(\d{2})"),
}


class InvalidDateFormat(ValueError):
    """Raised for a pattern that Java refuses or that is not supported here."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Fixed text, or `count` times a letter."""

    text: str = ""
    letter: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time to format: `year` (0 is 1 BC), a `date` of a year like it, and the day's `millis`."""

    year: int
    date: dt.date
    millis: int

    @classmethod
    def of(cls, millis: int) -> _Moment:
        days, of_day = divmod(millis, _MILLIS_PER_DAY)
        cycles, day = divmod(days, _DAYS_OF_CYCLE)
        date = _EPOCH + dt.timedelta(days=day)
        return cls(date.year + cycles * _YEARS_OF_CYCLE, date, of_day)

    @property
    def hour(self) -> int:
        return self.millis // 3_600_000


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Returns the days since 1970. Months and days may be out of range."""
    years, month = divmod(month - 1, 12)
    cycles, year = divmod(year + years - _EPOCH.year, _YEARS_OF_CYCLE)
    first = dt.date(_EPOCH.year + year, month + 1, 1)
    return (first - _EPOCH).days + cycles * _DAYS_OF_CYCLE + day - 1


class SimpleDateFormat:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """Raises `InvalidDateFormat`."""
        self.pattern = pattern
        self._pieces = _compiled(pattern)
        # two digits of a year mean one from 80 years ago to 20 years ahead
        today = dt.datetime.now(dt.UTC)
        self._century_start_year = today.year - 80
        days = _days_since_epoch(self._century_start_year, today.month, today.day)
        seconds = (today.hour * 60 + today.minute) * 60 + today.second
        self._century_start = days * _MILLIS_PER_DAY + seconds * 1000

    def format(self, millis: int) -> str:
        """Returns the text of a time in milliseconds since the epoch."""
        moment = _Moment.of(millis)
        return "".join(
            _FORMATS[p.letter](moment, p.count) if p.letter else p.text for p in self._pieces
        )

    def parse(self, text: str) -> int:
        """Returns the milliseconds since the epoch of a text, of which the end may be ignored.
        Raises ValueError."""
        fields = _Fields(self._century_start_year)
        at = 0
        for i, piece in enumerate(self._pieces):
            if not piece.letter:
                if not text.startswith(piece.text, at):
                    raise _unparseable(text)
                at += len(piece.text)
            else:
                following = self._pieces[i + 1] if i + 1 < len(self._pieces) else _Piece()
                at = fields.read(text, at, piece, exactly=_is_number(following))
        if at == 0:
            raise _unparseable(text)
        millis = fields.millis()
        if fields.ambiguous_year and millis < self._century_start:
            fields.values["y"] += 100
            millis = fields.millis()
        return millis


def _is_number(piece: _Piece) -> bool:
    if piece.letter and piece.letter in "ML":
        return piece.count <= 2
    return bool(piece.letter) and piece.letter in _NUMBERS


def _unparseable(text: str) -> ValueError:
    return ValueError(f'Unparseable date: "{text}"')


# compiling


def _compiled(pattern: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    literal = ""
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            quoted, at = _quoted(pattern, at)
            literal += quoted
        elif letter.isascii() and letter.isalpha():
            if literal:
                pieces.append(_Piece(literal))
                literal = ""
            end = at
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            pieces.append(_field(letter, end - at))
            at = end
        else:
            literal += letter
            at += 1
    return [*pieces, _Piece(literal)] if literal else pieces


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """Returns the text between single quotes and its end. Two quotes are one in the text, and
    outside of a text as well."""
    if pattern.startswith("''", start):
        return "'", start + 2
    quoted, at = "", start + 1
    while at < len(pattern):
        if pattern.startswith("''", at):
            quoted += "'"
            at += 2
        elif pattern[at] == "'":
            return quoted, at + 1
        else:
            quoted += pattern[at]
            at += 1
    raise InvalidDateFormat("Unterminated quote")


def _field(letter: str, count: int) -> _Piece:
    if letter not in _LETTERS:
        raise InvalidDateFormat(f"Illegal pattern character '{letter}'")
    if letter == "X" and count > 3:
        raise InvalidDateFormat(f"invalid ISO 8601 format: length={count}")
    if letter in _OF_WEEKS:
        raise InvalidDateFormat(
            f"'{letter}' is not supported here: weeks depend on the locale of a Java VM"
        )
    return _Piece(letter=letter, count=count)


# formatting


def _padded(value: int, count: int) -> str:
    return str(value).zfill(count)


def _year(moment: _Moment, count: int) -> str:
    year = moment.year if moment.year > 0 else 1 - moment.year
    return _padded(year % 100, 2) if count == 2 else _padded(year, count)


def _month(moment: _Moment, count: int) -> str:
    month = moment.date.month
    if count <= 2:
        return _padded(month, count)
    name = MONTHS[month - 1]
    return name if count > 3 else name[:3]


def _weekday(moment: _Moment, count: int) -> str:
    name = WEEKDAYS[moment.date.weekday()]
    return name if count > 3 else name[:3]


def _number(field: Callable[[_Moment], int]) -> Callable[[_Moment, int], str]:
    return lambda moment, count: _padded(field(moment), count)


_FORMATS: Final[Mapping[str, Callable[[_Moment, int], str]]] = {
    "G": lambda m, n: "AD" if m.year > 0 else "BC",
    "y": _year,
    "M": _month,
    "L": _month,
    "d": _number(lambda m: m.date.day),
    "D": _number(lambda m: m.date.timetuple().tm_yday),
    "E": _weekday,
    "u": _number(lambda m: m.date.weekday() + 1),
    "a": lambda m, n: "AM" if m.hour < 12 else "PM",
    "H": _number(lambda m: m.hour),
    "k": _number(lambda m: m.hour or 24),
    "K": _number(lambda m: m.hour % 12),
    "h": _number(lambda m: m.hour % 12 or 12),
    "m": _number(lambda m: m.millis // 60_000 % 60),
    "s": _number(lambda m: m.millis // 1000 % 60),
    "S": _number(lambda m: m.millis % 1000),
    "z": lambda m, n: _UTC_NAMES[0] if n > 3 else _UTC_NAMES[1],
    "Z": lambda m, n: "+0000",
    "X": lambda m, n: "Z",
}


# parsing


@dataclass(slots=True)
class _Fields:
    """Fields that were read. Of fields that exclude each other the last one counts, so their order
    is kept."""

    century_start_year: int
    values: dict[str, int] = field(default_factory=dict)
    ambiguous_year: bool = False

    def read(self, text: str, start: int, piece: _Piece, *, exactly: bool) -> int:
        """Reads one field and returns where it ends. `exactly`: not more than its letters."""
        at = start
        while text[at : at + 1] in (" ", "\t") and at < len(text):
            at += 1
        if at >= len(text):
            raise _unparseable(text)
        match piece.letter:
            case "M" | "L" if piece.count > 2:
                return self._name("M", text, start, {n: i + 1 for i, n in enumerate(MONTHS)})
            case "E":
                return self._name("E", text, start, {n: i for i, n in enumerate(WEEKDAYS)})
            case "G":
                return self._name("G", text, start, _ERAS)
            case "a":
                return self._name("a", text, start, _AM_PM)
            case "z" | "Z" | "X":
                return self._zone(text, at, piece)
            case _:
                limit = start + piece.count if exactly else len(text)
                if limit > len(text):
                    raise _unparseable(text)
                return self._number(text, at, limit, piece)

    def _number(self, text: str, at: int, limit: int, piece: _Piece) -> int:
        match = _INTEGER.match(text, at, limit)
        if match is None:
            raise _unparseable(text)
        number = int(match[0])
        fits = -(1 << 63) <= number < 1 << 63
        value = to_integer(number if fits else float(number), 32)
        letter = piece.letter
        if letter == "y" and piece.count <= 2 and re.fullmatch(r"\d\d", match[0]):
            value = self._year_of_two_digits(value)
        self._set(letter, value)
        return match.end()

    def _year_of_two_digits(self, value: int) -> int:
        century, first = divmod(self.century_start_year, 100)
        self.ambiguous_year = value == first
        return value + century * 100 + (100 if value < first else 0)

    def _set(self, letter: str, value: int) -> None:
        if letter == "k":
            letter, value = "H", 0 if value == 24 else value
        elif letter == "h":
            letter, value = "K", 0 if value == 12 else value
        elif letter == "u":
            letter, value = "E", value - 1
        elif letter == "L":
            letter = "M"
        self.values.pop(letter, None)
        self.values[letter] = value

    def _name(self, letter: str, text: str, at: int, names: Mapping[str, int]) -> int:
        lower = text[at:].lower()
        values = dict(names)
        if letter in "ME":
            values |= {name[:3]: value for name, value in names.items()}
        for name in sorted(values, key=len, reverse=True):
            if lower.startswith(name.lower()):
                self._set(letter, values[name])
                return at + len(name)
        raise _unparseable(text)

    def _zone(self, text: str, at: int, piece: _Piece) -> int:
        iso = piece.letter == "X"
        if iso and text[at] == "Z":
            self._set("zone", 0)
            return at + 1
        if text[at] in "+-":
            return self._offset(text, at, "X" * piece.count if iso else "Z")
        lower = text[at:].lower()
        if not iso and lower.startswith("gmt"):
            if text[at + 3 : at + 4] in ("+", "-"):
                return self._offset(text, at + 3, "GMT")
            self._set("zone", 0)
            return at + 3
        for name in _UTC_NAMES:
            if not iso and lower.startswith(name.lower()):
                self._set("zone", 0)
                return at + len(name)
        raise _unparseable(text)

    def _offset(self, text: str, at: int, form: str) -> int:
        match = _OFFSETS[form].match(text, at + 1)
        if match is None:
            raise _unparseable(text)
        hours, minutes = int(match[1]), int(match[2]) if match.re.groups > 1 else 0
        if hours > 23 or minutes > 59:
            raise _unparseable(text)
        sign = -1 if text[at] == "-" else 1
        self._set("zone", sign * (hours * 60 + minutes) * 60_000)
        return match.end()

    def millis(self) -> int:
        """Returns the time of the fields; those that lack are as in the first moment of 1970."""
        values = self.values
        seconds = (self._hours() * 60 + values.get("m", 0)) * 60 + values.get("s", 0)
        more_days, of_day = divmod(seconds * 1000 + values.get("S", 0), _MILLIS_PER_DAY)
        days = self._days(more_days)
        return wrapped(days * _MILLIS_PER_DAY + of_day - values.get("zone", 0), 64)

    def _hours(self) -> int:
        values = self.values
        order = list(values)
        of_half_day = max((order.index(f) for f in "Ka" if f in values), default=-1)
        is_half_day = "K" in values and "a" in values
        if "H" in values and (order.index("H") > of_half_day or not is_half_day):
            return values["H"]
        return values.get("K", 0) + 12 * values.get("a", 0)

    def _days(self, more: int) -> int:
        values = self.values
        year = values.get("y", 1970)
        if values.get("G") == 0:
            year = 1 - year
        order = list(values)
        if "D" in values and ("d" not in values or order.index("D") > order.index("d")):
            return _days_since_epoch(year, 1, values["D"] + more)
        first = _days_since_epoch(year, values.get("M", 1), 1)
        if "d" not in values and "E" in values:
            # a weekday alone is the first one of its month; 1 January 1970 is a Thursday
            return first + (values["E"] - first - 3) % 7 + more
        return first + values.get("d", 1) - 1 + more
