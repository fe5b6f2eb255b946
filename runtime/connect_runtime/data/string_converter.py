"""StringConverter: text in one encoding, UTF-8 unless `converter.encoding` says otherwise.

Writes Java's `toString` of any value; reads bytes as an optional string.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import (
    OPTIONAL_STRING,
    Column,
    ConfigDef,
    ConfigError,
    ConfigType,
    DataError,
    Importance,
    RawHeaders,
    Read,
    Schema,
    Width,
    Write,
)
from connect_runtime.api.java_text_columns import java_texts
from connect_runtime.api.java_utf8 import java_utf8_column
from connect_runtime.data.any_part import AnyPartConverter
from connect_runtime.data.converter_type import with_converter_type

CONFIG = with_converter_type(
    ConfigDef().define(
        "converter.encoding",
        ConfigType.STRING,
        "UTF-8",
        importance=Importance.HIGH,
        doc="The name of the Java character set to use for encoding strings as byte arrays.",
        width=Width.MEDIUM,
        display_name="Encoding",
    )
)


class StringConverter(AnyPartConverter):
    """Converts text to bytes and back. Bytes that are invalid in the encoding are replaced, as in
    Java."""

    def config(self) -> ConfigDef:
        return CONFIG

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
        encoding = self._encoding

        def write(
            topic: str,
            headers: Sequence[RawHeaders] | None,
            schema: Schema | None,
            values: Sequence[Any],
        ) -> list[bytes | None]:
            try:
                # nearly always all of them are strings
                return [value.encode(encoding) for value in values]
            except (AttributeError, UnicodeEncodeError):
                return [
                    None if value is None else _encode(text, encoding)
                    for value, text in zip(values, java_texts(values, schema), strict=True)
                ]

        return write

    def reader(self) -> Read:
        encoding = self._encoding
        if encoding == "utf-8":
            return _read_utf8

        def read(
            topic: str, headers: Sequence[RawHeaders] | None, column: Sequence[bytes | None]
        ) -> Column:
            try:
                values: list[str | None] = [data.decode(encoding) for data in column]  # type: ignore[union-attr]
            except (AttributeError, UnicodeDecodeError):
                values = [None if d is None else d.decode(encoding, "replace") for d in column]
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
