"""Encodes the requests of a task to its agent and the answers, as JSON. Pure.

A request is for one connection, which ends with its answer; `Follow` has a line of records whenever
there are some. The answer to a read is a line of records or the error of Kafka, that to a write the
reason for which nothing was written, or null.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final, NoReturn, TypeAlias

import orjson

from connect_runtime.storage.log import LogBlocked, LogRecord, NewRecord, Unwritten
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Unreachable

_READ_ERRORS: Final = {kind.__name__: kind for kind in (LogBlocked, Unreachable, Failed)}


@dataclass(frozen=True, slots=True)
class Follow:
    """The newest record of `key` from `offset` on, and all later ones."""

    topic: str
    key: str
    offset: int


@dataclass(frozen=True, slots=True)
class ReadAssignment:
    """The newest record of `key` before the topic's current end."""

    topic: str
    key: str


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """The newest record of each key of a connector before the topic's current end."""

    topic: str
    connector: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """A record of the status topic."""

    record: NewRecord

    @property
    def topic(self) -> str:
        return self.record.topic


@dataclass(frozen=True, slots=True)
class WriteOffsets:
    """Offsets of a standalone worker's file: all of them are written, or none."""

    topic: str
    offsets: tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class JoinJvm:
    """A place for an attempt in a JVM that tasks of this node share. The answer has the way there,
    a descriptor; a second line says why the JVM has ended.

    `config` identifies the task's config: another one is another chance. `worker` has the
    properties of the JVM, and `graceful_s` is how long an earlier attempt may take to end."""

    connector: str
    task: int
    config: str
    worker: Mapping[str, str]
    worker_id: str
    graceful_s: float

    @property
    def topic(self) -> str:
        """Returns nothing: it concerns no topic."""
        return ""


Request: TypeAlias = Follow | ReadAssignment | ReadOffsets | WriteStatus | WriteOffsets | JoinJvm


def request_content(request: Request, properties: Mapping[str, str]) -> bytes:
    """Returns a request as JSON. `properties` are those of the client of Kafka that answers it, in
    Java's names."""
    content: list[object]
    match request:
        case Follow(topic=topic, key=key, offset=offset):
            content = ["follow", topic, key, offset]
        case ReadAssignment(topic=topic, key=key):
            content = ["assignment", topic, key]
        case ReadOffsets(topic=topic, connector=connector):
            content = ["offsets", topic, connector]
        case WriteStatus(record=record):
            content = ["status", record.topic, _text(record.key), _text(record.value)]
        case WriteOffsets(topic=topic, offsets=offsets):
            entries = [(_text(key), _text(value)) for key, value in offsets]
            content = ["write offsets", topic, entries]
        case JoinJvm():
            content = ["join", *astuple(request)]
    return orjson.dumps([dict(properties), *content])


def request_of(content: bytes) -> tuple[Request, Mapping[str, str]]:
    """Returns a request and the properties of its client. Raises ValueError for what is none."""
    match orjson.loads(content):
        case [dict(properties), *fields] if all(isinstance(v, str) for v in properties.values()):
            return _request(fields), properties
        case _:
            raise ValueError("no request of a task")


def _request(fields: list[object]) -> Request:
    match fields:
        case ["follow", str(topic), str(key), int(offset)]:
            return Follow(topic, key, offset)
        case ["assignment", str(topic), str(key)]:
            return ReadAssignment(topic, key)
        case ["offsets", str(topic), str(connector)]:
            return ReadOffsets(topic, connector)
        case ["status", str(topic), str(key), str() | None as value]:
            return WriteStatus(NewRecord(topic, b64decode(key), _content(value)))
        case ["write offsets", str(topic), list(entries)]:
            return WriteOffsets(topic, tuple(_offset(entry) for entry in entries))
        case [
            "join",
            str(connector),
            int(task),
            str(config),
            dict(worker),
            str(worker_id),
            int() | float() as graceful_s,
        ] if all(isinstance(value, str) for value in worker.values()):
            return JoinJvm(connector, task, config, worker, worker_id, graceful_s)
        case _:
            raise ValueError("no request of a task")


def _offset(entry: object) -> tuple[bytes, bytes | None]:
    match entry:
        case [str(key), str() | None as value]:
            return b64decode(key), _content(value)
        case _:
            raise ValueError("no offset of a task")


def records_line(records: Sequence[LogRecord]) -> bytes:
    """Returns records as one line, without its end."""
    return orjson.dumps(_rows(records))


def topic_line(records: Sequence[LogRecord], positions: Mapping[int, int]) -> bytes:
    """Returns the newest records of a topic as one line, with the position of each partition up to
    which it was read."""
    return orjson.dumps({"records": _rows(records), "positions": list(positions.items())})


def _rows(records: Sequence[LogRecord]) -> list[tuple[object, ...]]:
    return [
        (
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            _text(record.key),
            _text(record.value),
        )
        for record in records
    ]


def read_error_line(error: ConnectError) -> bytes:
    """Returns the error for which there are no records as one line."""
    kind = type(error).__name__ if type(error).__name__ in _READ_ERRORS else Failed.__name__
    fields = [astuple(problem)[:5] for problem in error.diagnostics]
    return orjson.dumps({"error": kind, "diagnostics": fields})


def records_of(line: bytes) -> list[LogRecord]:
    """Returns the records of a line. Raises the ConnectError that stands there in their place."""
    return _records(orjson.loads(line))


def topic_of(line: bytes) -> tuple[list[LogRecord], dict[int, int]]:
    """Returns the records and positions in a line of `topic_line`. Raises the ConnectError that
    stands there in their place."""
    content = orjson.loads(line)
    if "error" in content:
        _raise(content)
    return _records(content["records"]), dict(content["positions"])


def _records(content: Any) -> list[LogRecord]:
    if isinstance(content, dict):
        _raise(content)
    return [
        LogRecord(topic, partition, offset, timestamp_ms, _content(key), _content(value))
        for topic, partition, offset, timestamp_ms, key, value in content
    ]


def _raise(content: Any) -> NoReturn:
    raise _READ_ERRORS[content["error"]](*(Diagnostic(*row) for row in content["diagnostics"]))


def joined_line(own_jvm: str | None) -> bytes:
    """Returns what comes with a connection to a JVM: the trace of a task that shares none."""
    return orjson.dumps(own_jvm)


def own_jvm_of(line: bytes) -> str | None:
    """Returns the trace in a line of `joined_line`."""
    trace: str | None = orjson.loads(line)
    return trace


def jvm_end_line(reason: str, *, killed: bool) -> bytes:
    """Returns why a JVM has ended, and whether a signal from outside ended it, as one line."""
    return orjson.dumps([reason, killed])


def jvm_end_of(line: bytes) -> tuple[str, bool]:
    """Returns the reason in a line of `jvm_end_line`."""
    reason, killed = orjson.loads(line)
    return reason, killed


def unwritten_line(unwritten: Unwritten | None) -> bytes:
    """Returns a write's result as one line."""
    return orjson.dumps(None if unwritten is None else [unwritten.why, unwritten.passing])


def unwritten_of(line: bytes) -> Unwritten | None:
    """Returns the result in a line of `unwritten_line`."""
    fields = orjson.loads(line)
    return None if fields is None else Unwritten(*fields)


def _text(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _content(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
