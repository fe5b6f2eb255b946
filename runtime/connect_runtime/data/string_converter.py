"""StringConverter: text in one encoding, UTF-8 unless `converter.encoding` names another.

Writes Java's `toString` of any value; reads bytes as an optional string.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any, Final

from connect_runtime.api import (
    OPTIONAL_STRING,
    Column,
    ConfigError,
    DataError,
    RawHeaders,
    Read,
    Schema,
    Write,
)
from connect_runtime.data.base_converter import AnyPartConverter, converter_options
from connect_runtime.data.text_columns import java_texts, java_utf8_column

# Java writes both big-endian, the first with a mark, and takes texts without a mark for such
_BIG_ENDIAN: Final = {
    "utf-16": ("utf-16-be", codecs.BOM_UTF16_BE, (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)),
    "utf-32": ("utf-32-be", b"", (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE)),
}


class StringConverter(AnyPartConverter):
    """Converts text to bytes and back. Bytes that are invalid in the encoding are replaced, as in
    Java."""

    OPTIONS = converter_options("StringConverter")

    def configure(self, options: Mapping[str, str], *, is_key: bool = False) -> None:
        name = options.get("converter.encoding", "UTF-8")
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError as error:
            raise ConfigError.invalid("converter.encoding", name, "Unknown encoding") from error

    @property
    def reads_anything(self) -> bool:
        return True

    def writer(self) -> Write:
        encoding, mark, _ = _BIG_ENDIAN.get(self._encoding, (self._encoding, b"", ()))

        def write(
            topic: str,
            headers: Sequence[RawHeaders] | None,
            schema: Schema | None,
            values: Sequence[Any],
        ) -> list[bytes | None]:
            data: list[bytes | None]
            try:
                # nearly always all of them are strings
                data = [value.encode(encoding) for value in values]
            except (AttributeError, UnicodeEncodeError):
                data = [
                    None if value is None else _encode(text, encoding)
                    for value, text in zip(values, java_texts(values, schema), strict=True)
                ]
            return [mark + text if text else text for text in data] if mark else data

        return write

    def reader(self) -> Read:
        encoding = self._encoding
        if encoding == "utf-8":
            return _read_utf8
        unmarked, _, marks = _BIG_ENDIAN.get(encoding, (encoding, b"", ()))

        def decode(data: bytes, errors: str = "strict") -> str:
            return data.decode(encoding if data.startswith(marks) else unmarked, errors)

        def read(
            topic: str, headers: Sequence[RawHeaders] | None, column: Sequence[bytes | None]
        ) -> Column:
            try:
                values: list[str | None] = [decode(data) for data in column]  # type: ignore[arg-type]
            except (AttributeError, UnicodeDecodeError):
                values = [None if d is None else decode(d, "replace") for d in column]
            return Column(values, OPTIONAL_STRING)

        return read


def _read_utf8(
    topic: str, headers: Sequence[RawHeaders] | None, column: Sequence[bytes | None]
) -> Column:
    return Column(java_utf8_column(column), OPTIONAL_STRING)


def _encode(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding, "replace")
    except UnicodeError as error:
        raise DataError("Failed to serialize to a string: ") from error
