"""Versions of plugins, and ranges of them, in Maven's notation (KIP-891).

`1.2` and `[1.2]` are exactly that version, `[1.0,2.0)` is a range, `latest` any version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

from connect_runtime.java.scalars import java_trim

LATEST: Final = "latest"
_QUALIFIERS: Final = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_SAME: Final = {"cr": "rc"} | dict.fromkeys(("final", "ga", "release"), "")
# only with a number behind it: `1.0-a1`
_SHORT: Final = {"a": "alpha", "b": "beta", "m": "milestone"}


class InvalidVersionRange(ValueError):
    """The text is no version and no range, in Maven's words."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version, ordered as Maven orders versions: `1.0-rc1 < 1.0 = 1 < 1.0.1`."""

    text: str

    def __eq__(self, value: object) -> bool:
        return isinstance(value, Version) and _items(self) == _items(value)

    def __hash__(self) -> int:
        return hash(_items(self))

    def __lt__(self, version: Version) -> bool:
        own, theirs = _items(self), _items(version)
        size = max(len(own), len(theirs))
        return _padded(own, size) < _padded(theirs, size)

    def __str__(self) -> str:
        return self.text


# rank of its kind, number, text: a qualifier is less than no item, a number more
_Item = tuple[int, int, str]
_NOTHING: Final[_Item] = (0, _QUALIFIERS.index(""), "")


def _items(version: Version) -> tuple[_Item, ...]:
    tokens = re.findall(r"([0-9]+|[^0-9.-]+)(?=([0-9])?)", version.text.lower())
    items = [_item(_SHORT.get(token, token) if digit else token) for token, digit in tokens]
    while items and items[-1] == _NOTHING:
        items.pop()
    return tuple(items)


def _item(token: str) -> _Item:
    if token.isdecimal():
        return (1, int(token), "") if int(token) else _NOTHING
    name = _SAME.get(token, token)
    if name in _QUALIFIERS:
        return (0, _QUALIFIERS.index(name), "")
    return (0, len(_QUALIFIERS), name)


def _padded(items: tuple[_Item, ...], size: int) -> tuple[_Item, ...]:
    return (*items, *[_NOTHING] * (size - len(items)))


@dataclass(frozen=True, slots=True)
class _Interval:
    """One range; None is an open end."""

    low: Version | None
    high: Version | None
    with_low: bool
    with_high: bool

    def __contains__(self, version: Version) -> bool:
        if self.low is not None and (
            version < self.low or (version == self.low and not self.with_low)
        ):
            return False
        return self.high is None or (
            version < self.high or (version == self.high and self.with_high)
        )

    def __str__(self) -> str:
        ends = f"{'' if self.low is None else self.low},{'' if self.high is None else self.high}"
        return f"{'[' if self.with_low else '('}{ends}{']' if self.with_high else ')'}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions that a config allows: those in any of the intervals."""

    intervals: tuple[_Interval, ...]

    def __contains__(self, version: str) -> bool:
        return any(Version(version) in interval for interval in self.intervals)

    def __str__(self) -> str:
        return ",".join(map(str, self.intervals))


def required_versions(text: str | None) -> VersionRange | None:
    """Returns the range that `text` asks for, None if any version will do. Raises
    InvalidVersionRange."""
    if text is None or text == LATEST:
        return None
    text = java_trim(text)
    intervals = _intervals(text)
    return VersionRange(intervals or _intervals(f"[{text}]"))


def _intervals(text: str) -> tuple[_Interval, ...]:
    """Returns the ranges in `text`; none if it is a single version."""
    intervals: list[_Interval] = []
    tail = text
    while tail.startswith(("[", "(")):
        end = min((at for at in map(tail.find, ")]") if at >= 0), default=-1)
        if end < 0:
            raise InvalidVersionRange(f"Unbounded range: {text}")
        interval = _interval(tail[: end + 1])
        if intervals:
            high = intervals[-1].high
            if high is not None and (interval.low is None or interval.low < high):
                raise InvalidVersionRange(f"Ranges overlap: {text}")
        intervals.append(interval)
        tail = java_trim(java_trim(tail[end + 1 :]).removeprefix(","))
    if tail and intervals:
        raise InvalidVersionRange(
            f"Only fully-qualified sets allowed in multiple set scenario: {text}"
        )
    return tuple(intervals)


def _interval(text: str) -> _Interval:
    with_low, with_high = text[0] == "[", text[-1] == "]"
    low, comma, high = map(java_trim, text[1:-1].partition(","))
    if not comma:
        if not (with_low and with_high):
            raise InvalidVersionRange(f"Single version must be surrounded by []: {text}")
        return _Interval(Version(low), Version(low), with_low, with_high)
    ends = [Version(end) if end else None for end in (low, high)]
    interval = _Interval(ends[0], ends[1], with_low, with_high)
    if interval.low is not None and interval.high is not None:
        is_empty = interval.high == interval.low and not (with_low and with_high)
        if interval.high < interval.low or is_empty:
            raise InvalidVersionRange(f"Range defies version ordering: {text}")
    return interval
