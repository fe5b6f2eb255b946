"""Distances between two offsets of a source partition: a measure for each notation.

A measure reads its fields from both offsets. It returns None if it cannot compare them: no claim is
better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from connect_reconciler.actions import Unit
from connect_specs.desired import JsonScalar, Offset
from connect_specs.plain_text import counted, span, time_text


@dataclass(frozen=True, slots=True)
class Distance:
    """The way from one offset to another.

    `amount` is its length, as in `22,430 bytes`; a sentence has it between `prefix` and `suffix`.
    `place` is the position that it leads to. Both are empty if unknown. `count` is the amount as a
    number of `unit`s.
    """

    direction: Literal["back", "ahead", "same"]
    amount: str = ""
    place: str = ""
    prefix: str = ""
    suffix: str = ""
    count: int = 0
    unit: Unit | None = None


Measure: TypeAlias = Callable[[Offset, Offset], Distance | None]
T = TypeVar("T")


def count(field: str, unit: Unit, prefix: str = "") -> Measure:
    """Measures a whole number of units, such as bytes."""
    return _measure(_field(whole, field), partial(_counted, unit=unit, prefix=prefix))


def number(field: str) -> Measure:
    """Measures a whole number of which only the order is known."""
    return _measure(_field(_digits, field), _counted)


def jdbc_time() -> Measure:
    """Measures `timestamp` in ms; `timestamp_nanos`, if present, replaces the fraction of its
    second."""
    return _measure(_jdbc_nanos, partial(_time_between, prefix="the rows of "))


def moment(field: str) -> Measure:
    """Measures a time: ISO 8601, or s, ms, µs or ns since 1970 by the field's name or size."""

    def distance(start: tuple[str, int], end: tuple[str, int]) -> Distance | None:
        return _time_between(start[1], end[1]) if start[0] == end[0] else None

    return _measure(_field(partial(_moment, field), field), distance)


def postgres_lsn(*fields: str) -> Measure:
    """Measures a byte position in the write-ahead log: `16/B374D848`, or that as a number.

    All of `fields` that are present must go the same way: each can be where reading begins.
    """

    def measure(start: Offset, end: Offset) -> Distance | None:
        present = [field for field in fields if field in start or field in end]
        distances = [_wal(field)(start, end) for field in present]
        directions = {distance and distance.direction for distance in distances}
        return distances[0] if len(directions) == 1 else None

    return measure


def lsn_text(field: str) -> Measure:
    """Measures `16/B374D848`, a notation that only LSNs have."""

    def measure(start: Offset, end: Offset) -> Distance | None:
        texts = isinstance(start.get(field), str) and isinstance(end.get(field), str)
        return _wal(field)(start, end) if texts else None

    return measure


def mysql_binlog() -> Measure:
    """Measures `file` and `pos`: files are numbered, positions are bytes."""

    def distance(start: _BinlogPosition, end: _BinlogPosition) -> Distance | None:
        (start_file, start_byte), (end_file, end_byte) = start, end
        if start_file["base"] != end_file["base"]:
            return None
        if start_file["number"] == end_file["number"]:
            return _counted(start_byte, end_byte, "byte", suffix=f" of {start_file[0]}")
        direction = _direction(int(start_file["number"]), int(end_file["number"]))
        return Distance(direction, place=end_file[0])

    return _measure(_binlog_position, distance)


def mysql_gtids() -> Measure:
    """Measures sets of transactions if one contains the other. Tags and MariaDB's form are not
    read."""

    def distance(start: _Transactions, end: _Transactions) -> Distance | None:
        if start == end:
            return Distance("same")
        if not _contains(start, end) and not _contains(end, start):
            return None
        return _counted(_size(start), _size(end), "transaction")

    return _measure(_field(_gtid_set, "gtids"), distance)


def sql_server_lsn(field: str) -> Measure:
    """Measures `00000025:00000d98:00a2`: an order, and no amount."""
    return _measure(
        _field(_sql_server_lsn, field), lambda start, end: Distance(_direction(start, end))
    )


