"""MaskField replaces values of fields by an empty value of their type, or by a set one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import NoneType
from typing import Any, Final

from connect_runtime.api import (
    DataError,
    NonEmptyString,
    Schema,
    Struct,
    Type,
    ValidList,
)
from connect_runtime.api.schema import class_of
from connect_runtime.data.field_columns import StructColumn
from connect_runtime.data.logical_types import date_of, from_millis, time_of
from connect_runtime.java.numbers import parse_decimal, to_double, to_float, to_integer
from connect_runtime.transforms.columns import Columns, options
from connect_runtime.transforms.fields import (
    REPLACE_NULL,
    REPLACE_NULL_OPTION,
    SchemaCache,
    copied_fields,
    copy_values,
)
from connect_runtime.transforms.key_or_value import (
    Half,
    OneHalf,
    key_and_value,
    require_map,
    require_struct,
)

_PURPOSE: Final = "mask fields"
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32}
# values whose masks depend on their type alone, and can be shared by records
_SHARED: Final = {NoneType, bool, int, float, str}


class MaskField(OneHalf):
    """Masks fields; null stays null."""

    OPTIONS = options(
        "MaskField", {"fields": ValidList(allows_empty=False), "replacement": NonEmptyString()}
    ).embed(REPLACE_NULL_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets fields and replacement."""
        self._fields: tuple[str, ...] = tuple(dict.fromkeys(options["fields"]))
        self._replacement: str | None = options["replacement"]
        self._with_default: bool = options[REPLACE_NULL]
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
        fields = columns.fields(self.half_name)
        if fields is not None:
            missing = [None] * len(columns)
            masked = {n: self._masked_column(fields.get(n, missing), None) for n in self._fields}
            columns.set_fields(self.half_name, {**fields, **masked})
            return
        structs = columns.structs(self.half_name, with_default=self._with_default)
        if structs is None:
            super().apply_columns(columns)
            return
        masked = {
            name: self._masked_column(structs.fields[name], schema)
            for name in self._fields
            if (schema := structs.schema.field(name)) is not None
        }
        columns.set_structs(
            self.half_name, StructColumn(structs.schema, {**structs.fields, **masked})
        )

    def _masked_column(self, column: Sequence[Any], schema: Schema | None) -> Sequence[Any]:
        types = set(map(type, column))
        if not types <= _SHARED:
            return [self._masked(value, schema) for value in column]
        examples = {cls: next(v for v in column if type(v) is cls) for cls in types}
        masks = {cls: self._masked(value, schema) for cls, value in examples.items()}
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
        name = class_of(value, schema)
        raise DataError(f"Cannot mask value of type class {name} with custom replacement.")
    try:
        number = parse_decimal(replacement)
    except ValueError as error:
        target = "number" if isinstance(value, Decimal) else "a number"
        text = f"Unable to convert {replacement} (class java.lang.String) to {target}"
        raise DataError(text) from error
    if isinstance(value, Decimal):
        return number
    if isinstance(value, float):
        is_float = schema is not None and schema.type is Type.FLOAT32
        return to_float(number) if is_float else to_double(number)
    return to_integer(number, 64 if schema is None else _BITS.get(schema.type, 64))


MaskFieldKey, MaskFieldValue = key_and_value(MaskField)
