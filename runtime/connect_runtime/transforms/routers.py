"""RegexRouter and TimestampRouter change the topics of records."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from connect_runtime.api import ConfigError, DataError, ValidRegex
from connect_runtime.api.record_plugins import R
from connect_runtime.api.records import record_text
from connect_runtime.java import regex as java_regex
from connect_runtime.java.date_format import InvalidDateFormat, SimpleDateFormat
from connect_runtime.transforms.transformation import (
    Columns,
    ColumnTransformation,
    InvalidArgument,
    NoSuchGroup,
    options,
)


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
