"""How far two offsets of a source partition are apart: one function for each notation.

Each reads its fields from both offsets and answers with a `Step`, or None where it cannot tell:
saying nothing is better than a wrong claim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from connect_reconciler.model.actions import Unit
from connect_reconciler.model.reasons import Effect, EffectCode, effect
from connect_specs.desired import JsonScalar, Offset


@dataclass(frozen=True, slots=True)
class Step:
    """From old to new. `size` says how much lies between, and `of` of what; `place` where the new
    one is, and `file` in which of the source's. Each is empty where nobody can tell.

    `count` is the size as a number, in `unit`s.
    """

    direction: Literal["back", "ahead", "same"]
    size: Effect | None = None
    place: str = ""
    of: EffectCode | None = None
    file: str = ""
    count: int = 0
    unit: Unit | None = None


Measure: TypeAlias = Callable[[Offset, Offset], Step | None]


def sized(of: EffectCode, measure: Measure) -> Measure:
    """The measure, which tells of what its size is."""

    def measured(old: Offset, new: Offset) -> Step | None:
        step = measure(old, new)
        return step and replace(step, of=of)

    return measured


def count(field: str, unit: Unit) -> Measure:
    """A whole number of units, such as bytes."""

    def measure(old: Offset, new: Offset) -> Step | None:
        before, after = whole(old.get(field)), whole(new.get(field))
        return None if before is None or after is None else _counted(before, after, unit)

    return measure


def number(field: str) -> Measure:
    """A whole number of which only the order is known."""

    def measure(old: Offset, new: Offset) -> Step | None:
        before, after = _digits(old.get(field)), _digits(new.get(field))
        if before is None or after is None:
            return None
        apart = abs(after - before)
        return Step(_direction(before, after), effect("amount", count=apart, unit=""), count=apart)

    return measure


def jdbc_time(old: Offset, new: Offset) -> Step | None:
    """`timestamp` in ms; `timestamp_nanos`, where it is, replaces the fraction of its second."""
    moments = []
    for offset in (old, new):
        ms, nanos = whole(offset.get("timestamp")), whole(offset.get("timestamp_nanos", 0))
        if ms is None or nanos is None or not 0 <= nanos < 10**9:
            return None
        if ms != 0 and not _FIRST_S <= ms // 1000 < _LAST_S:
            return None
        fraction = nanos if "timestamp_nanos" in offset else ms % 1000 * 10**6
        moments.append(ms // 1000 * 10**9 + fraction)
    return _time_step(moments[0], moments[1])


def moment(field: str) -> Measure:
    """A time: seconds, ms, µs or ns since 1970, told by the field's name or size; or ISO 8601."""

    def measure(old: Offset, new: Offset) -> Step | None:
        before, after = _moment(field, old.get(field)), _moment(field, new.get(field))
        if before is None or after is None or before[0] != after[0]:
            return None
        return _time_step(before[1], after[1])

    return measure


def postgres_lsn(*fields: str) -> Measure:
    """A byte position in the write-ahead log, as `16/B374D848` or as the number that it stands for.

    Of `fields`, all that are there must go the same way: each can be where reading begins.
    """

    def measure(old: Offset, new: Offset) -> Step | None:
        present = [field for field in fields if field in old or field in new]
        steps = []
        for field in present:
            before, after = _lsn(old.get(field)), _lsn(new.get(field))
            if before is None or after is None:
                return None
            steps.append(replace(_counted(before, after, "byte"), of="of-wal"))
        if not steps or len({step.direction for step in steps}) != 1:
            return None
        return steps[0]

    return measure


def lsn_text(field: str) -> Measure:
    """`16/B374D848`, a notation that only LSNs have."""

    def measure(old: Offset, new: Offset) -> Step | None:
        texts = isinstance(old.get(field), str) and isinstance(new.get(field), str)
        return postgres_lsn(field)(old, new) if texts else None

    return measure


_BINLOG = re.compile(r"(?P<base>.*)\.(?P<number>[0-9]{6,10})")


def mysql_binlog(old: Offset, new: Offset) -> Step | None:
    """`file` and `pos`: files are numbered, positions are bytes."""
    files = [_BINLOG.fullmatch(str(offset.get("file"))) for offset in (old, new)]
    before, after = whole(old.get("pos")), whole(new.get("pos"))
    first, second = files
    if first is None or second is None or before is None or after is None:
        return None
    if first["base"] != second["base"]:
        return None
    if first["number"] == second["number"]:
        return replace(_counted(before, after, "byte"), of="of-file", file=first[0])
    return Step(_direction(int(first["number"]), int(second["number"])), place=second[0])


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GTIDS = re.compile(rf"{_UUID}(?::[0-9]+(?:-[0-9]+)?)+")


