"""The converters of text, and of bytes, booleans and single numbers: fixed width, big-endian.

Java distinguishes a short from an int by the value's class; here the schema does, and a value
without one only has to fit.
"""

from __future__ import annotations

import codecs
import struct
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from connect_runtime.api import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    Column,
    ConfigError,
    DataError,
    RawHeaders,
    Read,
    Schema,
    Type,
    Write,
)
from connect_runtime.api.schema import class_of
from connect_runtime.data.converters import AnyPartConverter, converter_options
from connect_runtime.data.value_columns import java_texts, java_utf8_column
from connect_runtime.java.scalars import java_class

_Headers: TypeAlias = Sequence[RawHeaders] | None
_Values: TypeAlias = Sequence[Any]
_Data: TypeAlias = list[bytes | None]
_BOOLEANS: Final[Mapping[bytes | None, bool | None]] = {None: None, b"\x00": False, b"\x01": True}


class _ColumnConverter(AnyPartConverter):
    """A converter whose options do not change how columns are written and read."""

    def writer(self) -> Write:
        return self.write

    def reader(self) -> Read:
        return self.read

    @abstractmethod
    def write(
        self, topic: str, headers: _Headers, schema: Schema | None, values: _Values
    ) -> _Data: ...

    @abstractmethod
    def read(self, topic: str, headers: _Headers, column: Sequence[bytes | None]) -> Column: ...


class ByteArrayConverter(_ColumnConverter):
    """Passes bytes through; refuses everything else."""

    @property
    def reads_anything(self) -> bool:
        return True

    def write(self, topic: str, headers: _Headers, schema: Schema | None, values: _Values) -> _Data:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        for value in values:
            if value is not None and not isinstance(value, bytes | bytearray | memoryview):
                actual = java_class(value)
                raise DataError(
                    f"ByteArrayConverter is not compatible with objects of type class {actual}"
                )
        return [None if v is None else bytes(v) for v in values]

    def read(self, topic: str, headers: _Headers, column: Sequence[bytes | None]) -> Column:
        return Column(column, OPTIONAL_BYTES)


class _NumberConverter(_ColumnConverter):
    """One numeric type: its name in texts, its schema when read, and its bytes."""

    name: ClassVar[str]
    schema: ClassVar[Schema]
    layout: ClassVar[struct.Struct]

    def write(self, topic: str, headers: _Headers, schema: Schema | None, values: _Values) -> _Data:
        for value in values:
            if value is not None and not self._fits(value, schema):
                actual = class_of(value, schema)
                raise DataError(f"Failed to serialize to {self.name} (was class {actual}): ")
        pack = self.layout.pack
        return [None if value is None else pack(value) for value in values]

    def _fits(self, value: Any, schema: Schema | None) -> bool:
        if schema is not None and schema.type is not self.schema.type:
            return False
        try:
            self.layout.pack(value)
        except (struct.error, OverflowError):
            return False
        return type(value) is (float if self.layout.format[-1] in "fd" else int)

    def read(self, topic: str, headers: _Headers, column: Sequence[bytes | None]) -> Column:
        size, unpack = self.layout.size, self.layout.unpack
        for data in column:
            if data is not None and len(data) != size:
                raise DataError(f"Failed to deserialize {self.name}: ")
        return Column([None if d is None else unpack(d)[0] for d in column], self.schema)


class ShortConverter(_NumberConverter):
    """Two bytes."""

    name, schema, layout = "short", OPTIONAL_INT16, struct.Struct(">h")


class IntegerConverter(_NumberConverter):
    """Four bytes."""

    name, schema, layout = "integer", OPTIONAL_INT32, struct.Struct(">i")


class LongConverter(_NumberConverter):
    """Eight bytes."""

    name, schema, layout = "long", OPTIONAL_INT64, struct.Struct(">q")


class FloatConverter(_NumberConverter):
    """Four bytes, IEEE 754."""

    name, schema, layout = "float", OPTIONAL_FLOAT32, struct.Struct(">f")


class DoubleConverter(_NumberConverter):
    """Eight bytes, IEEE 754."""

    name, schema, layout = "double", OPTIONAL_FLOAT64, struct.Struct(">d")


class BooleanConverter(_ColumnConverter):
    """One byte, 0 or 1 (KIP-901)."""

    def write(self, topic: str, headers: _Headers, schema: Schema | None, values: _Values) -> _Data:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        for value in values:
            if value is not None and not isinstance(value, bool):
                actual = java_class(value)
                raise DataError(
                    f"BooleanConverter is not compatible with objects of type class {actual}"
                )
        return [None if value is None else bytes((value,)) for value in values]

    def read(self, topic: str, headers: _Headers, column: Sequence[bytes | None]) -> Column:
        try:
            return Column([_BOOLEANS[data] for data in column], OPTIONAL_BOOLEAN)
        except KeyError as error:
            raise DataError("Failed to deserialize boolean: ") from error


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

        def write(topic: str, headers: _Headers, schema: Schema | None, values: _Values) -> _Data:
            data: _Data
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

        def read(topic: str, headers: _Headers, column: Sequence[bytes | None]) -> Column:
            try:
                values: list[str | None] = [decode(data) for data in column]  # type: ignore[arg-type]
            except (AttributeError, UnicodeDecodeError):
                values = [None if d is None else decode(d, "replace") for d in column]
            return Column(values, OPTIONAL_STRING)

        return read


def _read_utf8(topic: str, headers: _Headers, column: Sequence[bytes | None]) -> Column:
    return Column(java_utf8_column(column), OPTIONAL_STRING)


def _encode(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding, "replace")
    except UnicodeError as error:
        raise DataError("Failed to serialize to a string: ") from error
