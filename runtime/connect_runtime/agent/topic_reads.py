"""Reads a topic to its end for tasks that start or wake up, and keeps its newest records.

In rounds: requests that arrive while a round runs are answered together in the next. So a hundred
tasks that start at once cost a few requests to Kafka, and one that starts alone does not wait. An
answer holds all that was committed before its request: a round looks for the topic's end first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from confluent_kafka import KafkaException

from connect_runtime.agent.messages import (
    ReadAssignment,
    ReadOffsets,
    read_error_line,
    topic_line,
)
from connect_runtime.agent.server import QueuedService, TaskConnection
from connect_runtime.kafka.errors import as_failure, error_of
from connect_runtime.storage.log import LogBlocked, LogReader, LogRecord
from connect_specs.diagnostics import ConnectError, Unreachable

# A task asks again for as long as it may wait for a silent Kafka, or an open transaction
_SILENCE_S: Final = 5.0

Read: TypeAlias = ReadAssignment | ReadOffsets


class ReadableLogs(Protocol):
    """Logs, as far as the agent reads them: those of Kafka, or of a standalone worker."""

    def identity(self, topic: str) -> object:
        """Returns another value once the topic was made anew or has more partitions."""
        ...

    def reader(self, topic: str) -> LogReader: ...
    def close(self) -> None: ...


def task_of(record: LogRecord) -> str | None:
    """Returns the task that a record of the assignments topic is for."""
    return None if record.key is None else record.key.decode(errors="replace")


class TopicCache:
    """The newest records of each key of one topic, tombstones included, by owner: the task or the
    connector that reads them, as `owner` returns it, or None for records that change nothing. They
    take some 400 bytes each."""

    def __init__(
        self, topic: str, logs: ReadableLogs, owner: Callable[[LogRecord], str | None]
    ) -> None:
        self._topic = topic
        self._logs = logs
        self._owner = owner
        self._identity: object = None
        self._reader: LogReader | None = None
        self._newest: dict[str, dict[bytes, LogRecord]] = {}

    def answers(self, requests: Sequence[Read]) -> Iterable[bytes]:
        """Returns the answers in the order of the requests, as of now or later. Raises ConnectError
        or KafkaException if the topic cannot be read."""
        self._catch_up()
        positions = {} if self._reader is None else self._reader.positions
        return (
            topic_line(list(self._newest.get(_owner_of(request), {}).values()), positions)
            for request in requests
        )

    def close(self) -> None:
        self._logs.close()

    def _catch_up(self) -> None:
        identity = self._logs.identity(self._topic)
        if identity != self._identity:
            # made anew, where offsets mean other records, or with more partitions
            self._forget()
        self._identity = identity
        while True:
            if self._reader is None:
                self._reader = self._logs.reader(self._topic)
            self._read_to_end(self._reader)
            if not self._reader.led_anew:
                return
            self._forget()

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._newest.clear()

    def _read_to_end(self, reader: LogReader) -> None:
        while True:
            try:
                self._keep(reader.read_to_end(_SILENCE_S))
                return
            except Unreachable:
                arrived = reader.poll()
                self._keep(arrived)
                if not arrived:
                    raise

    def _keep(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            owner = self._owner(record)
            if owner is not None and record.key is not None:
                newest = self._newest.setdefault(owner, {})
                newest.pop(record.key, None)  # in the order of the last writes
                newest[record.key] = record


class TopicReads(QueuedService):
    """Answers with the content of a cache, which `open_cache` makes, and makes again after it
    failed."""

    def __init__(self, topic: str, open_cache: Callable[[], TopicCache]) -> None:
        super().__init__(f"read-{topic}")
        self._topic = topic
        self._open_cache = open_cache
        self._cache: TopicCache | None = None

    def _serve(self) -> None:
        try:
            while not self.over:
                # all tasks of a connector have the same request
                equal: dict[Read, list[TaskConnection]] = {}
                for connection, request in self._take().items():
                    equal.setdefault(request, []).append(connection)
                if equal:
                    answers = self._answers(list(equal))
                    for connections, content in zip(equal.values(), answers, strict=True):
                        self._answer(content, *connections)
        finally:
            self._close()

    def _answers(self, requests: Sequence[Read]) -> Iterable[bytes]:
        try:
            if self._cache is None:
                self._cache = self._open_cache()
            return self._cache.answers(requests)
        except LogBlocked as error:  # what was read stays: the tasks soon ask again
            return [read_error_line(error)] * len(requests)
        except (ConnectError, KafkaException) as error:
            self._close()
            if isinstance(error, KafkaException):
                error = as_failure(error_of(error), "The topic cannot be read", self._topic)
            return [read_error_line(error)] * len(requests)

    def _close(self) -> None:
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.close()


def _owner_of(request: Read) -> str:
    match request:
        case ReadAssignment(key=key):
            return key
        case ReadOffsets(connector=connector):
            return connector
