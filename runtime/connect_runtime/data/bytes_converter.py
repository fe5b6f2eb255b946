"""ByteArrayConverter: passes bytes through unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import (
    OPTIONAL_BYTES,
    Column,
    ConfigDef,
    DataError,
    RawHeaders,
    Read,
    Schema,
    Type,
    Write,
)
from connect_runtime.api.java_types import java_class
from connect_runtime.data.any_part import AnyPartConverter
from connect_runtime.data.converter_type import with_converter_type

CONFIG = with_converter_type(ConfigDef())


class ByteArrayConverter(AnyPartConverter):
    """Passes bytes through; refuses everything else."""

    def config(self) -> ConfigDef:
        return CONFIG

    def configure(self, options: Mapping[str, str], *, is_key: bool = False) -> None:
        pass

    @property
    def reads_anything(self) -> bool:
        return True

    def writer(self) -> Write:
        return _write

    def reader(self) -> Read:
        return _read


def _write(
    topic: str, headers: Sequence[RawHeaders] | None, schema: Schema | None, values: Sequence[Any]
) -> list[bytes | None]:
    if schema is not None and schema.type is not Type.BYTES:
        raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
    for value in values:
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            found = java_class(value)
            raise DataError(
                f"ByteArrayConverter is not compatible with objects of type class {found}"
            )
    return [None if v is None else bytes(v) for v in values]


def _read(
    topic: str, headers: Sequence[RawHeaders] | None, column: Sequence[bytes | None]
) -> Column:
    return Column(column, OPTIONAL_BYTES)
