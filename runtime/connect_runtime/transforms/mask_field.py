"""Replaces the values of fields by an empty value of their type, or by a given one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import NoneType
from typing import Any, Final

from connect_runtime.api import (
    ConfigDef,
    ConfigType,
    DataError,
    Importance,
    NonEmptyString,
    Schema,
    Struct,
    Type,
    ValidList,
)
from connect_runtime.api.field_columns import StructColumn
from connect_runtime.api.java_numbers import parse_decimal, to_double, to_float, to_integer
from connect_runtime.data.java_types import class_of
from connect_runtime.data.timestamps import date_of, from_millis, time_of
from connect_runtime.transforms.columns import Columns
from connect_runtime.transforms.copying import (
    REPLACE_NULL,
    copied_fields,
    copy_values,
    define_replace_null,
)
from connect_runtime.transforms.key_or_value import (
    Half,
    OfKey,
    OfValue,
    OneHalf,
    require_map,
    require_struct,
)
from connect_runtime.transforms.schema_cache import SchemaCache

_PURPOSE: Final = "mask fields"
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32}
# values whose masks depend on their type alone, and can be shared by records
_SHARED: Final = {NoneType, bool, int, float, str}
_CONFIG: Final = define_replace_null(
    ConfigDef()
    .define(
        "fields",
        ConfigType.LIST,
        validator=ValidList(allows_empty=False),
        importance=Importance.HIGH,
        doc="Names of fields to mask.",
    )
    .define(
        "replacement",
        ConfigType.STRING,
        None,
        validator=NonEmptyString(),
        importance=Importance.LOW,
        doc="Custom value replacement, that will be applied to all 'fields' values (numeric or"
        " non-empty string values only).",
    )
)


class MaskField(OneHalf):
    """Masks fields; null stays null."""

    def config(self) -> ConfigDef:
        """The options."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        parsed = _CONFIG.parse(options)
        self._fields: tuple[str, ...] = tuple(dict.fromkeys(parsed["fields"]))
        self._replacement: str | None = parsed["replacement"]
        self._with_default: bool = parsed[REPLACE_NULL]
        self._copied = SchemaCache(copied_fields)

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Masks the fields. A map gets those that it lacks, as null."""
        if schema is None:
            changed = dict(require_map(value, _PURPOSE))
            for name in self._fields:
                changed[name] = self._masked(changed.get(name), None)
            return None, changed
        struct = require_struct(value, _PURPOSE, schema)
        copied = self._copied(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        for name in self._fields:
            if name in values:
                values[name] = self._masked(values[name], struct.schema.field(name))
        return schema, Struct.unchecked(struct.schema, values)

    def apply_columns(self, columns: Columns) -> None:
        """Masks the fields."""
        fields = columns.fields(self.part)
        if fields is not None:
            missing = [None] * len(columns)
            masked = {n: self._masked_column(fields.get(n, missing), None) for n in self._fields}
            columns.set_fields(self.part, {**fields, **masked})
            return
        structs = columns.structs(self.part, with_default=self._with_default)
        if structs is None:
            super().apply_columns(columns)
            return
        masked = {
            name: self._masked_column(structs.fields[name], schema)
            for name in self._fields
            if (schema := structs.schema.field(name)) is not None
        }
        columns.set_structs(self.part, StructColumn(structs.schema, {**structs.fields, **masked}))

    def _masked_column(self, column: Sequence[Any], schema: Schema | None) -> Sequence[Any]:
        kinds = set(map(type, column))
        if not kinds <= _SHARED:
            return [self._masked(value, schema) for value in column]
        examples = {kind: next(v for v in column if type(v) is kind) for kind in kinds}
        masks = {kind: self._masked(value, schema) for kind, value in examples.items()}
        if len(masks) == 1:
            return list(masks.values()) * len(column)
        return [masks[type(value)] for value in column]

    def _masked(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        if self._replacement is None:
            return _empty(value, schema)
        return _replaced(value, schema, self._replacement)


def _empty(value: Any, schema: Schema | None) -> Any:
    match value:
        case bool() | int() | float() | str() | Decimal():
            return type(value)()
        case list() | tuple():
            return []
        case Mapping():
            return {}
        case dt.datetime():
            return from_millis(0)
        case dt.date():
            return date_of(0)
        case dt.time():
            return time_of(0)
        case _:
            raise DataError(f"Cannot mask value of type: class {class_of(value, schema)}")


def _replaced(value: Any, schema: Schema | None, replacement: str) -> Any:
    if isinstance(value, str):
        return replacement
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        found = class_of(value, schema)
        raise DataError(f"Cannot mask value of type class {found} with custom replacement.")
    try:
        number = parse_decimal(replacement)
    except ValueError as error:
        what = "number" if isinstance(value, Decimal) else "a number"
        text = f"Unable to convert {replacement} (class java.lang.String) to {what}"
        raise DataError(text) from error
    if isinstance(value, Decimal):
        return number
    if isinstance(value, float):
        is_float = schema is not None and schema.type is Type.FLOAT32
        return to_float(number) if is_float else to_double(number)
    return to_integer(number, 64 if schema is None else _BITS.get(schema.type, 64))


class MaskFieldKey(OfKey, MaskField):
    """MaskField of keys."""


class MaskFieldValue(OfValue, MaskField):
    """MaskField of values."""
