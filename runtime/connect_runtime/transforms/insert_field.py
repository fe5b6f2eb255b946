"""InsertField adds the record's topic, partition, offset or timestamp, or a fixed text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from connect_runtime.api import (
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    ConfigError,
    DataError,
    Schema,
    SinkRecord,
    Struct,
)
from connect_runtime.api.record_plugins import ConnectRecord, R
from connect_runtime.api.schema import TIMESTAMP_NAME, copy_basics
from connect_runtime.data.logical_types import from_millis
from connect_runtime.data.value_columns import StructColumn
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
    key_and_value,
    options,
    require_map,
    require_struct,
)

_Read: TypeAlias = Callable[[ConnectRecord], Any]
_ReadColumn: TypeAlias = Callable[[Columns], Sequence[Any]]

_PURPOSE: Final = "field insertion"


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
            f"Only SinkRecord supported for [{_PURPOSE}],"
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
            fields = dict(require_map(value, _PURPOSE))
            for insertion, inserted in zip(self._insertions, additions(), strict=True):
                if inserted is not None:
                    fields[insertion.name] = inserted
            return None, fields
        struct = require_struct(value, _PURPOSE, schema)
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
