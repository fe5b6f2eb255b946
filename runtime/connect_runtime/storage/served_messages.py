"""Encodes what a task asks of the worker that serves its topics, and the answers, as JSON lines.

In standalone mode the cluster's own topics are in the worker's process, and tasks in others. A task
asks once for each connection: for all records of a topic, for all from an offset on as they come,
or to write some, which it may ask again. Pure.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from connect_runtime.storage.log import LogRecord, NewRecord


@dataclass(frozen=True, slots=True)
class Read:
    """All records of a topic; the answer is one line of records."""

    topic: str


@dataclass(frozen=True, slots=True)
class Follow:
    """The records from `offset` on; lines of records follow until the connection ends."""

    topic: str
    offset: int


@dataclass(frozen=True, slots=True)
class Write:
    """Writes all of these records or none; the answer is one line that says why not, or null."""

    records: Sequence[NewRecord]


Request: TypeAlias = Read | Follow | Write


def request_line(request: Request) -> bytes:
    """Returns a request as one line."""
    match request:
        case Read(topic=topic):
            return orjson.dumps({"read": topic})
        case Follow(topic=topic, offset=offset):
            return orjson.dumps({"follow": topic, "offset": offset})
        case Write(records=records):
            rows = [(each.topic, _text(each.key), _text(each.value)) for each in records]
            return orjson.dumps({"write": rows})


def request_of(line: bytes) -> Request:
    """Raises ValueError for what is no request."""
    match orjson.loads(line):
        case {"read": str(topic)}:
            return Read(topic)
        case {"follow": str(topic), "offset": int(offset)}:
            return Follow(topic, offset)
        case {"write": list(rows)}:
            return Write([_new_record(*row) for row in rows])
        case _:
            raise ValueError("no request of a task")


def records_line(records: Sequence[LogRecord]) -> bytes:
    """Returns records as one line."""
    return orjson.dumps(
        [
            (
                each.topic,
                each.partition,
                each.offset,
                each.timestamp_ms,
                _text(each.key),
                _text(each.value),
            )
            for each in records
        ]
    )


def records_of(line: bytes) -> list[LogRecord]:
    """Returns the records of a line."""
    return [
        LogRecord(topic, partition, offset, timestamp_ms, _content(key), _content(value))
        for topic, partition, offset, timestamp_ms, key, value in orjson.loads(line)
    ]


def failure_line(why: str | None) -> bytes:
    """Returns why nothing was written as one line; None: everything was."""
    return orjson.dumps(why)


def failure_of(line: bytes) -> str | None:
    """Returns what `failure_line` was given."""
    found: str | None = orjson.loads(line)
    return found


def _new_record(topic: str, key: str, value: str | None) -> NewRecord:
    return NewRecord(topic, b64decode(key), _content(value))


def _text(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _content(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
