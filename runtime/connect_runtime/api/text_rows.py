"""Joins columns of texts to rows, for formats that write many records of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import AnyStr, TypeAlias

Part: TypeAlias = AnyStr | Sequence[AnyStr]
"""A text that is the same in all rows, or one text for each row."""


def rows(parts: Sequence[Part[AnyStr]], size: int, empty: AnyStr) -> list[AnyStr]:
    """Returns `size` texts, each made of its part of all `parts`. `empty` is the empty text."""
    merged: list[Part[AnyStr]] = []
    for part in parts:
        same = _same(part)
        last = merged[-1] if merged else None
        if same is not None and isinstance(last, str | bytes):
            merged[-1] = last + same
        else:
            merged.append(part if same is None else same)
    columns = [repeat(part, size) if isinstance(part, str | bytes) else part for part in merged]
    return list(map(empty.join, zip(*columns, strict=True)))


def _same(part: Part[AnyStr]) -> AnyStr | None:
    """Returns the text that all rows have, if they do."""
    if isinstance(part, str | bytes):
        return part
    return part[0] if part and part.count(part[0]) == len(part) else None
