"""DropHeaders, InsertHeader and HeaderFrom add and remove headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from connect_runtime.api import (
    ConfigError,
    DataError,
    NonEmptyList,
    NonNull,
    OneOf,
    Schema,
    Struct,
    Type,
    ValidList,
)
from connect_runtime.api.record_plugins import R
from connect_runtime.api.records import Header, Headers
from connect_runtime.api.schema import copy_basics
from connect_runtime.data.simple_header_converter import parse_literal
from connect_runtime.transforms.fields import (
    REPLACE_NULL,
    REPLACE_NULL_OPTION,
    CopiedField,
    SchemaCache,
    copied_fields,
    copy_values,
)
from connect_runtime.transforms.transformation import (
    SCHEMAS,
    Columns,
    ColumnTransformation,
    Half,
    MissingField,
    OneHalf,
    key_and_value,
    options,
    require_map,
    require_struct,
)


class DropHeaders(ColumnTransformation):
    """Removes all headers with the listed names."""

    OPTIONS = options("DropHeaders", {"headers": ValidList(allows_empty=False)})

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Reads the options."""
        self._dropped = frozenset(options["headers"])

    def apply(self, record: R) -> R | None:
        """Removes the headers."""
        headers = self._remaining(record.headers)
        return record if len(headers) == len(record.headers) else replace(record, headers=headers)

    def apply_columns(self, columns: Columns) -> None:
        """Removes the headers."""
        columns["headers"] = [
            headers and self._remaining(headers) for headers in columns["headers"]
        ]

    def _remaining(self, headers: Headers) -> Headers:
        return tuple(header for header in headers if header.key not in self._dropped)


class InsertHeader(ColumnTransformation):
    """Adds the same header to every record. Its type is inferred from the text."""

    OPTIONS = options("InsertHeader", {"header": NonNull(), "value.literal": NonNull()})

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Reads the options."""
        schema, value = parse_literal(options["value.literal"])
        self._header = Header(options["header"], value, schema)

    def apply(self, record: R) -> R | None:
        """Adds the header behind the others."""
        return replace(record, headers=(*record.headers, self._header))

    def apply_columns(self, columns: Columns) -> None:
        """Adds the header behind the others."""
        columns["headers"] = [(*headers, self._header) for headers in columns["headers"]]


class HeaderFrom(OneHalf):
    """Moves or copies fields to headers."""

    OPTIONS = options(
        "HeaderFrom",
        {
            "fields": NonEmptyList(),
            "headers": NonEmptyList(),
            "operation": OneOf.strings("move", "copy"),
        },
    ).embed(REPLACE_NULL_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Reads the options. Raises `ConfigError` unless each field has a header."""
        self._fields: list[str] = options["fields"]
        self._headers: list[str] = options["headers"]
        if len(self._fields) != len(self._headers):
            raise ConfigError(
                "'fields' config must have the same number of elements as 'headers' config."
            )
        self._purpose = f"header {options['operation']}"
        self._moved = frozenset(self._fields if options["operation"] == "move" else ())
        self._with_default: bool = options[REPLACE_NULL]
        self._schemas = SchemaCache(self._without_moved)

    def apply(self, record: R) -> R | None:
        """Adds the headers behind the others; a move removes the fields."""
        schema, value = self.half(record)
        headers = record.headers + self._added(schema, value)
        changed_schema, changed = self.change(schema, value)
        return self.with_half(record, changed_schema, changed, headers=headers)

    def apply_columns(self, columns: Columns) -> None:
        """Adds the headers behind the others; a move removes the fields."""
        halves = zip(columns[SCHEMAS[self.half_name]], columns[self.half_name], strict=True)
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
        target, copied = self._schemas(schema)
        values = copy_values(copied, value, with_default=self._with_default)
        return target, Struct.unchecked(target, values)

    def _added(self, schema: Schema | None, value: Any) -> Headers:
        if schema is None:
            fields = require_map(value, self._purpose)
            pairs = zip(self._headers, self._fields, strict=True)
            return tuple(_untyped(header, fields.get(field)) for header, field in pairs)
        struct = require_struct(value, self._purpose, schema)
        return tuple(
            self._header(schema, struct, header, field)
            for header, field in zip(self._headers, self._fields, strict=True)
        )

    def _header(self, schema: Schema, struct: Struct, header: str, field: str) -> Header:
        field_schema = schema.field(field)
        if field_schema is None:
            raise MissingField(
                'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return'
                ' value of "org.apache.kafka.connect.data.Schema.field(String)" is null'
            )
        value = struct[field] if self._with_default else struct.without_default(field)
        if value is None and not field_schema.optional:
            raise DataError(f"A null value requires an optional schema but was {field_schema}")
        return Header(header, value, field_schema)

    def _without_moved(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = copy_basics(schema, Type.STRUCT)
        for field in schema.fields:
            if field.name not in self._moved:
                builder.field(field.name, field.schema)
        target = builder.build()
        return target, copied_fields(target)


def _untyped(header: str, value: Any) -> Header:
    # a struct brings its schema along
    return Header(header, value, value.schema if isinstance(value, Struct) else None)


HeaderFromKey, HeaderFromValue = key_and_value(HeaderFrom)
