"""Names the records of a column that cannot be read, so that nobody has to look for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from connect_runtime.api import DataError

T = TypeVar("T")


class UnreadableRows(DataError):
    """Some of several records cannot be read: those at `rows`."""

    def __init__(self, rows: Sequence[int]) -> None:
        super().__init__(f"{len(rows)} records cannot be read")
        self.rows = rows


def read_each(column: Sequence[bytes | None], read: Callable[[bytes], T]) -> list[T | None]:
    """Reads records one by one; null stays null. Raises what `read` does for a single record,
    UnreadableRows for several."""
    if len(column) == 1:
        return [None if data is None else read(data) for data in column]
    values: list[T | None] = []
    failing = []
    for row, data in enumerate(column):
        try:
            values.append(None if data is None else read(data))
        except DataError:
            failing.append(row)
    if failing:
        raise UnreadableRows(failing)
    return values