def mysql_gtids(old: Offset, new: Offset) -> Step | None:
    """Sets of transactions, where one holds the other. Tags and MariaDB's form are not read."""
    before, after = _gtid_set(old.get("gtids")), _gtid_set(new.get("gtids"))
    if before is None or after is None:
        return None
    if before == after:
        return Step("same")
    step = _counted(_transactions(before), _transactions(after), "transaction")
    return step if _holds(before, after) or _holds(after, before) else None


_SQL_SERVER_LSN = re.compile(r"[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}")


def sql_server_lsn(field: str) -> Measure:
    """`00000025:00000d98:00a2`: an order, and no distance."""

    def measure(old: Offset, new: Offset) -> Step | None:
        texts = [str(offset.get(field)) for offset in (old, new)]
        if not all(_SQL_SERVER_LSN.fullmatch(text) for text in texts):
            return None
        before, after = (int(text.replace(":", ""), 16) for text in texts)
        return Step(_direction(before, after))

    return measure


def whole(value: JsonScalar) -> int | None:
    """A JSON integer; a text of digits is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _digits(value: JsonScalar) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"0|[1-9][0-9]*", value, re.ASCII):
        return int(value) if len(value) < 100 else None
    return whole(value)


def _direction(before: int, after: int) -> Literal["back", "ahead", "same"]:
    if before == after:
        return "same"
    return "back" if after < before else "ahead"


def _counted(before: int, after: int, unit: Unit) -> Step:
    count = abs(after - before)
    size = effect("amount", count=count, unit=unit)
    return Step(_direction(before, after), size, count=count, unit=unit)


def _time_step(before_ns: int, after_ns: int) -> Step | None:
    place = _iso(after_ns)
    if place is None:
        return None
    seconds = abs(after_ns - before_ns) // 10**9
    size = effect("amount", count=seconds, unit="span")
    if not seconds:
        size = effect("less-than-a-second")
    direction = _direction(before_ns, after_ns)
    return Step(direction, size, place, count=seconds, unit="second")


def _iso(nanos: int) -> str | None:
    try:
        at = datetime.fromtimestamp(nanos // 10**9, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return at.isoformat().replace("+00:00", "Z")


_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_TIME_WORDS = frozenset({"ts", "time", "timestamp", "datetime", "at"})
_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("s", "sec", "secs", "seconds"), 10**9),
    **dict.fromkeys(("ms", "millis", "milliseconds"), 10**6),
    **dict.fromkeys(("us", "usec", "micros", "microseconds"), 10**3),
    **dict.fromkeys(("ns", "nanos", "nanoseconds"), 1),
}
# 2000 to 2100: what lies outside is hardly a time, and the units do not overlap
_FIRST_S, _LAST_S = 946_684_800, 4_102_444_800


def _moment(field: str, value: JsonScalar) -> tuple[str, int] | None:
    """The unit of the value, and the time in ns since 1970."""
    words = {word.lower() for word in _WORDS.findall(field)}
    if isinstance(value, str):
        return _iso_moment(value)
    ticks = whole(value)
    if ticks is None or not words & _TIME_WORDS:
        return None
    named = {_UNITS[word] for word in words if word in _UNITS}
    for size in named if len(named) == 1 else set(_UNITS.values()):
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


def _lsn(value: JsonScalar) -> int | None:
    if isinstance(value, str):
        found = re.fullmatch(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", value)
        return None if found is None else (int(found[1], 16) << 32) + int(found[2], 16)
    return whole(value)


_Transactions: TypeAlias = Mapping[str, tuple[tuple[int, int], ...]]


def _gtid_set(value: JsonScalar) -> _Transactions | None:
    """The intervals of each server's transactions, merged and sorted."""
    if not isinstance(value, str) or not value:
        return None
    found: dict[str, list[tuple[int, int]]] = {}
    for part in value.lower().replace("\n", "").split(","):
        text = part.strip()
        if not _GTIDS.fullmatch(text):
            return None
        server, *intervals = text.split(":")
        for interval in intervals:
            first, _, last = interval.partition("-")
            found.setdefault(server, []).append((int(first), int(last or first)))
    return {server: _merged(intervals) for server, intervals in found.items()}


def _merged(intervals: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _transactions(gtids: _Transactions) -> int:
    return sum(last - first + 1 for each in gtids.values() for first, last in each)


def _holds(outer: _Transactions, inner: _Transactions) -> bool:
    return all(
        any(start <= first and last <= end for start, end in outer.get(server, ()))
        for server, intervals in inner.items()
        for first, last in intervals
    )
