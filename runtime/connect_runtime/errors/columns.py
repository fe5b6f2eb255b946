"""Converts columns of which some records may fail, so that a bad record is one error.

The whole column is tried first. If that fails, smaller pieces are, and at last single records: with
few bad ones, nearly all are still converted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

Converted = TypeVar("Converted")

_PIECES: Final = 16


def pieces_of(
    begin: int, end: int, convert: Callable[[int, int], Converted], *, failed: bool = False
) -> Iterator[tuple[int, Converted | None]]:
    """Yields the results of `convert(begin, end)` for the records in this range, in pieces, with
    the index of the first record of a piece. None instead of a single record that cannot be
    converted. `failed`: all of them together are known to fail."""
    converted: Converted | None = None
    if not failed:
        with suppress(Exception):
            converted = convert(begin, end)
    if converted is not None or end - begin <= 1:
        yield begin, converted
        return
    size = -(-(end - begin) // _PIECES)
    for at in range(begin, end, size):
        yield from pieces_of(at, min(at + size, end), convert)
