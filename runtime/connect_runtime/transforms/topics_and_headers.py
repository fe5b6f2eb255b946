"""Transformations of a record's topic and headers: RegexRouter and TimestampRouter change the
topic; DropHeaders, InsertHeader and HeaderFrom add and remove headers.
"""

from __future__ import annotations

import re
import sys
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
    ValidRegex,
)
from connect_runtime.api.record_plugins import R
from connect_runtime.api.records import Header, Headers, record_text
from connect_runtime.api.schema import copy_basics
from connect_runtime.data.simple_header_converter import parse_literal
from connect_runtime.java import regex as java_regex
from connect_runtime.java.date_format import InvalidDateFormat, SimpleDateFormat
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
    InvalidArgument,
    MissingField,
    NoSuchGroup,
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
            raise MissingField(f"The schema has no field {field}")
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


class RegexRouter(ColumnTransformation):
    """Replaces a topic that matches the expression from beginning to end."""

    OPTIONS = options("RegexRouter", {"regex": ValidRegex()})

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Compiles the expression."""
        self._regex = java_regex.compile(options["regex"])
        self._replacement: str = options["replacement"]
        self._by_topic: dict[str, str] = {}

    def apply(self, record: R) -> R | None:
        """Routes the record."""
        topic = self.routed(record.topic)
        return record if topic == record.topic else replace(record, topic=topic)

    def apply_columns(self, columns: Columns) -> None:
        """Routes the records."""
        columns["topics"] = list(map(self.routed, columns["topics"]))

    def routed(self, topic: str) -> str:
        """Returns the topic that replaces this one, which is computed once. Raises `DataError`."""
        routed = self._by_topic.get(topic)
        if routed is None:
            routed = self._by_topic[topic] = self._replaced(topic)
        return routed

    def _replaced(self, topic: str) -> str:
        if self._regex.fullmatch(topic) is None:
            return topic
        # As in Connect, the expression may now match less: `a|ab` matches all of ab, then a of it.
        match = self._regex.search(topic)
        if match is None:
            return topic
        return topic[: match.start()] + expanded(self._replacement, match) + topic[match.end() :]


def expanded(replacement: str, match: re.Match[str]) -> str:
    """Returns the text of a replacement as Java writes it, with `$1` and `${name}` for groups and
    backslashes before characters that stand for themselves. Raises `DataError`."""
    text, at = "", 0
    while at < len(replacement):
        c = replacement[at]
        at += 1
        if c == "\\":
            if at == len(replacement):
                raise InvalidArgument("character to be escaped is missing")
            text += replacement[at]
            at += 1
        elif c == "$":
            group, at = _group(replacement, at, match)
            text += group
        else:
            text += c
    return text


def _group(replacement: str, at: int, match: re.Match[str]) -> tuple[str, int]:
    """Returns the text of the group that is named behind a `$`, and the end of its name."""
    if at == len(replacement):
        raise InvalidArgument("Illegal group reference: group index is missing")
    if replacement[at] == "{":
        name = re.compile(r"[a-zA-Z0-9]*").match(replacement, at + 1)
        assert name is not None
        if not name[0]:
            raise InvalidArgument("named capturing group has 0 length name")
        if replacement[name.end() : name.end() + 1] != "}":
            raise InvalidArgument("named capturing group is missing trailing '}'")
        if name[0][0].isdigit():
            raise InvalidArgument(f"capturing group name {{{name[0]}}} starts with digit character")
        if name[0] not in match.re.groupindex:
            raise InvalidArgument(f"No group with name {{{name[0]}}}")
        return match[name[0]] or "", name.end() + 1
    if replacement[at] not in "0123456789":
        raise InvalidArgument("Illegal group reference")
    number = int(replacement[at])
    if number > match.re.groups:
        raise NoSuchGroup(f"No group {number}")
    at += 1
    # as many digits as there are groups
    while replacement[at : at + 1] in tuple("0123456789"):
        longer = number * 10 + int(replacement[at])
        if longer > match.re.groups:
            break
        number, at = longer, at + 1
    return match[number] or "", at


class TimestampRouter(ColumnTransformation):
    """Makes the topic from the record's topic and its timestamp, in UTC."""

    OPTIONS = options("TimestampRouter")

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets both formats. Raises `ConfigError` for a pattern that is not supported."""
        self._topic_format: str = options["topic.format"]
        pattern = options["timestamp.format"]
        try:
            self._timestamp_format = SimpleDateFormat(pattern)
        except InvalidDateFormat as error:
            raise ConfigError.invalid("timestamp.format", pattern, str(error)) from error

    def apply(self, record: R) -> R | None:
        """Routes the record. Raises `DataError` if it has no timestamp."""
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record_text(record)}")
        return replace(record, topic=self._routed(record.topic, record.timestamp))

    def apply_columns(self, columns: Columns) -> None:
        """Routes the records. Raises `DataError` if one has no timestamp."""
        rows = list(zip(columns["topics"], columns["timestamps"], strict=True))
        routed = {}
        for topic, timestamp in set(rows):
            if timestamp is None:
                raise DataError("Timestamp missing on record")
            # equal topics are one object, by which a source's batch stays one
            routed[topic, timestamp] = sys.intern(self._routed(topic, timestamp))
        columns["topics"] = [routed[row] for row in rows]

    def _routed(self, topic: str, timestamp: int) -> str:
        time = self._timestamp_format.format(timestamp)
        return self._topic_format.replace("${topic}", topic).replace("${timestamp}", time)
