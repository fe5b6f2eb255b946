"""Copies fields from one struct to another, with Connect's rules for nulls and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from connect_runtime.api import (
    ConfigDef,
    ConfigType,
    DataError,
    Field,
    Importance,
    Schema,
    Struct,
    Type,
)
from connect_runtime.api.schema import validate_value, wrong_class
from connect_runtime.data.java_types import class_of

REPLACE_NULL: Final = "replace.null.with.default"


def define_replace_null(config: ConfigDef) -> ConfigDef:
    """Adds the key `replace.null.with.default`."""
    return config.define(
        REPLACE_NULL,
        ConfigType.BOOLEAN,
        True,
        importance=Importance.MEDIUM,
        doc="Whether to replace fields that have a default value and that are null to the default"
        " value. When set to true, the default value is used, otherwise null is used.",
    )


def read_field(struct: Struct, name: str, *, with_default: bool) -> Any:
    """Returns a field's value; its default instead of null if `with_default`."""
    return struct[name] if with_default else struct.without_default(name)


def struct_fields(schema: Schema) -> tuple[Field, ...]:
    """Returns the fields of a struct. Raises `DataError` for any other schema."""
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


@dataclass(frozen=True, slots=True)
class CopiedField:
    """A field to copy, with its names and schemas before and after."""

    source: str
    target: str
    schema: Schema
    new_schema: Schema

    def read(self, values: dict[str, Any], *, with_default: bool) -> Any:
        """Returns the value to write. Raises `DataError` if it does not fit the new schema. Under
        the same schema only null may not fit: others were checked when they were written."""
        value = values.get(self.source)
        if value is None and with_default:
            value = self.schema.default
        if value is None:
            if not self.new_schema.optional:
                validate_value(self.new_schema, value, field=self.target)
        elif self.new_schema.type is not self.schema.type:
            found = class_of(value, self.schema)
            raise wrong_class(self.new_schema, found, f'field: "{self.target}"')
        elif self.new_schema is not self.schema:
            validate_value(self.new_schema, value, field=self.target)
        return value


def copied_fields(schema: Schema) -> tuple[CopiedField, ...]:
    """Returns all fields of a struct, to copy under their names."""
    return tuple(CopiedField(f.name, f.name, f.schema, f.schema) for f in schema.fields)


def copy_values(
    fields: tuple[CopiedField, ...], struct: Struct, *, with_default: bool
) -> dict[str, Any]:
    """Returns values of the `fields` of a struct. Raises `DataError`."""
    given = struct.values
    return {f.target: f.read(given, with_default=with_default) for f in fields}
