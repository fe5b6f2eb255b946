"""Sets name and version of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConfigType,
    DataError,
    Importance,
    Schema,
    Struct,
)
from connect_runtime.transforms.copying import (
    REPLACE_NULL,
    CopiedField,
    copied_fields,
    copy_values,
    define_replace_null,
    struct_fields,
)
from connect_runtime.transforms.key_or_value import Half, OfKey, OfValue, OneHalf
from connect_runtime.transforms.schema_cache import SchemaCache

_CONFIG: Final = define_replace_null(
    ConfigDef()
    .define(
        "schema.name",
        ConfigType.STRING,
        None,
        importance=Importance.HIGH,
        doc="Schema name to set.",
    )
    .define(
        "schema.version",
        ConfigType.INT,
        None,
        importance=Importance.HIGH,
        doc="Schema version to set.",
    )
)


class SetSchemaMetadata(OneHalf):
    """Sets the name, the version or both."""

    def config(self) -> ConfigDef:
        """The options."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options. Raises `ConfigError` if there is nothing to set."""
        parsed = _CONFIG.parse(options)
        self._name: str | None = parsed["schema.name"]
        self._version: int | None = parsed["schema.version"]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")
        self._with_default: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache(self._made)

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Replaces the schema, also that of a struct."""
        if schema is None:
            if value is None:
                return None, None
            raise DataError("Schema required for [updating schema metadata]")
        made, copied = self._schemas(schema)
        if isinstance(value, Struct):
            values = copy_values(copied, value, with_default=self._with_default)
            value = Struct.unchecked(made, values)
        return made, value

    def _made(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        struct_fields(schema)
        name = schema.name if self._name is None else self._name
        version = schema.version if self._version is None else self._version
        return replace(schema, name=name, version=version), copied_fields(schema)


class SetSchemaMetadataKey(OfKey, SetSchemaMetadata):
    """SetSchemaMetadata of keys."""


class SetSchemaMetadataValue(OfValue, SetSchemaMetadata):
    """SetSchemaMetadata of values."""
