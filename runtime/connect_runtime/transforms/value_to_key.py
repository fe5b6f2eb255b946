"""Makes the key from fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from connect_runtime.api import (
    ConfigDef,
    ConfigType,
    DataError,
    Importance,
    Schema,
    Struct,
    Type,
    ValidList,
)
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.transforms import R
from connect_runtime.transforms.columns import Columns, ColumnTransformation
from connect_runtime.transforms.copying import (
    REPLACE_NULL,
    CopiedField,
    copied_fields,
    copy_values,
    define_replace_null,
)
from connect_runtime.transforms.key_or_value import Half, require_map, require_struct
from connect_runtime.transforms.schema_cache import SchemaCache

_PURPOSE: Final = "copying fields from value to key"
_CONFIG: Final = define_replace_null(
    ConfigDef().define(
        "fields",
        ConfigType.LIST,
        validator=ValidList(allows_empty=False),
        importance=Importance.HIGH,
        doc="Field names on the record value to extract as the record key.",
    )
)


class ValueToKey(ColumnTransformation):
    """Replaces the key by a struct or map of the fields."""

    def config(self) -> ConfigDef:
        """The options."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        parsed = _CONFIG.parse(options)
        self._fields: list[str] = parsed["fields"]
        self._with_default: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache(self._made)

    def apply(self, record: R) -> R | None:
        """Replaces the key."""
        schema, key = self._key(record.value_schema, record.value)
        return replace(record, key_schema=schema, key=key)

    def apply_columns(self, columns: Columns) -> None:
        """Replaces the keys."""
        values = zip(columns["value_schemas"], columns["values"], strict=True)
        made = [self._key(schema, value) for schema, value in values]
        columns["key_schemas"] = [schema for schema, _ in made]
        columns["keys"] = [key for _, key in made]

    def _key(self, schema: Schema | None, value: Any) -> Half:
        if schema is None:
            given = require_map(value, _PURPOSE)
            return None, {field: given.get(field) for field in self._fields}
        struct = require_struct(value, _PURPOSE, schema)
        made, copied = self._schemas(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        return made, Struct.unchecked(made, values)

    def _made(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = SchemaBuilder(Type.STRUCT)
        for field in self._fields:
            found = schema.field(field)
            if found is None:
                raise DataError(f"Field does not exist: {field}")
            builder.field(field, found)
        made = builder.build()
        return made, copied_fields(made)
