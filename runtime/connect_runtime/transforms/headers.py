"""Adds and removes headers: DropHeaders, InsertHeader and HeaderFrom."""

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
    NonEmptyList,
    NonNull,
    OneOf,
    Schema,
    Struct,
    Type,
    ValidList,
)
from connect_runtime.api.headers import Header, Headers
from connect_runtime.api.schema_builder import copy_basics
from connect_runtime.api.transforms import R
from connect_runtime.data.literals import parse_literal
from connect_runtime.transforms.columns import SCHEMAS, Columns, ColumnTransformation
from connect_runtime.transforms.copying import (
    REPLACE_NULL,
    CopiedField,
    copied_fields,
    copy_values,
    define_replace_null,
    read_field,
)
from connect_runtime.transforms.errors import MissingField
from connect_runtime.transforms.key_or_value import (
    Half,
    OfKey,
    OfValue,
    OneHalf,
    require_map,
    require_struct,
)
from connect_runtime.transforms.schema_cache import SchemaCache

_DROP: Final = ConfigDef().define(
    "headers",
    ConfigType.LIST,
    validator=ValidList(allows_empty=False),
    importance=Importance.HIGH,
    doc="The name of the headers to be removed.",
)
_INSERT: Final = (
    ConfigDef()
    .define(
        "header",
        ConfigType.STRING,
        validator=NonNull(),
        importance=Importance.HIGH,
        doc="The name of the header.",
    )
    .define(
        "value.literal",
        ConfigType.STRING,
        validator=NonNull(),
        importance=Importance.HIGH,
        doc="The literal value that is to be set as the header value on all records.",
    )
)
_FROM: Final = define_replace_null(
    ConfigDef()
    .define(
        "fields",
        ConfigType.LIST,
        validator=NonEmptyList(),
        importance=Importance.HIGH,
        doc="Field names in the record whose values are to be copied or moved to headers.",
    )
    .define(
        "headers",
        ConfigType.LIST,
        validator=NonEmptyList(),
        importance=Importance.HIGH,
        doc="Header names, in the same order as the field names listed in the fields configuration"
        " property.",
    )
    .define(
        "operation",
        ConfigType.STRING,
        validator=OneOf.strings("move", "copy"),
        importance=Importance.HIGH,
        doc="Either <code>move</code> if the fields are to be moved to the headers (removed from"
        " the key/value), or <code>copy</code> if the fields are to be copied to the headers"
        " (retained in the key/value).",
    )
)


class DropHeaders(ColumnTransformation):
    """Removes all headers with the listed names."""

    def config(self) -> ConfigDef:
        """The options."""
        return _DROP

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        self._dropped = frozenset(_DROP.parse(options)["headers"])

    def apply(self, record: R) -> R | None:
        """Removes the headers."""
        kept = self._kept(record.headers)
        return record if len(kept) == len(record.headers) else replace(record, headers=kept)

    def apply_columns(self, columns: Columns) -> None:
        """Removes the headers."""
        columns["headers"] = [each and self._kept(each) for each in columns["headers"]]

    def _kept(self, headers: Headers) -> Headers:
        return tuple(header for header in headers if header.key not in self._dropped)


class InsertHeader(ColumnTransformation):
    """Adds the same header to every record. Its type is inferred from the text."""

    def config(self) -> ConfigDef:
        """The options."""
        return _INSERT

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        parsed = _INSERT.parse(options)
        schema, value = parse_literal(parsed["value.literal"])
        self._header = Header(parsed["header"], value, schema)

    def apply(self, record: R) -> R | None:
        """Adds the header behind the others."""
        return replace(record, headers=(*record.headers, self._header))

    def apply_columns(self, columns: Columns) -> None:
        """Adds the header behind the others."""
        columns["headers"] = [(*each, self._header) for each in columns["headers"]]


class HeaderFrom(OneHalf):
    """Moves or copies fields to headers."""

    def config(self) -> ConfigDef:
        """The options."""
        return _FROM

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options. Raises `ConfigError` unless each field has a header."""
        parsed = _FROM.parse(options)
        self._fields: list[str] = parsed["fields"]
        self._headers: list[str] = parsed["headers"]
        if len(self._fields) != len(self._headers):
            raise ConfigError(
                "'fields' config must have the same number of elements as 'headers' config."
            )
        self._purpose = f"header {parsed['operation']}"
        self._moved = frozenset(self._fields if parsed["operation"] == "move" else ())
        self._with_default: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache(self._remaining)

    def apply(self, record: R) -> R | None:
        """Adds the headers behind the others; a move removes the fields."""
        schema, value = self.half(record)
        headers = record.headers + self._added(schema, value)
        new_schema, new_value = self.change(schema, value)
        return self.with_half(record, new_schema, new_value, headers=headers)

    def apply_columns(self, columns: Columns) -> None:
        """Adds the headers behind the others; a move removes the fields."""
        halves = zip(columns[SCHEMAS[self.part]], columns[self.part], strict=True)
        added = [self._added(schema, value) for schema, value in halves]
        pairs = zip(columns["headers"], added, strict=True)
        columns["headers"] = [headers + more for headers, more in pairs]
        super().apply_columns(columns)

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Removes the fields from the value if they are moved."""
        if not self._moved:
            return schema, value
        if schema is None:
            return None, {k: v for k, v in value.items() if k not in self._moved}
        made, copied = self._schemas(schema)
        values = copy_values(copied, value, with_default=self._with_default)
        return made, Struct.unchecked(made, values)

    def _added(self, schema: Schema | None, value: Any) -> Headers:
        if schema is None:
            found = require_map(value, self._purpose)
            pairs = zip(self._headers, self._fields, strict=True)
            return tuple(_untyped(header, found.get(field)) for header, field in pairs)
        struct = require_struct(value, self._purpose, schema)
        return tuple(
            self._header(schema, struct, header, field)
            for header, field in zip(self._headers, self._fields, strict=True)
        )

    def _header(self, schema: Schema, struct: Struct, header: str, field: str) -> Header:
        found = schema.field(field)
        if found is None:
            raise MissingField(
                'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return'
                ' value of "org.apache.kafka.connect.data.Schema.field(String)" is null'
            )
        value = read_field(struct, field, with_default=self._with_default)
        if value is None and not found.optional:
            raise DataError(f"A null value requires an optional schema but was {found}")
        return Header(header, value, found)

    def _remaining(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = copy_basics(schema, Type.STRUCT)
        for field in schema.fields:
            if field.name not in self._moved:
                builder.field(field.name, field.schema)
        made = builder.build()
        return made, copied_fields(made)


def _untyped(header: str, value: Any) -> Header:
    # a struct brings its schema along
    return Header(header, value, value.schema if isinstance(value, Struct) else None)


class HeaderFromKey(OfKey, HeaderFrom):
    """HeaderFrom of keys."""


class HeaderFromValue(OfValue, HeaderFrom):
    """HeaderFrom of values."""
