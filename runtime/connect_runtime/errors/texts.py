"""Describes failures of records, for logs and traces, in Connect's words."""

from __future__ import annotations

from typing import Any, Final

from connect_runtime.api import SourceRecord
from connect_runtime.errors.stages import Failure
from connect_runtime.transforms.java_records import record_text

_TIMESTAMP_TYPES: Final = {1: "CreateTime", 2: "LogAppendTime"}


def where_text(failure: Failure, *, with_record: bool) -> str:
    """Returns the stage and the class of a failure, and the record.

    Of a message, that is where it was read; a source's record is shown with key and value.
    """
    text = f"Executing stage '{failure.stage.name}' with class '{failure.class_name}'"
    if not with_record or failure.record is None:
        return f"{text}."
    if isinstance(failure.record, SourceRecord):
        return f"{text}, where source record is = {record_text(failure.record)}."
    return f"{text}, where consumed record is {{{_message_text(failure.record)}}}."


def _message_text(message: Any) -> str:
    text = f"topic='{message.topic()}', partition={message.partition()}, offset={message.offset()}"
    type_, timestamp = message.timestamp()
    if type_ in _TIMESTAMP_TYPES:
        text += f", timestamp={timestamp}, timestampType={_TIMESTAMP_TYPES[type_]}"
    return text
