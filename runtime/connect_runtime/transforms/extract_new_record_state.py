"""Debezium's ExtractNewRecordState: replaces a change event by the row as it is after the change.

Does what Debezium 3.4 does. A change event is a struct with a schema whose name ends with
`.Envelope`; all other records with a value pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from connect_runtime.api import (
    STRING,
    ConfigError,
    DataError,
    Header,
    Headers,
    Schema,
    Struct,
    Type,
)
from connect_runtime.api.record_plugins import ConnectRecord, R, Transformation
from connect_runtime.api.schema import copy_basics
from connect_runtime.java.scalars import java_split
from connect_runtime.option_tables import option_table
from connect_runtime.transforms.field_transformations import (
    InsertFieldValue,
    ReplaceFieldKey,
    ReplaceFieldValue,
)
from connect_runtime.transforms.fields import REPLACE_NULL, SchemaCache
from connect_runtime.transforms.record_shape import ExtractFieldValue
from connect_runtime.transforms.transformation import (
    InvalidArgument,
    KeyOrValue,
    MissingField,
    WithOptions,
    require_struct,
)

K = TypeVar("K", bound=Transformation)

_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_REWRITES: Final = ("rewrite", "rewrite-with-tombstone")
_DELETES: Final = "delete.tombstone.handling.mode"
_REMOVED: Final = ("drop.tombstones", "delete.handling.mode")
_OF_TRANSACTION: Final = ("id", "data_collection_order", "total_order")
_OF_EVENT: Final = ("op", "ts_ms", "ts_us", "ts_ns")
_TABLE: Final = Path(__file__).with_name("debezium_options.txt")


class ExtractNewRecordState(WithOptions, Transformation):
    """Unwraps change events. `replace.null.with.default` is an option, too, which Debezium does not
    list.
    """

    OPTIONS = option_table(_TABLE, "ExtractNewRecordState")

    def configure(self, options: Mapping[str, str]) -> None:
        """Refuses options that Debezium has removed, and sets the others. Raises `ConfigError`."""
        for removed in _REMOVED:
            if removed in options:
                raise ConfigError(f"{removed} is not supported: Debezium replaced it by {_DELETES}")
        self._replace_null = options.get(REPLACE_NULL, "true")
        super().configure(options)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the options. Raises `ConfigError`."""
        self._mode = options[_DELETES].strip().lower()
        if self._mode not in _MODES:
            raise ConfigError.invalid(
                _DELETES,
                options[_DELETES],
                f"Value must be one of {', '.join(_MODES)}",
            )
        self._route_by: str = options["route.by.field"]
        self._fields = _references(options["add.fields.prefix"], options["add.fields"])
        self._headers = _references(options["add.headers.prefix"], options["add.headers"])
        self._dropped: str = (options["drop.fields.header.name"] or "").strip()
        self._drop_from_key: bool = options["drop.fields.from.key"]
        self._keep_compatible: bool = options["drop.fields.keep.schema.compatible"]
        self._after = _configured(ExtractFieldValue(), field="after")
        self._before = _configured(ExtractFieldValue(), field="before")
        self._marked = {
            deleted: _configured(
                InsertFieldValue(),
                **{
                    "static.field": "__deleted",
                    "static.value": deleted,
                    REPLACE_NULL: self._replace_null,
                },
            )
            for deleted in ("true", "false")
        }
        # by the schema of the event, then by that of the row: __deleted may be in it or not
        self._schemas = SchemaCache(
            lambda event: SchemaCache(lambda row: self._with_added(row, event))
        )

    def apply(self, record: R) -> R | None:
        """Unwraps the record, or drops it."""
        is_event = _is_event(record)
        if (is_event or record.value is None) and self._headers:
            record = replace(record, headers=record.headers + self._added_headers(record.value))
        if record.value is None:
            return record if self._mode == "rewrite-with-tombstone" else None
        if not is_event:
            return record
        row = self._after.apply(record)
        if row is not None and row.value is not None:
            return self._changed(record, row)
        deleted = self._before.apply(record)
        if deleted is None or deleted.value is None:
            # a truncated table
            return None
        return self._deleted(record, deleted)

    def _changed(self, record: R, row: R) -> R | None:
        """Returns the row of an insert or update."""
        if self._mode in _REWRITES and isinstance(row.value, Struct):
            row = _applied(self._marked["false"], row)
        if self._route_by:
            value = require_struct(
                row.value, "Read record to set topic routing for CREATE / UPDATE"
            )
            row = self._routed(row, value)
        return self._without_dropped(self._with_fields(record, row))

    def _deleted(self, record: R, deleted: R) -> R | None:
        """Returns the record of a delete. `deleted` is the row before it."""
        match self._mode:
            case "drop":
                return None
            case "tombstone":
                row = _applied(self._after, record)
            case "delete-to-tombstone":
                row = replace(record, value_schema=None, value=None)
            case _:
                row = deleted
                if isinstance(deleted.value, Struct):
                    row = _applied(self._marked["true"], deleted)
        if self._route_by:
            row = self._routed(row, deleted.value)
        row = self._without_dropped(row)
        return row if row.value is None else self._with_fields(record, row)

    # routing

    def _routed(self, record: R, row: Struct) -> R:
        topic = _text(row, self._route_by)
        return replace(record, topic=topic) if topic and topic.strip() else record

    # added fields and headers

    def _added_headers(self, event: Struct | None) -> Headers:
        if event is None:
            return tuple(
                Header(added.name, "d", STRING) for added in self._headers if added.field == "op"
            )
        headers = []
        for added in self._headers:
            schema = added.schema(event.schema)
            if schema is not None:
                headers.append(Header(added.name, added.value(event), schema))
        return tuple(headers)

    def _with_fields(self, record: R, row: R) -> R:
        value = require_struct(row.value, "source field insertion", row.value_schema)
        event: Struct = record.value
        schema = self._schemas(event.schema)(value.schema)
        changed = Struct(schema)
        for name, field in value.values.items():
            changed[name] = field
        for added in self._fields:
            if schema.field(added.name) is not None and added.schema(event.schema):
                changed[added.name] = added.value(event)
        return replace(row, value_schema=schema, value=changed)

    def _with_added(self, row: Schema, event: Schema) -> Schema:
        builder = copy_basics(row, Type.STRUCT)
        for field in row.fields:
            builder.field(field.name, field.schema)
        for added in self._fields:
            schema = added.schema(event)
            if schema is not None:
                builder.field(added.name, schema)
        return builder.build()

    # dropped fields

    def _without_dropped(self, record: R) -> R:
        dropped = next((h.value for h in record.headers if h.key == self._dropped), None)
        if not self._dropped or not dropped:
            return record
        if self._drop_from_key and record.key is not None:
            record = self._dropping(ReplaceFieldKey(), record, record.key_schema, dropped)
        return self._dropping(ReplaceFieldValue(), record, record.value_schema, dropped)

    def _dropping(
        self, delegate: KeyOrValue, record: R, schema: Schema | None, dropped: list[str]
    ) -> R:
        if self._keep_compatible:
            fields = () if schema is None else schema.fields
            dropped = [f.name for f in fields if f.schema.optional and f.name in dropped]
        if not dropped:
            return record
        return _applied(_configured(delegate, exclude=",".join(dropped)), record)


