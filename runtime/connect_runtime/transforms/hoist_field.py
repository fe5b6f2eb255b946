"""Wraps a key or value in a struct or map with one field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from connect_runtime.api import ConfigDef, ConfigType, Importance, Schema, Struct, Type
from connect_runtime.api.field_columns import StructColumn
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.transforms.columns import SCHEMAS, Columns
from connect_runtime.transforms.key_or_value import Half, OfKey, OfValue, OneHalf
from connect_runtime.transforms.schema_cache import SchemaCache

_PLAIN: Final = {
    Type.BOOLEAN: bool,
    Type.FLOAT64: float,
    Type.STRING: str,
    Type.BYTES: bytes,
}
_CONFIG: Final = ConfigDef().define(
    "field",
    ConfigType.STRING,
    importance=Importance.MEDIUM,
    doc="Field name for the single field that will be created in the resulting Struct or Map.",
)


class HoistField(OneHalf):
    """Wraps the key or value."""

    def config(self) -> ConfigDef:
        """The options."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        self._field: str = _CONFIG.parse(options)["field"]
        self._schemas = SchemaCache(
            lambda schema: SchemaBuilder(Type.STRUCT).field(self._field, schema).build()
        )

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Wraps the value, null included."""
        if schema is None:
            return None, {self._field: value}
        made = self._schemas(schema)
        return made, Struct(made, {self._field: value})

    def apply_columns(self, columns: Columns) -> None:
        """Wraps the values."""
        schemas, values = columns[SCHEMAS[self.part]], columns[self.part]
        if not any(schemas):
            columns.set_fields(self.part, {self._field: values})
        elif _all_fit(schemas, values):
            made = self._schemas(schemas[0])
            columns.set_structs(self.part, StructColumn(made, {self._field: values}))
        else:
            super().apply_columns(columns)


def _all_fit(schemas: Sequence[Schema], values: Sequence[Any]) -> bool:
    """Whether all values are of one schema whose values are those of a Python type."""
    first = schemas[0]
    plain = None if first is None or first.name is not None else _PLAIN.get(first.type)
    return set(map(type, values)) == {plain} and schemas.count(first) == len(schemas)


class HoistFieldKey(OfKey, HoistField):
    """HoistField of keys."""


class HoistFieldValue(OfValue, HoistField):
    """HoistField of values."""
