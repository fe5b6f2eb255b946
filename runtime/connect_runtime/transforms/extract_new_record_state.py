"""Debezium's ExtractNewRecordState: replaces a change event by the row as it is after the change.

Does what Debezium 3.4 does. A change event is a struct with a schema whose name ends with
`.Envelope`; all other records with a value pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from connect_runtime.api import (
    STRING,
    ConfigDef,
    ConfigError,
    ConfigType,
    DataError,
    Header,
    Headers,
    Importance,
    Schema,
    Struct,
    Type,
    Width,
)
from connect_runtime.api.schema_builder import copy_basics
from connect_runtime.api.transforms import ConnectRecord, R, Transformation
from connect_runtime.transforms.errors import InvalidArgument, MissingField
from connect_runtime.transforms.extract_field import ExtractFieldValue
from connect_runtime.transforms.insert_field import InsertFieldValue
from connect_runtime.transforms.java_strings import split
from connect_runtime.transforms.key_or_value import KeyOrValue, require_struct
from connect_runtime.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue
from connect_runtime.transforms.schema_cache import SchemaCache

K = TypeVar("K", bound=Transformation)

_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_REWRITES: Final = ("rewrite", "rewrite-with-tombstone")
_REMOVED: Final = ("drop.tombstones", "delete.handling.mode")
_REPLACE_NULL: Final = "replace.null.with.default"
_OF_TRANSACTION: Final = ("id", "data_collection_order", "total_order")
_OF_EVENT: Final = ("op", "ts_ms", "ts_us", "ts_ns")
_EXAMPLE: Final = (
    "Example: 'version,connector,source.ts_ms' would add __version, __connector and __source_ts_ms"
    " fields. Optionally one can also map new field name like"
    " version:VERSION,connector:CONNECTOR,source.ts_ms:EVENT_TIMESTAMP.Please note that the new"
    " field name is case-sensitive."
)
_CONFIG: Final = (
    ConfigDef()
    .define(
        "delete.tombstone.handling.mode",
        ConfigType.STRING,
        "tombstone",
        importance=Importance.MEDIUM,
        width=Width.MEDIUM,
        order=1,
        display_name="Handle delete and tombstone records",
        doc="How to handle delete records. Options are: drop - Remove the delete event and "
        "tombstone from the stream.tombstone (default) - For each delete event, leave only a "
        "tombstone in the stream.rewrite - Remove tombstone from the record, and add a "
        "`__deleted` field with the value `true`.rewrite-with-tombstone - Retain tombstone in "
        "record and add a `__deleted` field with the value `true`.delete-to-tombstone - "
        "Convert delete events to tombstone events and drop tombstone events.",
    )
    .define(
        "route.by.field",
        ConfigType.STRING,
        "",
        importance=Importance.LOW,
        width=Width.LONG,
        order=1,
        display_name="Route by field name",
        doc="The column which determines how the events will be routed, the value will replace the"
        " topic name.",
    )
    .define(
        "add.fields.prefix",
        ConfigType.STRING,
        "__",
        importance=Importance.LOW,
        width=Width.SHORT,
        order=1,
        display_name="Field prefix to be added to each field.",
        doc="Adds this prefix to each field listed.",
    )
    .define(
        "add.fields",
        ConfigType.LIST,
        "",
        importance=Importance.LOW,
        width=Width.LONG,
        order=1,
        display_name="Adds the specified field(s) to the message if they exist.",
        doc="Adds each field listed, prefixed with __ (or __<struct>_ if the struct is specified)."
        f" {_EXAMPLE}",
    )
    .define(
        "add.headers.prefix",
        ConfigType.STRING,
        "__",
        importance=Importance.LOW,
        width=Width.SHORT,
        order=1,
        display_name="Header prefix to be added to each header.",
        doc="Adds this prefix listed to each header.",
    )
    .define(
        "add.headers",
        ConfigType.LIST,
        "",
        importance=Importance.LOW,
        width=Width.LONG,
        order=1,
        display_name="Adds the specified fields to the header if they exist.",
        doc="Adds each field listed to the header,  __ (or __<struct>_ if the struct is specified)."
        f" {_EXAMPLE}",
    )
    .define(
        "drop.fields.header.name",
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        width=Width.SHORT,
        order=1,
        display_name="Specifies a header that contains a list of field names to be removed",
        doc="Specifies the name of a header that contains a list of fields to be removed from the"
        " event value.",
    )
    .define(
        "drop.fields.from.key",
        ConfigType.BOOLEAN,
        False,
        importance=Importance.LOW,
        width=Width.SHORT,
        order=1,
        display_name="Specifies whether the fields to be dropped should also be omitted from the"
        " key",
        doc="Specifies whether to apply the drop fields behavior to the event key as well as the"
        " value. Default behavior is to only remove fields from the event value, not the key.",
    )
    .define(
        "drop.fields.keep.schema.compatible",
        ConfigType.BOOLEAN,
        True,
        importance=Importance.LOW,
        width=Width.SHORT,
        order=1,
        display_name="Specifies if fields are dropped, will the event's schemas be compatible",
        doc="Controls the output event's schema compatibility when using the drop fields feature."
        " `true`: dropped fields are removed if the schema indicates its optional leaving the"
        " schemas unchanged, `false`: dropped fields are removed from the key/value schemas,"
        " regardless of optionality.",
    )
)


class ExtractNewRecordState(Transformation):
    """Unwraps change events."""

    def config(self) -> ConfigDef:
        """The options. `replace.null.with.default` is one, too, which Debezium does not list."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options. Raises `ConfigError`."""
        for removed in _REMOVED:
            if removed in options:
                raise ConfigError(
                    f"{removed} is not supported: Debezium replaced it by"
                    " delete.tombstone.handling.mode"
                )
        parsed = _CONFIG.parse(options)
        self._mode = parsed["delete.tombstone.handling.mode"].strip().lower()
        if self._mode not in _MODES:
            raise ConfigError.invalid(
                "delete.tombstone.handling.mode",
                parsed["delete.tombstone.handling.mode"],
                f"Value must be one of {', '.join(_MODES)}",
            )
        self._route_by: str = parsed["route.by.field"]
        self._fields = _references(parsed["add.fields.prefix"], parsed["add.fields"])
        self._headers = _references(parsed["add.headers.prefix"], parsed["add.headers"])
        self._dropped: str = (parsed["drop.fields.header.name"] or "").strip()
        self._drop_from_key: bool = parsed["drop.fields.from.key"]
        self._keep_compatible: bool = parsed["drop.fields.keep.schema.compatible"]
        self._after = _configured(ExtractFieldValue(), field="after")
        self._before = _configured(ExtractFieldValue(), field="before")
        self._marked = {
            deleted: _configured(
                InsertFieldValue(),
                **{
                    "static.field": "__deleted",
                    "static.value": deleted,
                    _REPLACE_NULL: options.get(_REPLACE_NULL, "true"),
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
        after = self._after.apply(record)
        if after is not None and after.value is not None:
            return self._changed(record, after)
        before = self._before.apply(record)
        if before is None or before.value is None:
            # a truncated table
            return None
        return self._deleted(record, before)

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

    def _deleted(self, record: R, before: R) -> R | None:
        """Returns what is left of a delete."""
        match self._mode:
            case "drop":
                return None
            case "tombstone":
                row = _applied(self._after, record)
            case "delete-to-tombstone":
                row = replace(record, value_schema=None, value=None)
            case _:
                row = before
                if isinstance(before.value, Struct):
                    row = _applied(self._marked["true"], before)
        if self._route_by:
            row = self._routed(row, before.value)
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
                Header(each.name, "d", STRING) for each in self._headers if each.field == "op"
            )
        found = []
        for each in self._headers:
            schema = each.schema(event.schema)
            if schema is not None:
                found.append(Header(each.name, each.value(event), schema))
        return tuple(found)

    def _with_fields(self, record: R, row: R) -> R:
        value = require_struct(row.value, "source field insertion", row.value_schema)
        event: Struct = record.value
        made = self._schemas(event.schema)(value.schema)
        changed = Struct(made)
        for name, each in value.values.items():
            changed[name] = each
        for reference in self._fields:
            if made.field(reference.name) is not None and reference.schema(event.schema):
                changed[reference.name] = reference.value(event)
        return replace(row, value_schema=made, value=changed)

    def _with_added(self, row: Schema, event: Schema) -> Schema:
        builder = copy_basics(row, Type.STRUCT)
        for field in row.fields:
            builder.field(field.name, field.schema)
        for reference in self._fields:
            schema = reference.schema(event)
            if schema is not None:
                builder.field(reference.name, schema)
        return builder.build()

    # dropped fields

    def _without_dropped(self, record: R) -> R:
        listed = next((h.value for h in record.headers if h.key == self._dropped), None)
        if not self._dropped or not listed:
            return record
        if self._drop_from_key and record.key is not None:
            record = self._dropping(ReplaceFieldKey(), record, record.key_schema, listed)
        return self._dropping(ReplaceFieldValue(), record, record.value_schema, listed)

    def _dropping(
        self, delegate: KeyOrValue, record: R, schema: Schema | None, listed: list[str]
    ) -> R:
        if self._keep_compatible:
            fields = () if schema is None else schema.fields
            listed = [f.name for f in fields if f.schema.optional and f.name in listed]
        if not listed:
            return record
        return _applied(_configured(delegate, exclude=",".join(listed)), record)


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


# what is added to a row


@dataclass(frozen=True, slots=True)
class _Reference:
    """A field of the event to add to the row, or as a header, under a name of its own."""

    struct: str | None
    field: str
    name: str

    def schema(self, event: Schema) -> Schema | None:
        """Returns the schema of the added field; None if the event has no such field."""
        parent: Schema | None = event
        if self.struct is not None:
            parent = event.field(self.struct)
        if parent is None:
            raise MissingField(
                'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return'
                ' value of "org.apache.kafka.connect.data.Schema.field(String)" is null'
            )
        found = parent.field(self.field) or event.field(self.field)
        return None if found is None else copy_basics(found).optional().build()

    def value(self, event: Struct) -> Any:
        """Returns its value in an event."""
        parent = event if self.struct is None else event.without_default(self.struct)
        if parent is None:
            return None
        own = parent.schema.field(self.field) is not None
        return (parent if own else event).without_default(self.field)


def _references(prefix: str, listed: list[str]) -> list[_Reference]:
    return [_reference(prefix, each.strip()) for each in listed]


def _reference(prefix: str, text: str) -> _Reference:
    parts = split(text, ":")
    path = split(parts[0], ".")
    if len(path) == 1:
        struct, field, name = _struct_of(path[0]), path[0], path[0]
    else:
        struct, field, name = path[0], path[1], f"{path[0]}_{path[1]}"
    if len(parts) > 2:
        raise InvalidArgument(f"Unexpected field name: {text}")
    return _Reference(struct, field, prefix + (parts[1] if len(parts) == 2 else name))


def _struct_of(field: str) -> str | None:
    """Returns the struct of the event that a field without one is looked for in."""
    if field in _OF_TRANSACTION:
        return "transaction"
    if field in _OF_EVENT:
        return None
    return "updateDescription" if field == "updateDescription" else "source"
