"""Adds fields with the record's topic, partition, offset or timestamp, or with a fixed text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from connect_runtime.api import (
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    ConfigDef,
    ConfigError,
    ConfigType,
    DataError,
    Importance,
    Schema,
    SinkRecord,
    Struct,
)
from connect_runtime.api.field_columns import StructColumn
from connect_runtime.api.schema import TIMESTAMP_NAME
from connect_runtime.api.schema_builder import copy_basics
from connect_runtime.api.transforms import ConnectRecord, R
from connect_runtime.data.timestamps import from_millis
from connect_runtime.transforms.columns import SCHEMAS, Columns
from connect_runtime.transforms.copying import (
    REPLACE_NULL,
    CopiedField,
    copied_fields,
    copy_values,
    define_replace_null,
)
from connect_runtime.transforms.key_or_value import (
    Half,
    KeyOrValue,
    OfKey,
    OfValue,
    require_map,
    require_struct,
)
from connect_runtime.transforms.schema_cache import SchemaCache

_Read: TypeAlias = Callable[[ConnectRecord], Any]
_ReadColumn: TypeAlias = Callable[[Columns], Sequence[Any]]

_PURPOSE: Final = "field insertion"
_OPTIONALITY: Final = (
    "Suffix with <code>!</code> to make this a required field, or <code>?</code> to keep it"
    " optional (the default)."
)


def _defined() -> ConfigDef:
    config = ConfigDef()
    for key, doc in (
        ("topic.field", f"Field name for Kafka topic. {_OPTIONALITY}"),
        ("partition.field", f"Field name for Kafka partition. {_OPTIONALITY}"),
        (
            "offset.field",
            f"Field name for Kafka offset - only applicable to sink connectors.<br/>{_OPTIONALITY}",
        ),
        ("timestamp.field", f"Field name for record timestamp. {_OPTIONALITY}"),
        ("static.field", f"Field name for static data field. {_OPTIONALITY}"),
        ("static.value", "Static field value, if field name configured."),
    ):
        config.define(key, ConfigType.STRING, None, importance=Importance.MEDIUM, doc=doc)
    return define_replace_null(config)


_CONFIG: Final = _defined()


@dataclass(frozen=True, slots=True)
class _Insertion:
    """One field to add. `read` returns its value in a record, `column` in all; None is no value."""

    name: str
    schema: Schema
    read: _Read
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

    def config(self) -> ConfigDef:
        """The options."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options. Raises `ConfigError` if they name no field."""
        parsed = _CONFIG.parse(options)
        static = parsed["static.value"]
        sources: tuple[tuple[str, Schema, _Read, _ReadColumn], ...] = (
            ("topic.field", STRING, lambda record: record.topic, lambda c: c["topics"]),
            ("partition.field", INT32, lambda record: record.partition, lambda c: c["partitions"]),
            ("offset.field", INT64, _offset, lambda c: c["offsets"]),
            ("timestamp.field", TIMESTAMP, lambda r: r.timestamp, lambda c: c["timestamps"]),
            ("static.field", STRING, lambda record: static, lambda c: [static] * len(c)),
        )
        self._insertions = [
            _insertion(parsed[key], schema, read, column)
            for key, schema, read, column in sources
            if parsed[key] is not None
        ]
        if not self._insertions:
            raise ConfigError("No field insertion configured")
        if parsed["static.field"] is not None and static is None:
            why = f"No value specified for static field: {parsed['static.field']}"
            raise ConfigError.invalid("static.value", None, why)
        self._with_default: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache(self._made)

    def apply(self, record: R) -> R | None:
        """Adds the fields; null stays null."""
        schema, value = self.half(record)
        if value is None:
            return record
        read = partial(self._read, record)
        return self.with_half(record, *self._inserted(schema, value, read))

    def apply_columns(self, columns: Columns) -> None:
        """Adds the fields; null stays null."""
        found = [each.column(columns) for each in self._insertions]
        fields = columns.fields(self.part)
        if fields is not None and not any(None in column for column in found):
            names = [each.name for each in self._insertions]
            inserted = dict(zip(names, found, strict=True))
            columns.set_fields(self.part, {**fields, **inserted})
            return
        maps = columns.maps(self.part)
        if maps is not None:
            self._insert(maps, found)
        elif not self._inserted_in_structs(columns, found):
            schemas = columns[SCHEMAS[self.part]]
            rows = zip(schemas, columns[self.part], zip(*found, strict=True), strict=True)
            halves = [self._inserted(schema, value, row.__iter__) for schema, value, row in rows]
            self.set_halves(columns, halves)

    def _inserted_in_structs(self, columns: Columns, found: Sequence[Sequence[Any]]) -> bool:
        """Adds the fields if all are structs of one schema, and get what is required."""
        if any(
            None in column and not insertion.schema.optional
            for insertion, column in zip(self._insertions, found, strict=True)
        ):
            return False
        structs = columns.structs(self.part, with_default=self._with_default)
        if structs is None:
            return False
        made, _ = self._schemas(structs.schema)
        inserted = {
            insertion.name: [None if ms is None else from_millis(ms) for ms in column]
            if insertion.is_timestamp
            else column
            for insertion, column in zip(self._insertions, found, strict=True)
        }
        columns.set_structs(self.part, StructColumn(made, {**structs.fields, **inserted}))
        return True

    def _insert(
        self, maps: Sequence[dict[str, Any] | None], found: Sequence[Sequence[Any]]
    ) -> None:
        for insertion, column in zip(self._insertions, found, strict=True):
            name = insertion.name
            if None not in maps and None not in column:
                for each, value in zip(maps, column, strict=True):
                    each[name] = value  # type: ignore[index]
                continue
            for each, value in zip(maps, column, strict=True):
                if each is not None and value is not None:
                    each[name] = value

    def _read(self, record: ConnectRecord) -> Sequence[Any]:
        return [each.read(record) for each in self._insertions]

    def _inserted(
        self, schema: Schema | None, value: Any, read: Callable[[], Iterable[Any]]
    ) -> Half:
        if value is None:
            return schema, None
        if schema is None:
            changed = dict(require_map(value, _PURPOSE))
            for each, found in zip(self._insertions, read(), strict=True):
                if found is not None:
                    changed[each.name] = found
            return None, changed
        struct = require_struct(value, _PURPOSE, schema)
        made, copied = self._schemas(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        for each, found in zip(self._insertions, read(), strict=True):
            if found is not None:
                values[each.name] = from_millis(found) if each.is_timestamp else found
        return made, Struct.unchecked(made, values)

    def _made(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = copy_basics(schema)
        for field in schema.fields:
            builder.field(field.name, field.schema)
        for each in self._insertions:
            builder.field(each.name, each.schema)
        return builder.build(), copied_fields(schema)


def _insertion(text: str, schema: Schema, read: _Read, column: _ReadColumn) -> _Insertion:
    if text.endswith("!"):
        return _Insertion(text[:-1], schema, read, column)
    return _Insertion(text.removesuffix("?"), schema.as_optional(), read, column)


class InsertFieldKey(OfKey, InsertField):
    """InsertField of keys."""


class InsertFieldValue(OfValue, InsertField):
    """InsertField of values."""
