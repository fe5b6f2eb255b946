"""Formats and parses times by the patterns of Java's SimpleDateFormat, in UTC and English.

What depends on the locale of the Java VM is refused: weeks begin on different days. Parsing is
lenient, as Java's is by default: the 32nd of January is the 1st of February.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_runtime.api.java_calendar import (
    MILLIS_PER_DAY,
    Day,
    day_of,
    days_since_epoch,
)
from connect_runtime.api.java_numbers import to_integer, wrapped

_LETTERS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
_OF_WEEKS: Final = "wWYF"
# Fields of digits: with one of them right behind it, a number is as long as the letters before it.
_NUMBERS: Final = "ydkHmsSDFKhu"
_MONTHS: Final = tuple(
    "January February March April May June July August September October November December".split()
)
_WEEKDAYS: Final = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
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
    """The pattern is not one of Java's, or not supported here; the text says which."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Fixed text, or `count` times a letter."""

    text: str = ""
    letter: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time to format. `millis` are those of the day."""

    day: Day
    millis: int

    @property
    def hour(self) -> int:
        return self.millis // 3_600_000


class SimpleDateFormat:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """Raises `InvalidDateFormat`."""
        self.pattern = pattern
        self._pieces = _compiled(pattern)
        # two digits of a year mean one from 80 years ago to 20 years ahead
        now = dt.datetime.now(dt.UTC)
        self._century_start_year = now.year - 80
        days = days_since_epoch(self._century_start_year, now.month, now.day)
        seconds = (now.hour * 60 + now.minute) * 60 + now.second
        self._century_start = days * MILLIS_PER_DAY + seconds * 1000

    def format(self, millis: int) -> str:
        """Returns the text of a time in milliseconds since the epoch."""
        days, of_day = divmod(millis, MILLIS_PER_DAY)
        moment = _Moment(day_of(days), of_day)
        return "".join(
            _FORMATS[p.letter](moment, p.count) if p.letter else p.text for p in self._pieces
        )

    def parse(self, text: str) -> int:
        """Returns the milliseconds since the epoch of a text, of which the end may be ignored.
        Raises ValueError."""
        found = _Fields(self._century_start_year)
        at = 0
        for i, piece in enumerate(self._pieces):
            if not piece.letter:
                if not text.startswith(piece.text, at):
                    raise _unparseable(text)
                at += len(piece.text)
            else:
                following = self._pieces[i + 1] if i + 1 < len(self._pieces) else _Piece()
                at = found.read(text, at, piece, exactly=_is_number(following))
        if at == 0:
            raise _unparseable(text)
        millis = found.millis()
        if found.ambiguous_year and millis < self._century_start:
            found.values["y"] += 100
            millis = found.millis()
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
    """Returns the text between single quotes, and where it ends. Two quotes are one in the text,
    and outside of a text as well."""
    if pattern.startswith("''", start):
        return "'", start + 2
    found, at = "", start + 1
    while at < len(pattern):
        if pattern.startswith("''", at):
            found += "'"
            at += 2
        elif pattern[at] == "'":
            return found, at + 1
        else:
            found += pattern[at]
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
    year = moment.day.year if moment.day.year > 0 else 1 - moment.day.year
    return _padded(year % 100, 2) if count == 2 else _padded(year, count)


def _month(moment: _Moment, count: int) -> str:
    month = moment.day.month
    if count <= 2:
        return _padded(month, count)
    name = _MONTHS[month - 1]
    return name if count > 3 else name[:3]


def _weekday(moment: _Moment, count: int) -> str:
    name = _WEEKDAYS[moment.day.weekday]
    return name if count > 3 else name[:3]


def _number(read: Callable[[_Moment], int]) -> Callable[[_Moment, int], str]:
    return lambda moment, count: _padded(read(moment), count)


_FORMATS: Final[Mapping[str, Callable[[_Moment, int], str]]] = {
    "G": lambda m, n: "AD" if m.day.year > 0 else "BC",
    "y": _year,
    "M": _month,
    "L": _month,
    "d": _number(lambda m: m.day.day),
    "D": _number(lambda m: m.day.day_of_year),
    "E": _weekday,
    "u": _number(lambda m: m.day.weekday + 1),
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
                return self._name("M", text, start, {n: i + 1 for i, n in enumerate(_MONTHS)})
            case "E":
                return self._name("E", text, start, {n: i for i, n in enumerate(_WEEKDAYS)})
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
        found = _INTEGER.match(text, at, limit)
        if found is None:
            raise _unparseable(text)
        number = int(found[0])
        fits = -(1 << 63) <= number < 1 << 63
        value = to_integer(number if fits else float(number), 32)
        letter = piece.letter
        if letter == "y" and piece.count <= 2 and re.fullmatch(r"\d\d", found[0]):
            value = self._year_of_two_digits(value)
        self._set(letter, value)
        return found.end()

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
        given = text[at:].lower()
        every = dict(names)
        if letter in "ME":
            every |= {name[:3]: value for name, value in names.items()}
        for name in sorted(every, key=len, reverse=True):
            if given.startswith(name.lower()):
                self._set(letter, every[name])
                return at + len(name)
        raise _unparseable(text)

    def _zone(self, text: str, at: int, piece: _Piece) -> int:
        iso = piece.letter == "X"
        if iso and text[at] == "Z":
            self._set("zone", 0)
            return at + 1
        if text[at] in "+-":
            return self._offset(text, at, "X" * piece.count if iso else "Z")
        rest = text[at:].lower()
        if not iso and rest.startswith("gmt"):
            if text[at + 3 : at + 4] in ("+", "-"):
                return self._offset(text, at + 3, "GMT")
            self._set("zone", 0)
            return at + 3
        for name in _UTC_NAMES:
            if not iso and rest.startswith(name.lower()):
                self._set("zone", 0)
                return at + len(name)
        raise _unparseable(text)

    def _offset(self, text: str, at: int, form: str) -> int:
        found = _OFFSETS[form].match(text, at + 1)
        if found is None:
            raise _unparseable(text)
        hours, minutes = int(found[1]), int(found[2]) if found.re.groups > 1 else 0
        if hours > 23 or minutes > 59:
            raise _unparseable(text)
        sign = -1 if text[at] == "-" else 1
        self._set("zone", sign * (hours * 60 + minutes) * 60_000)
        return found.end()

    def millis(self) -> int:
        """Returns the time of the fields, those that lack as in the first moment of 1970."""
        given = self.values
        seconds = (self._hours() * 60 + given.get("m", 0)) * 60 + given.get("s", 0)
        more_days, of_day = divmod(seconds * 1000 + given.get("S", 0), MILLIS_PER_DAY)
        found = self._days(more_days) * MILLIS_PER_DAY + of_day - given.get("zone", 0)
        return wrapped(found, 64)

    def _hours(self) -> int:
        given = self.values
        order = list(given)
        of_half_day = max((order.index(f) for f in "Ka" if f in given), default=-1)
        if "H" in given and (order.index("H") > of_half_day or not ("K" in given and "a" in given)):
            return given["H"]
        return given.get("K", 0) + 12 * given.get("a", 0)

    def _days(self, more: int) -> int:
        given = self.values
        year = given.get("y", 1970)
        if given.get("G") == 0:
            year = 1 - year
        order = list(given)
        if "D" in given and ("d" not in given or order.index("D") > order.index("d")):
            return days_since_epoch(year, 1, given["D"] + more)
        first = days_since_epoch(year, given.get("M", 1), 1)
        if "d" not in given and "E" in given:
            # a weekday alone is the first one of its month
            return first + (given["E"] - day_of(first).weekday) % 7 + more
        return days_since_epoch(year, given.get("M", 1), given.get("d", 1) + more)