def whole(value: JsonScalar) -> int | None:
    """Returns a JSON integer; None for a text of digits."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _measure(
    position: Callable[[Offset], T | None], distance: Callable[[T, T], Distance | None]
) -> Measure:
    """Measures the distance of two values, each read from one offset."""

    def measure(start: Offset, end: Offset) -> Distance | None:
        first, second = position(start), position(end)
        return None if first is None or second is None else distance(first, second)

    return measure


def _field(parse: Callable[[JsonScalar], T | None], name: str) -> Callable[[Offset], T | None]:
    return lambda offset: parse(offset.get(name))


def _digits(value: JsonScalar) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"0|[1-9][0-9]*", value, re.ASCII):
        return int(value) if len(value) < 100 else None
    return whole(value)


def _direction(start: int, end: int) -> Literal["back", "ahead", "same"]:
    if start == end:
        return "same"
    return "back" if end < start else "ahead"


def _counted(
    start: int, end: int, unit: Unit | None = None, *, prefix: str = "", suffix: str = ""
) -> Distance:
    apart = abs(end - start)
    amount = counted(apart, unit) if unit else f"{apart:,}"
    return Distance(_direction(start, end), amount, "", prefix, suffix, apart, unit)


# --- times ---


def _time_between(start_ns: int, end_ns: int, *, prefix: str = "") -> Distance:
    seconds = abs(end_ns - start_ns) // 10**9
    amount = span(seconds) if seconds else "less than 1 s"
    place = time_text(end_ns // 10**6)
    direction = _direction(start_ns, end_ns)
    return Distance(direction, amount, place, prefix, count=seconds, unit="second")


_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_TIME_WORDS = frozenset({"ts", "time", "timestamp", "datetime", "at"})
_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("s", "sec", "secs", "seconds"), 10**9),
    **dict.fromkeys(("ms", "millis", "milliseconds"), 10**6),
    **dict.fromkeys(("us", "usec", "micros", "microseconds"), 10**3),
    **dict.fromkeys(("ns", "nanos", "nanoseconds"), 1),
}
# 2000 to 2100: values outside are hardly times, and the units do not overlap
_FIRST_S, _LAST_S = 946_684_800, 4_102_444_800


def _jdbc_nanos(offset: Offset) -> int | None:
    ms, nanos = whole(offset.get("timestamp")), whole(offset.get("timestamp_nanos", 0))
    if ms is None or nanos is None or not 0 <= nanos < 10**9:
        return None
    if ms != 0 and not _FIRST_S <= ms // 1000 < _LAST_S:
        return None
    fraction = nanos if "timestamp_nanos" in offset else ms % 1000 * 10**6
    return ms // 1000 * 10**9 + fraction


def _moment(field: str, value: JsonScalar) -> tuple[str, int] | None:
    """Returns the unit of the value, and the time in ns since 1970."""
    words = {word.lower() for word in _WORDS.findall(field)}
    if isinstance(value, str):
        return _iso_moment(value)
    ticks = whole(value)
    if ticks is None or not words & _TIME_WORDS:
        return None
    units = {_UNITS[word] for word in words if word in _UNITS}
    for size in units if len(units) == 1 else set(_UNITS.values()):
        if _FIRST_S <= ticks * size // 10**9 < _LAST_S:
            return str(size), ticks * size
    return None


_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}.*")


def _iso_moment(text: str) -> tuple[str, int] | None:
    if not _ISO.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    # Without a zone, both are at least in the same one
    zone = "iso" if at.tzinfo else "iso, no zone"
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return zone, (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


# --- logs of databases ---


def _wal(field: str) -> Measure:
    return _measure(_field(_lsn, field), partial(_counted, unit="byte", suffix=" of WAL"))


def _lsn(value: JsonScalar) -> int | None:
    if isinstance(value, str):
        lsn = re.fullmatch(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", value)
        return None if lsn is None else (int(lsn[1], 16) << 32) + int(lsn[2], 16)
    return whole(value)


_BINLOG = re.compile(r"(?P<base>.*)\.(?P<number>[0-9]{6,10})")
_BinlogPosition: TypeAlias = tuple[re.Match[str], int]


def _binlog_position(offset: Offset) -> _BinlogPosition | None:
    file, byte = _BINLOG.fullmatch(str(offset.get("file"))), whole(offset.get("pos"))
    return None if file is None or byte is None else (file, byte)


_SQL_SERVER_LSN = re.compile(r"[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}")


def _sql_server_lsn(value: JsonScalar) -> int | None:
    text = str(value)
    return int(text.replace(":", ""), 16) if _SQL_SERVER_LSN.fullmatch(text) else None


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GTIDS = re.compile(rf"{_UUID}(?::[0-9]+(?:-[0-9]+)?)+")
_Intervals: TypeAlias = tuple[tuple[int, int], ...]
# The intervals of each server's transactions, merged and sorted
_Transactions: TypeAlias = Mapping[str, _Intervals]


def _gtid_set(value: JsonScalar) -> _Transactions | None:
    if not isinstance(value, str) or not value:
        return None
    servers: dict[str, list[tuple[int, int]]] = {}
    for item in value.lower().replace("\n", "").split(","):
        text = item.strip()
        if not _GTIDS.fullmatch(text):
            return None
        server, *intervals = text.split(":")
        for interval in intervals:
            first, _, last = interval.partition("-")
            servers.setdefault(server, []).append((int(first), int(last or first)))
    return {server: _merged(intervals) for server, intervals in servers.items()}


def _merged(intervals: Iterable[tuple[int, int]]) -> _Intervals:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _size(gtids: _Transactions) -> int:
    return sum(last - first + 1 for intervals in gtids.values() for first, last in intervals)


def _contains(outer: _Transactions, inner: _Transactions) -> bool:
    return all(
        any(start <= first and last <= end for start, end in outer.get(server, ()))
        for server, intervals in inner.items()
        for first, last in intervals
    )
