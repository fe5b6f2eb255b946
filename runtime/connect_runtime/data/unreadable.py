"""Names the records of a column that cannot be read, so that nobody reads them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from connect_runtime.api import Column, DataError

T = TypeVar("T")


class UnreadableRows(DataError):
    """Some of several records cannot be read: `errors` has the error of each by its row, in order.
    `others` are the records that can.

    An error refers to the frame that caught it, and that to what it knows. If `errors` were still
    among this, records would stay in memory until the garbage collector comes.
    """

    def __init__(self, errors: dict[int, DataError], others: Column) -> None:
        super().__init__(f"{len(errors)} records cannot be read")
        self.errors = errors
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
    failing: dict[int, DataError] = {}
    for row, data in enumerate(column):
        try:
            values.append(None if data is None else read(data))
        except DataError as error:
            failing[row] = error
    found = column_of(values)
    if failing:
        try:
            raise UnreadableRows(failing, found)
        finally:
            del failing
    return found
