"""Transformations of fields: InsertField adds the record's topic, partition, offset or timestamp,
or a fixed text; ReplaceField drops, keeps or renames fields; MaskField replaces their values by an
empty value of their type, or by a set one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any, Final, TypeAlias

from connect_runtime.api import (
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    ConfigError,
    DataError,
    Described,
    NonEmptyString,
    Schema,
    SinkRecord,
    Struct,
    Type,
    ValidList,
)
from connect_runtime.api.record_plugins import ConnectRecord, R
from connect_runtime.api.schema import TIMESTAMP_NAME, class_of, copy_basics
from connect_runtime.data.logical_types import date_of, from_millis, time_of
from connect_runtime.data.value_columns import StructColumn
from connect_runtime.java.scalars import java_split, parse_decimal, to_double, to_float, to_integer
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
    Half,
    KeyOrValue,
    OneHalf,
    key_and_value,
    options,
    require_map,
    require_struct,
)

_Read: TypeAlias = Callable[[ConnectRecord], Any]
_ReadColumn: TypeAlias = Callable[[Columns], Sequence[Any]]

_INSERTION: Final = "field insertion"


@dataclass(frozen=True, slots=True)
class _Insertion:
    """One field to add. `value` returns its value in a record, `column` in all; None is no
    value."""

    name: str
    schema: Schema
    value: _Read
    column: _ReadColumn

    @property
    def is_timestamp(self) -> bool:
        return self.schema.name == TIMESTAMP_NAME


def _offset(record: ConnectRecord) -> int:
    if not isinstance(record, SinkRecord):
        raise DataError(
            f"Only SinkRecord supported for [{_INSERTION}],"
            " found: org.apache.kafka.connect.source.SourceRecord"
        )
    return record.offset


class InsertField(KeyOrValue):
    """Adds fields to structs and maps."""

    OPTIONS = options("InsertField").embed(REPLACE_NULL_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the fields to add. Raises `ConfigError` if there are none."""
        static = options["static.value"]
        sources: tuple[tuple[str, Schema, _Read, _ReadColumn], ...] = (
            ("topic.field", STRING, lambda record: record.topic, lambda c: c["topics"]),
            ("partition.field", INT32, lambda record: record.partition, lambda c: c["partitions"]),
            ("offset.field", INT64, _offset, lambda c: c["offsets"]),
            ("timestamp.field", TIMESTAMP, lambda r: r.timestamp, lambda c: c["timestamps"]),
            ("static.field", STRING, lambda record: static, lambda c: [static] * len(c)),
        )
        self._insertions = [
            _insertion(options[key], schema, value, column)
            for key, schema, value, column in sources
            if options[key] is not None
        ]
        if not self._insertions:
            raise ConfigError("No field insertion configured")
        if options["static.field"] is not None and static is None:
            reason = f"No value specified for static field: {options['static.field']}"
            raise ConfigError.invalid("static.value", None, reason)
        self._with_default: bool = options[REPLACE_NULL]
        self._schemas = SchemaCache(self._target_schema)

    def apply(self, record: R) -> R | None:
        """Adds the fields; null stays null."""
        schema, value = self.half(record)
        if value is None:
            return record

        def additions() -> Iterable[Any]:
            return [insertion.value(record) for insertion in self._insertions]

        return self.with_half(record, *self._inserted(schema, value, additions))

    def apply_columns(self, columns: Columns) -> None:
        """Adds the fields; null stays null."""
        inserted = [insertion.column(columns) for insertion in self._insertions]
        fields = columns.fields(self.half_name)
        if fields is not None and not any(None in column for column in inserted):
            names = [insertion.name for insertion in self._insertions]
            columns.set_fields(
                self.half_name, {**fields, **dict(zip(names, inserted, strict=True))}
            )
            return
        maps = columns.maps(self.half_name)
        if maps is not None:
            self._insert(maps, inserted)
        elif not self._inserted_in_structs(columns, inserted):
            schemas = columns[SCHEMAS[self.half_name]]
            rows = zip(schemas, columns[self.half_name], zip(*inserted, strict=True), strict=True)
            halves = [self._inserted(schema, value, row.__iter__) for schema, value, row in rows]
            self.set_halves(columns, halves)

    def _inserted_in_structs(self, columns: Columns, inserted: Sequence[Sequence[Any]]) -> bool:
        """Adds the fields if all are structs of one schema, and get what is required."""
        if any(
            None in column and not insertion.schema.optional
            for insertion, column in zip(self._insertions, inserted, strict=True)
        ):
            return False
        structs = columns.structs(self.half_name, with_default=self._with_default)
        if structs is None:
            return False
        target, _ = self._schemas(structs.schema)
        fields = {
            insertion.name: [None if ms is None else from_millis(ms) for ms in column]
            if insertion.is_timestamp
            else column
            for insertion, column in zip(self._insertions, inserted, strict=True)
        }
        columns.set_structs(self.half_name, StructColumn(target, {**structs.fields, **fields}))
        return True

    def _insert(
        self, maps: Sequence[dict[str, Any] | None], inserted: Sequence[Sequence[Any]]
    ) -> None:
        for insertion, column in zip(self._insertions, inserted, strict=True):
            name = insertion.name
            if None not in maps and None not in column:
                for fields, value in zip(maps, column, strict=True):
                    fields[name] = value  # type: ignore[index]
                continue
            for fields, value in zip(maps, column, strict=True):
                if fields is not None and value is not None:
                    fields[name] = value

    def _inserted(
        self, schema: Schema | None, value: Any, additions: Callable[[], Iterable[Any]]
    ) -> Half:
        if value is None:
            return schema, None
        if schema is None:
            fields = dict(require_map(value, _INSERTION))
            for insertion, inserted in zip(self._insertions, additions(), strict=True):
                if inserted is not None:
                    fields[insertion.name] = inserted
            return None, fields
        struct = require_struct(value, _INSERTION, schema)
        target, copied = self._schemas(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        for insertion, inserted in zip(self._insertions, additions(), strict=True):
            if inserted is not None:
                is_timestamp = insertion.is_timestamp
                values[insertion.name] = from_millis(inserted) if is_timestamp else inserted
        return target, Struct.unchecked(target, values)

    def _target_schema(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = copy_basics(schema)
        for field in schema.fields:
            builder.field(field.name, field.schema)
        for insertion in self._insertions:
            builder.field(insertion.name, insertion.schema)
        return builder.build(), copied_fields(schema)


def _insertion(text: str, schema: Schema, value: _Read, column: _ReadColumn) -> _Insertion:
    if text.endswith("!"):
        return _Insertion(text[:-1], schema, value, column)
    return _Insertion(text.removesuffix("?"), schema.as_optional(), value, column)


InsertFieldKey, InsertFieldValue = key_and_value(InsertField)


_MOST_SHAPES: Final = 256
_PURPOSE: Final = "field replacement"


def parse_renames(mappings: list[str]) -> dict[str, str]:
    """Returns the names of renamed fields by their original ones. Raises `ConfigError`."""
    renames = {}
    for mapping in mappings:
        names = java_split(mapping, ":")
        if len(names) != 2:
            raise ConfigError.invalid("renames", mappings, f"Invalid rename mapping: {mapping}")
        renames[names[0]] = names[1]
    return renames


def _check_renames(name: str, value: list[str] | None) -> None:
    parse_renames(value or [])


class ReplaceField(OneHalf):
    """Drops and renames fields."""

    OPTIONS = options(
        "ReplaceField",
        {
            "exclude": ValidList(),
            "include": ValidList(),
            "renames": Described(
                _check_renames, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
            ),
        },
    ).embed(REPLACE_NULL_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the fields to drop, to keep and to rename."""
        self._exclude = frozenset(options["exclude"])
        self._include = frozenset(options["include"])
        self._renames = parse_renames(options["renames"])
        # of several fields that get one name, the last one counts
        self._sources = {target: source for source, target in self._renames.items()}
        self._with_default: bool = options[REPLACE_NULL]
        self._schemas = SchemaCache(self._target_schema)
        # by the names of a map's fields: names after and before of those that are kept
        self._shapes: dict[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Drops and renames the fields; null stays null."""
        if value is None:
            return schema, None
        if schema is None:
            return None, self._replaced(require_map(value, _PURPOSE))
        struct = require_struct(value, _PURPOSE, schema)
        target, copied = self._schemas(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        return target, Struct.unchecked(target, values)

    def apply_columns(self, columns: Columns) -> None:
        """Drops and renames the fields."""
        fields = columns.fields(self.half_name)
        if fields is not None:
            renamed = {
                self._renames.get(name, name): column
                for name, column in fields.items()
                if self._keeps(name)
            }
            columns.set_fields(self.half_name, renamed)
            return
        maps = columns.given_maps(self.half_name)
        if maps is not None:
            replaced = [None if fields is None else self._replaced(fields) for fields in maps]
            columns.set_maps(self.half_name, replaced)
        elif not self._replaced_in_structs(columns):
            super().apply_columns(columns)

    def _replaced_in_structs(self, columns: Columns) -> bool:
        """Drops and renames the fields if all are structs of one schema, and no field gets values
        of another schema."""
        structs = columns.structs(self.half_name, with_default=self._with_default)
        if structs is None:
            return False
        target, copied = self._schemas(structs.schema)
        if not copied or any(field.target_schema is not field.schema for field in copied):
            return False
        fields = {field.target: structs.fields[field.source] for field in copied}
        columns.set_structs(self.half_name, StructColumn(target, fields))
        return True

    def _replaced(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        targets, sources = self._shape(tuple(fields))
        return {target: fields[source] for target, source in zip(targets, sources, strict=True)}

    def _shape(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        shape = self._shapes.get(names)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            sources = tuple(filter(self._keeps, names))
            targets = tuple(self._renames.get(name, name) for name in sources)
            shape = self._shapes[names] = targets, sources
        return shape

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _target_schema(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = copy_basics(schema, Type.STRUCT)
        for field in schema.fields:
            if self._keeps(field.name):
                builder.field(self._renames.get(field.name, field.name), field.schema)
        target = builder.build()
        copied = []
        for field in target.fields:
            # As in Connect, by the target's name alone: with `renames=a:b`, a field b of the source
            # that is kept while a is dropped gets the value of a.
            source = self._sources.get(field.name, field.name)
            source_schema = schema.field(source)
            if source_schema is None:
                raise DataError(f"{source} is not a valid field name")
            copied.append(CopiedField(source, field.name, source_schema, field.schema))
        return target, tuple(copied)


ReplaceFieldKey, ReplaceFieldValue = key_and_value(ReplaceField)


_MASKING: Final = "mask fields"
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
            changed = dict(require_map(value, _MASKING))
            for name in self._fields:
                changed[name] = self._masked(changed.get(name), None)
            return None, changed
        struct = require_struct(value, _MASKING, schema)
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
