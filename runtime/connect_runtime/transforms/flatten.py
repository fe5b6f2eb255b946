"""Flatten lifts the fields of nested structs or maps to the top, under joined names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from connect_runtime.api import (
    DataError,
    Field,
    Schema,
    Struct,
    Type,
)
from connect_runtime.api.schema import copy_basics, validate_value
from connect_runtime.java.text import java_class
from connect_runtime.transforms.columns import options
from connect_runtime.transforms.fields import SchemaCache
from connect_runtime.transforms.key_or_value import (
    Half,
    OneHalf,
    key_and_value,
    require_map,
    require_struct,
)

_PURPOSE: Final = "flattening"
_LEAVES: Final = (bool, int, float, str, bytes, bytearray, memoryview, list, tuple)


class Flatten(OneHalf):
    """Flattens structs and maps. Arrays stay as they are.

    Depth is followed with a stack of iterators, so that it is not limited by Python's.
    """

    OPTIONS = options("Flatten")

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the delimiter."""
        self._delimiter: str = options["delimiter"]
        self._schemas = SchemaCache(self._flat_schema)

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Flattens the value; null stays null, with its schema."""
        if value is None:
            return schema, None
        if schema is None:
            return None, self._map(require_map(value, _PURPOSE))
        struct = require_struct(value, _PURPOSE, schema)
        flat = self._schemas(schema)
        return flat, Struct.unchecked(flat, self._values(struct, flat))

    def _joined(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _map(self, value: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        levels: list[tuple[str, Iterator[tuple[str, Any]]]] = [("", iter(value.items()))]
        while levels:
            prefix, entries = levels[-1]
            for key, entry in entries:
                name = self._joined(prefix, key)
                if isinstance(entry, Mapping):
                    levels.append((name, iter(entry.items())))
                    break
                _check_leaf(name, entry)
                values[name] = entry
            else:
                levels.pop()
        return values

    def _values(self, struct: Struct, flat: Schema) -> dict[str, Any]:
        values: dict[str, Any] = {}
        levels = [("", struct, iter(struct.schema.fields))]
        while levels:
            prefix, at, fields = levels[-1]
            for field in fields:
                name = self._joined(prefix, field.name)
                if field.schema.type is Type.STRUCT:
                    # a default of the nested struct is not used for it, but for its leaves
                    nested = at.without_default(field.name)
                    if nested is not None:
                        levels.append((name, nested, iter(nested.schema.fields)))
                        break
                    continue
                value = at[field.name]
                if value is None:
                    validate_value(flat.field(name) or field.schema, None, field=name)
                values[name] = value
            else:
                levels.pop()
        return values

    def _flat_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, Type.STRUCT)
        levels: list[tuple[str, Iterator[Field], bool, Struct | None]]
        levels = [("", iter(schema.fields), schema.optional, schema.default)]
        while levels:
            prefix, fields, optional, parent = levels[-1]
            for field in fields:
                name = self._joined(prefix, field.name)
                is_optional = optional or field.schema.optional
                default = field.schema.default
                if default is None and parent is not None:
                    default = parent[field.name]
                if field.schema.type is Type.STRUCT:
                    levels.append((name, iter(field.schema.fields), is_optional, default))
                    break
                if field.schema.type is Type.MAP:
                    raise DataError(
                        "Flatten transformation does not support MAP for record with schemas"
                        f" (for field {name})."
                    )
                builder.field(name, _leaf_schema(field.schema, is_optional, default))
            else:
                levels.pop()
        return builder.build()


def _check_leaf(name: str, value: Any) -> None:
    if value is None or isinstance(value, _LEAVES):
        return
    if isinstance(value, Struct):
        raise DataError(
            f"Flatten transformation does not support class {Struct.java_class}"
            f" for record without schemas (for field {name})."
        )
    raise DataError(
        f"Flatten transformation was passed a value of type class {java_class(value)} which is not"
        " supported by Connect's data API"
    )


def _leaf_schema(schema: Schema, optional: bool, default: Any) -> Schema:
    builder = copy_basics(schema)
    if optional:
        builder.optional()
    if default is not None:
        builder.default(default)
    return builder.build()


FlattenKey, FlattenValue = key_and_value(Flatten)