def _is_event(record: ConnectRecord) -> bool:
    schema = record.value_schema
    return schema is not None and schema.name is not None and schema.name.endswith(".Envelope")


def _configured(delegate: K, **options: str) -> K:
    delegate.configure(options)
    return delegate


def _applied(delegate: KeyOrValue, record: R) -> R:
    changed = delegate.apply(record)
    # these delegates drop nothing
    assert changed is not None
    return changed


def _text(struct: Struct, name: str) -> Any:
    value = struct.without_default(name)
    schema = struct.schema.field(name)
    if schema is None or schema.type is not Type.STRING:
        raise DataError(f"Field '{name}' is not of type STRING")
    return value


# fields and headers that are added to a row


@dataclass(frozen=True, slots=True)
class _Reference:
    """A field of the event to add to the row, or as a header, under `name`."""

    struct: str | None
    field: str
    name: str

    def schema(self, event: Schema) -> Schema | None:
        """Returns the schema of the added field; None if the event has no such field."""
        parent: Schema | None = event
        if self.struct is not None:
            parent = event.field(self.struct)
        if parent is None:
            raise MissingField(f"The event has no field {self.struct}")
        field = parent.field(self.field) or event.field(self.field)
        return None if field is None else copy_basics(field).optional().build()

    def value(self, event: Struct) -> Any:
        """Returns its value in an event."""
        parent = event if self.struct is None else event.without_default(self.struct)
        if parent is None:
            return None
        own = parent.schema.field(self.field) is not None
        return (parent if own else event).without_default(self.field)


def _references(prefix: str, entries: list[str]) -> list[_Reference]:
    return [_reference(prefix, entry.strip()) for entry in entries]


def _reference(prefix: str, text: str) -> _Reference:
    words = java_split(text, ":")
    path = java_split(words[0], ".")
    if len(path) == 1:
        struct, field, name = _struct_of(path[0]), path[0], path[0]
    else:
        struct, field, name = path[0], path[1], f"{path[0]}_{path[1]}"
    if len(words) > 2:
        raise InvalidArgument(f"Unexpected field name: {text}")
    return _Reference(struct, field, prefix + (words[1] if len(words) == 2 else name))


def _struct_of(field: str) -> str | None:
    """Returns the struct of the event that has a field which is named without one."""
    if field in _OF_TRANSACTION:
        return "transaction"
    if field in _OF_EVENT:
        return None
    return "updateDescription" if field == "updateDescription" else "source"
