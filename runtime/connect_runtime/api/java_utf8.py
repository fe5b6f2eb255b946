"""Reads UTF-8 as Java does, and keeps texts as UTF-8 until somebody asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, overload

# half of a surrogate pair: its first byte never continues a character
_HALF: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_utf8(data: bytes) -> str:
    """`new String(data, UTF_8)`: what is no UTF-8 is replaced.

    Half of a surrogate pair, in three bytes, is one replaced character in Java and three in Python.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _HALF.sub(b"\xff", data).decode("utf-8", "replace")


class Utf8Column(Sequence[str]):
    """Texts as `utf8`, all of which are valid. They are decoded if somebody asks."""

    __slots__ = ("_texts", "utf8")

    def __init__(self, utf8: Sequence[bytes], texts: Sequence[str] | None = None) -> None:
        self.utf8 = utf8
        self._texts = texts

    def _all(self) -> Sequence[str]:
        if self._texts is None:
            self._texts = list(map(bytes.decode, self.utf8))
        return self._texts

    def __len__(self) -> int:
        return len(self.utf8)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._all()[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())


def java_utf8_column(column: Sequence[bytes | None]) -> Sequence[Any]:
    """Returns `java_utf8` of each, and None for null."""
    try:
        if all(map(bytes.isascii, column)):  # type: ignore[arg-type]
            return Utf8Column(column)  # type: ignore[arg-type]
        return Utf8Column(column, list(map(bytes.decode, column)))  # type: ignore[arg-type]
    except (TypeError, UnicodeDecodeError):
        return [None if data is None else java_utf8(data) for data in column]
