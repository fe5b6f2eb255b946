"""Maps that all have the same fields, kept field by field: the maps are made if somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload


class MapColumn(Sequence[dict[str, Any]]):
    """A sequence of maps. `fields` holds the values of each field, at least one; they are not to be
    changed, nor are the maps while anybody else uses the column."""

    __slots__ = ("_maps", "fields")

    def __init__(self, fields: Mapping[str, Sequence[Any]]) -> None:
        self.fields = fields
        self._maps: list[dict[str, Any]] | None = None

    def _made(self) -> list[dict[str, Any]]:
        if self._maps is None:
            names = tuple(self.fields)
            rows = zip(*self.fields.values(), strict=True)
            self._maps = [dict(zip(names, row, strict=True)) for row in rows]
        return self._maps

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._made()[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._made())
