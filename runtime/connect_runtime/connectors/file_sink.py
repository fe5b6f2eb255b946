"""FileStreamSink: appends the value of each record to a file, one line each.

Delivery is at least once, and lines are whole: a line that a killed writer left unfinished is ended
before the first new one. Its record was never committed (its bytes were never flushed as a whole),
so it is redelivered in full; the torn piece stays as a separate line, because another task may have
been writing it and nothing is ever removed from a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import AnyStr, BinaryIO, Final

from connect_runtime import KAFKA_VERSION
from connect_runtime.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    Importance,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TopicPartition,
)
from connect_runtime.connectors.console import Output, standard_output
from connect_runtime.data.value_columns import Utf8Column, java_texts
from connect_runtime.java.scalars import java_text

CONFIG = ConfigDef().define(
    "file",
    ConfigType.STRING,
    None,
    importance=Importance.HIGH,
    doc="Destination filename. If not specified, the standard output will be used",
)

# Lines are written in blocks of about so many bytes: larger ones leave the processor's cache.
_BLOCK: Final = 1 << 18


class FileStreamSinkConnector(SinkConnector):
    """Runs as many tasks as `tasks.max`, all appending to the same file."""

    def version(self) -> str:
        return KAFKA_VERSION

    def config(self) -> ConfigDef:
        return CONFIG

    def task_class(self) -> type[SinkTask]:
        return FileStreamSinkTask

    def start(self, props: Mapping[str, str]) -> None:
        CONFIG.parse(props)
        self._props = dict(props)

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [dict(self._props) for _ in range(max_tasks)]

    def stop(self) -> None:
        pass

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        # the consumer group holds all state: any offset is valid
        return True


class FileStreamSinkTask(SinkTask):
    """Appends batches to one file.

    Writes go straight to the operating system, whole lines at a time, so a killed process loses
    nothing that `put` has taken; `flush` does not fsync, as Apache's does not: it promises survival
    of the process, not of the machine. The file is opened for appending, so several tasks can share
    it.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | Output | None = None

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        name = props.get("file")
        if not name:
            self._file = standard_output()
            return
        try:
            file = Path(name).open("ab+", buffering=0)  # noqa: SIM115 -- closed by stop
            self._file = file
            _end_torn_line(file)
        except OSError as error:
            text = f"Couldn't find or create file '{name}' for FileStreamSinkTask"
            raise ConnectorError(text) from error

    def put(self, records: SinkBatch) -> None:
        if not len(records):
            return
        texts = _texts(records)
        if isinstance(texts, Utf8Column):
            for lines in _blocks(texts.utf8, b"\n"):
                self._write(lines)
        else:
            for text in _blocks(texts, "\n"):
                self._write(text.encode("utf-8", "replace"))

    def _write(self, data: bytes) -> None:
        if self._file is None:
            sys.stdout.buffer.write(data)
            return
        count = self._file.write(data)
        while count < len(data):  # a full disk or a signal cuts a write short
            count += self._file.write(data[count:])

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._file is None:
            sys.stdout.buffer.flush()

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _texts(records: SinkBatch) -> Sequence[str]:
    values, schemas = records.values, records.value_schemas
    if schemas.count(schemas[0]) == len(schemas):
        return java_texts(values, schemas[0])
    return list(map(java_text, values, schemas))


def _blocks(lines: Sequence[AnyStr], end: AnyStr) -> Iterator[AnyStr]:
    """Yields these lines, each with its end, so many at once that they are about a block."""
    together = max(1, _BLOCK // (len(lines[0]) + 1))
    for begin in range(0, len(lines), together):
        yield end.join(lines[begin : begin + together]) + end


def _end_torn_line(file: BinaryIO) -> None:
    """Ends the last line if it has no line end. Two tasks doing so leave an empty line at worst."""
    if file.seek(0, os.SEEK_END) == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        file.write(b"\n")
