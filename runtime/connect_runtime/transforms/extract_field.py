"""Replaces a key or value by one of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connect_runtime.api import ConfigDef, ConfigType, DataError, Importance, Schema, Type
from connect_runtime.transforms.copying import REPLACE_NULL, define_replace_null
from connect_runtime.transforms.errors import InvalidArgument
from connect_runtime.transforms.field_path import (
    FIELD_SYNTAX_VERSION,
    define_field_syntax,
    field_path,
)
from connect_runtime.transforms.key_or_value import (
    Half,
    OfKey,
    OfValue,
    OneHalf,
    require_map,
    require_struct,
)

_PURPOSE: Final = "field extraction"
_NESTED: Final = "nested field access"
_CONFIG: Final = define_field_syntax(
    define_replace_null(
        ConfigDef().define(
            "field",
            ConfigType.STRING,
            importance=Importance.MEDIUM,
            doc="Field name to extract.",
        )
    )
)


class ExtractField(OneHalf):
    """Extracts a field, also one within others if the syntax is V2."""

    def config(self) -> ConfigDef:
        """The options."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        parsed = _CONFIG.parse(options)
        self._text: str = parsed["field"]
        self._path = field_path(self._text, parsed[FIELD_SYNTAX_VERSION])
        self._with_default: bool = parsed[REPLACE_NULL]

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Returns the field's schema and value; null for a field of null."""
        if schema is None:
            return None, self._from_map(value)
        if value is not None:
            require_struct(value, _PURPOSE, schema)
        return self._schema(schema), self._from_struct(value)

    def _from_map(self, value: Any) -> Any:
        purpose = _PURPOSE
        for name in self._path:
            if value is None:
                return None
            value = require_map(value, purpose).get(name)
            purpose = _NESTED
        return value

    def _schema(self, schema: Schema) -> Schema:
        found: Schema | None = schema
        for name in self._path:
            if found is None:
                break
            if found.type is not Type.STRUCT:
                raise DataError("Cannot look up fields on non-struct type")
            found = found.field(name)
        if found is None:
            raise InvalidArgument(f"Unknown field: {self._text}")
        return found

    def _from_struct(self, value: Any) -> Any:
        last = len(self._path) - 1
        for depth, name in enumerate(self._path):
            if value is None:
                return None
            struct = require_struct(value, _NESTED)
            if struct.schema.field(name) is None:
                return None
            with_default = depth < last or self._with_default
            value = struct[name] if with_default else struct.without_default(name)
        return value


class ExtractFieldKey(OfKey, ExtractField):
    """ExtractField of keys."""


class ExtractFieldValue(OfValue, ExtractField):
    """ExtractField of values."""
