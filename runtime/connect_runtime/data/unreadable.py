"""Names the records of a column that cannot be read, so that nobody has to look for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from connect_runtime.api import Column, DataError

T = TypeVar("T")


class UnreadableRows(DataError):
    """Some of several records cannot be read: those at `rows`. `others` has been read, if it is
    known."""

    def __init__(self, rows: Sequence[int], others: Column | None = None) -> None:
        super().__init__(f"{len(rows)} records cannot be read")
        self.rows = rows
        self.others = others


def read_each(
    column: Sequence[bytes | None],
    read: Callable[[bytes], T],
    column_of: Callable[[list[T | None]], Column],
) -> Column:
    """Reads records one by one; null stays null. Raises what `read` does for a single record,
    UnreadableRows for several."""
    if len(column) == 1:
        return column_of([None if data is None else read(data) for data in column])
    values: list[T | None] = []
    failing = []
    for row, data in enumerate(column):
        try:
            values.append(None if data is None else read(data))
        except DataError:
            failing.append(row)
    found = column_of(values)
    if failing:
        raise UnreadableRows(failing, found)
    return found
