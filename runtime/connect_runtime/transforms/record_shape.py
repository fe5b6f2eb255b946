"""Transformations that change the shape of a key or value: HoistField, ExtractField, ValueToKey,
SetSchemaMetadata, and Flatten, which lifts nested fields to the top under joined names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from connect_runtime.api import ConfigError, DataError, Field, Schema, Struct, Type, ValidList
from connect_runtime.api.record_plugins import R
from connect_runtime.api.schema import SchemaBuilder, copy_basics, validate_value
from connect_runtime.data.value_columns import StructColumn
from connect_runtime.java.scalars import java_class
from connect_runtime.transforms.fields import (
    FIELD_SYNTAX,
    FIELD_SYNTAX_OPTION,
    REPLACE_NULL,
    REPLACE_NULL_OPTION,
    CopiedField,
    SchemaCache,
    copied_fields,
    copy_values,
    field_path,
    struct_fields,
)
from connect_runtime.transforms.transformation import (
    SCHEMAS,
    Columns,
    ColumnTransformation,
    Half,
    InvalidArgument,
    OneHalf,
    key_and_value,
    options,
    require_map,
    require_struct,
)

_PLAIN: Final = {
    Type.BOOLEAN: bool,
    Type.FLOAT64: float,
    Type.STRING: str,
    Type.BYTES: bytes,
}
_EXTRACTION: Final = "field extraction"
_NESTED_ACCESS: Final = "nested field access"
_KEY_FROM_VALUE: Final = "copying fields from value to key"


class HoistField(OneHalf):
    """Wraps the key or value in a struct or map with one field."""

    OPTIONS = options("HoistField")

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the field's name."""
        self._field: str = options["field"]
        self._schemas = SchemaCache(
            lambda schema: SchemaBuilder(Type.STRUCT).field(self._field, schema).build()
        )

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Wraps the value, null included."""
        if schema is None:
            return None, {self._field: value}
        wrapper = self._schemas(schema)
        return wrapper, Struct(wrapper, {self._field: value})

    def apply_columns(self, columns: Columns) -> None:
        """Wraps the values."""
        schemas, values = columns[SCHEMAS[self.half_name]], columns[self.half_name]
        if not any(schemas):
            columns.set_fields(self.half_name, {self._field: values})
        elif _all_fit(schemas, values):
            wrapper = self._schemas(schemas[0])
            columns.set_structs(self.half_name, StructColumn(wrapper, {self._field: values}))
        else:
            super().apply_columns(columns)


def _all_fit(schemas: Sequence[Schema], values: Sequence[Any]) -> bool:
    """Returns True if all values are of one schema whose values are those of a Python type."""
    first = schemas[0]
    plain = None if first is None or first.name is not None else _PLAIN.get(first.type)
    return set(map(type, values)) == {plain} and schemas.count(first) == len(schemas)


HoistFieldKey, HoistFieldValue = key_and_value(HoistField)


class ExtractField(OneHalf):
    """Replaces the key or value by one of its fields, also one within others if the syntax is
    V2."""

    OPTIONS = options("ExtractField").embed(REPLACE_NULL_OPTION).embed(FIELD_SYNTAX_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the field's path."""
        self._text: str = options["field"]
        self._path = field_path(self._text, options[FIELD_SYNTAX])
        self._with_default: bool = options[REPLACE_NULL]

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Returns the field's schema and value; null for a field of null."""
        if schema is None:
            return None, self._from_map(value)
        if value is not None:
            require_struct(value, _EXTRACTION, schema)
        return self._schema(schema), self._from_struct(value)

    def _from_map(self, value: Any) -> Any:
        purpose = _EXTRACTION
        for name in self._path:
            if value is None:
                return None
            value = require_map(value, purpose).get(name)
            purpose = _NESTED_ACCESS
        return value

    def _schema(self, schema: Schema) -> Schema:
        field: Schema | None = schema
        for name in self._path:
            if field is None:
                break
            if field.type is not Type.STRUCT:
                raise DataError("Cannot look up fields on non-struct type")
            field = field.field(name)
        if field is None:
            raise InvalidArgument(f"Unknown field: {self._text}")
        return field

    def _from_struct(self, value: Any) -> Any:
        last = len(self._path) - 1
        for depth, name in enumerate(self._path):
            if value is None:
                return None
            struct = require_struct(value, _NESTED_ACCESS)
            if struct.schema.field(name) is None:
                return None
            with_default = depth < last or self._with_default
            value = struct[name] if with_default else struct.without_default(name)
        return value


ExtractFieldKey, ExtractFieldValue = key_and_value(ExtractField)


class ValueToKey(ColumnTransformation):
    """Replaces the key by a struct or map of fields of the value."""

    OPTIONS = options("ValueToKey", {"fields": ValidList(allows_empty=False)}).embed(
        REPLACE_NULL_OPTION
    )

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the fields."""
        self._fields: list[str] = options["fields"]
        self._with_default: bool = options[REPLACE_NULL]
        self._schemas = SchemaCache(self._key_schema)

    def apply(self, record: R) -> R | None:
        """Replaces the key."""
        schema, key = self._key(record.value_schema, record.value)
        return replace(record, key_schema=schema, key=key)

    def apply_columns(self, columns: Columns) -> None:
        """Replaces the keys."""
        values = zip(columns["value_schemas"], columns["values"], strict=True)
        keys = [self._key(schema, value) for schema, value in values]
        columns["key_schemas"] = [schema for schema, _ in keys]
        columns["keys"] = [key for _, key in keys]

    def _key(self, schema: Schema | None, value: Any) -> Half:
        if schema is None:
            fields = require_map(value, _KEY_FROM_VALUE)
            return None, {name: fields.get(name) for name in self._fields}
        struct = require_struct(value, _KEY_FROM_VALUE, schema)
        key_schema, copied = self._schemas(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        return key_schema, Struct.unchecked(key_schema, values)

    def _key_schema(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = SchemaBuilder(Type.STRUCT)
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            builder.field(name, field)
        key_schema = builder.build()
        return key_schema, copied_fields(key_schema)


class SetSchemaMetadata(OneHalf):
    """Sets the name of a schema, its version or both."""

    OPTIONS = options("SetSchemaMetadata").embed(REPLACE_NULL_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets name and version. Raises `ConfigError` if there is neither."""
        self._name: str | None = options["schema.name"]
        self._version: int | None = options["schema.version"]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")
        self._with_default: bool = options[REPLACE_NULL]
        self._schemas = SchemaCache(self._renamed)

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Replaces the schema, also that of a struct."""
        if schema is None:
            if value is None:
                return None, None
            raise DataError("Schema required for [updating schema metadata]")
        renamed, copied = self._schemas(schema)
        if isinstance(value, Struct):
            values = copy_values(copied, value, with_default=self._with_default)
            value = Struct.unchecked(renamed, values)
        return renamed, value

    def _renamed(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        struct_fields(schema)
        name = schema.name if self._name is None else self._name
        version = schema.version if self._version is None else self._version
        return replace(schema, name=name, version=version), copied_fields(schema)


SetSchemaMetadataKey, SetSchemaMetadataValue = key_and_value(SetSchemaMetadata)


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
