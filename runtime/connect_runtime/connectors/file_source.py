"""FileStreamSource: each line of a file becomes a record.

The stored `position` counts bytes: where to continue reading. Apache's source counts decoded
characters but skips that many bytes when it resumes, so after any non-ASCII text it resumes at the
wrong place. For ASCII files the two agree, and either can take over from the other.

If a file is truncated or replaced while it is followed, reading continues at its new beginning,
after everything still readable in the old one. A file that has grown beyond the position after it
was truncated is known by its bytes before the position: others were read there. If that happened
while nothing followed it, the rest of the old one cannot be found: a position after the file's end
is an error. A file that has grown beyond the position by then looks like the old one.
"""

from __future__ import annotations

import logging
import os
import re
import select
import stat
import time
from collections.abc import Mapping, Sequence
from io import FileIO
from typing import Any, Final

from connect_runtime import KAFKA_VERSION
from connect_runtime.api import (
    STRING,
    ConfigDef,
    ConfigType,
    ConnectorError,
    ExactlyOnceSupport,
    Importance,
    NonEmptyString,
    SourceBatch,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from connect_runtime.connectors.console import standard_input
from connect_runtime.java.scalars import java_utf8

CONFIG = (
    ConfigDef()
    .define(
        "file",
        ConfigType.STRING,
        None,
        importance=Importance.HIGH,
        doc="Source filename. If not specified, the standard input will be used",
    )
    .define(
        "topic",
        ConfigType.STRING,
        validator=NonEmptyString(),
        importance=Importance.HIGH,
        doc="The topic to publish data to",
    )
    .define(
        "batch.size",
        ConfigType.INT,
        2000,
        importance=Importance.LOW,
        doc="The maximum number of records the source task can read from the file each time it is"
        " polled",
    )
)

_log = logging.getLogger(__name__)

_BLOCK_BYTES: Final = 1 << 18
_REPLACED_S: Final = 0.2  # how long a replaced file is followed: it may still be written to
_MAX_REQUEST: Final = "producer.override.max.request.size"
# The longest allowed line, to bound memory; Kafka's default limit is 1 MiB.
_LINE_BYTES: Final = 16 << 20
# A pipe holds less than a long line: how long a poll waits for the next piece, and for all of them.
# The runtime polls again at once after a poll that took so long.
_PIECE_S: Final = 0.05
_PIECES_S: Final = 0.45
# By so many bytes before the position a file is known to be the one that was read.
_KNOWN_BYTES: Final = 256
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a final \r may be half of \r\n


class FileStreamSourceConnector(SourceConnector):
    """Runs one task, with any `tasks.max`: there is one file."""

    def version(self) -> str:
        return KAFKA_VERSION

    def config(self) -> ConfigDef:
        return CONFIG

    def task_class(self) -> type[SourceTask]:
        return FileStreamSourceTask

    def start(self, props: Mapping[str, str]) -> None:
        CONFIG.parse(props)
        self._props = dict(props)

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [dict(self._props)]

    def stop(self) -> None:
        pass

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        # standard input cannot be read again
        supported = bool(CONFIG.parse(config)["file"])
        return ExactlyOnceSupport.SUPPORTED if supported else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self,
        config: Mapping[str, str],
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        if not CONFIG.parse(config)["file"]:
            raise ConnectorError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. This is"
                " because stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is not None:  # a reset is allowed for any partition
                _check_offset(offset)
                _check_partition(partition)
        return True


def _check_offset(offset: SourceOffset) -> None:
    if "position" not in offset:
        raise ConnectorError("Offset objects should either be null or contain the key 'position'")
    position = offset["position"]
    if isinstance(position, bool) or not isinstance(position, int):
        raise ConnectorError(
            "The value for the 'position' key in the offset is expected to be a Long value"
        )
    if position < 0:
        raise ConnectorError(
            "The value for the 'position' key in the offset should be a non-negative value"
        )


def _check_partition(partition: SourcePartition | None) -> None:
    if partition is None:
        raise ConnectorError("Partition objects cannot be null")
    if "filename" not in partition:
        raise ConnectorError("Partition objects should contain the key 'filename'")


class FileStreamSourceTask(SourceTask):
    """Follows one file as it grows. Only complete lines become records. Polls wait only for the
    rest of a line that comes in pieces, through a pipe or from a terminal."""

    def __init__(self) -> None:
        self._file: FileIO | None = None
        self._name: str | None = None
        self._topic = ""
        self._batch_size = 0
        self._line_bytes = _LINE_BYTES
        self._lines = Lines()
        self._replaced_at: float | None = None
        self._known = b""  # what was read last, right before the file's position
        self._at_end = False

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = CONFIG.parse(props)
        self._name = config["file"] or None
        self._topic = config["topic"]
        self._batch_size = max(1, config["batch.size"])  # Connect's also returns one line at least
        self._line_bytes = max(_LINE_BYTES, _number(props.get(_MAX_REQUEST)))
        if self._name is None:
            self._file = standard_input()
            return
        offset = self.context.offset_storage_reader.offset({"filename": self._name})
        self._lines = Lines(_position(offset))

    def poll(self) -> SourceBatch | None:
        lines = self._lines.take(self._batch_size)
        until = time.monotonic() + _PIECES_S
        while not lines and self._read(until):
            lines = self._lines.take(self._batch_size)
        if not lines:
            return None
        return SourceBatch(
            topic=self._topic,
            source_partition={} if self._name is None else {"filename": self._name},
            source_offset=None if self._name is None else {"position": self._lines.position},
            values=lines,
            value_schema=STRING,
            read_at=int(time.time() * 1000),
        )

    def _read(self, until: float) -> bool:
        """Returns True if there is more. Waits until `until` at most for the rest of a line."""
        file = self._open()
        if file is None:
            return False
        size = _size(os.fstat(file.fileno())) if self._at_end and self._name is not None else None
        if size is not None:
            if size <= file.tell():
                return self._was_rewritten(file)
            if self._has_other_bytes(file):
                self._begin_again(file, "truncated")
                return True
        block = file.read(_BLOCK_BYTES)
        if block is None and self._lines.unfinished:
            return time.monotonic() < until and _is_readable(file, _PIECE_S)
        self._at_end = not block
        if block:
            self._check_line()
            self._lines.feed(block)
            self._known = (self._known + block[-_KNOWN_BYTES:])[-_KNOWN_BYTES:]
            return True
        return self._was_rewritten(file)

    def _check_line(self) -> None:
        if self._lines.unfinished > self._line_bytes:
            raise ConnectorError(
                f"{self._name or 'standard input'}: the line that begins at byte"
                f" {self._lines.position} is longer than {self._line_bytes} bytes. Such a record is"
                f" too large for Kafka; if it is not, set {_MAX_REQUEST} to its size"
            )

    def _has_other_bytes(self, file: FileIO) -> bool:
        """Returns True if the file, which has grown, has other bytes than were read from it."""
        begin = file.tell() - len(self._known)
        return os.pread(file.fileno(), len(self._known), begin) != self._known

    def _was_rewritten(self, file: FileIO) -> bool:
        """Returns True if, at its end, the file was truncated or replaced, so that the next read
        starts at the beginning. A replaced file gets some time to be written to its end."""
        how = "" if self._name is None else _changed(file, self._name)
        if how == "replaced":
            self._replaced_at = self._replaced_at or time.monotonic()
            if time.monotonic() < self._replaced_at + _REPLACED_S:
                return False
        self._replaced_at = None
        if how:
            self._begin_again(file, how)
        return bool(how)

    def _begin_again(self, file: FileIO, how: str) -> None:
        _log.warning("%s was %s: it is read from its beginning", self._name, how)
        file.close()
        self._file, self._known = None, b""
        self._lines = self._lines.ended()

    def _open(self) -> FileIO | None:
        if self._file is None and self._name is not None:
            try:
                # a named pipe is not waited for, neither for who writes to it nor for its data
                descriptor = os.open(self._name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            self._file = FileIO(descriptor)
            self._check_position(self._file)
            if self._file.seekable():
                position = self._file.seek(self._lines.position)
                # an earlier task may have read these
                size = min(position, _KNOWN_BYTES)
                self._known = os.pread(descriptor, size, position - size)
        return self._file

    def _check_position(self, file: FileIO) -> None:
        size = _size(os.fstat(file.fileno()))
        if size is not None and size < self._lines.position:
            raise ConnectorError(
                f"{self._name} has {size} bytes, and {self._lines.position} of them were read"
                " before: it was truncated or replaced while nothing followed it, or its offset was"
                " set beyond its end. To read it from its beginning, reset the connector's offsets"
            )

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def _position(offset: SourceOffset | None) -> int:
    position: Any = None if offset is None else offset.get("position")
    if position is None:
        return 0
    if isinstance(position, bool) or not isinstance(position, int):
        raise ConnectorError("Offset position is the incorrect type")
    return position


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.strip().isdecimal() else 0


def _size(status: os.stat_result) -> int | None:
    """Returns the size; None for terminals, pipes and other devices, which have none."""
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _is_readable(file: FileIO, wait_s: float) -> bool:
    """Returns True if there is something to read within this time."""
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(wait_s * 1000))


def _changed(file: FileIO, name: str) -> str:
    """Returns how a fully read open file changed: `truncated`, `replaced` or nothing."""
    ours = os.fstat(file.fileno())
    size = _size(ours)
    if size is None:
        return ""
    if size < file.tell():
        return "truncated"
    try:
        current = os.stat(name)  # noqa: PTH116 a Path would be most of what an idle poll costs
    except OSError:  # there is no new one, or it cannot be seen now
        return ""
    return "" if (current.st_dev, current.st_ino) == (ours.st_dev, ours.st_ino) else "replaced"


class Lines:
    r"""Splits bytes that arrive in pieces into lines of text, and counts the bytes of each.

    Lines end with `\n`, `\r\n` or `\r`, and with nothing else: `splitlines` would also split at
    form feeds and the like. `position` is the place in the file after the last line taken, the
    same however the bytes were cut into pieces. `unfinished` counts the bytes after the last line
    end.
    """

    __slots__ = ("_complete", "_next", "_pieces", "_sizes", "position", "unfinished")

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._complete: list[str] = []  # lines not yet taken, from _next on
        self._next = 0
        self._sizes: list[int] | None = None  # bytes of each line; None: its length and 1
        self._pieces: list[bytes] = []  # of the line that has no end yet, none of them empty
        self.unfinished = 0

    def feed(self, block: bytes) -> None:
        """Adds bytes. All complete lines must have been taken before."""
        self._pieces.append(block)
        self._next = 0
        if b"\n" not in block and b"\r" not in block and not self._ends_with_return():
            # nothing is joined before a line end: an endless line would be copied repeatedly
            self._complete, self._sizes = [], None
            self.unfinished += len(block)
            return
        data = b"".join(self._pieces) if len(self._pieces) > 1 else block
        if b"\r" in data:
            self._split_returns(data)
            return
        head, end, unfinished = data.rpartition(b"\n")
        self._keep(unfinished)
        # decoding at once is far cheaper than line by line, and cannot join or lose a line end
        self._complete = java_utf8(head).split("\n") if end else []
        self._sizes = None if head.isascii() else [len(x) + 1 for x in head.split(b"\n")]

    def _split_returns(self, data: bytes) -> None:
        self._complete, self._sizes, start = [], [], 0
        for end in _LINE_END.finditer(data):
            self._complete.append(java_utf8(data[start : end.start()]))
            self._sizes.append(end.end() - start)
            start = end.end()
        self._keep(data[start:])

    def _ends_with_return(self) -> bool:
        return len(self._pieces) > 1 and self._pieces[-2].endswith(b"\r")

    def _keep(self, unfinished: bytes) -> None:
        self._pieces = [unfinished] if unfinished else []
        self.unfinished = len(unfinished)

    def ended(self) -> Lines:
        """Returns what follows a truncation or replacement: an unfinished last line is now
        complete."""
        lines = Lines()
        if self.unfinished:
            text = java_utf8(b"".join(self._pieces).removesuffix(b"\r"))
            lines._complete, lines._sizes = [text], [0]
        return lines

    def take(self, most: int) -> list[str]:
        """Returns the next complete lines and moves `position` after them."""
        first, last = self._next, self._next + most
        lines = self._complete[first:last]
        if self._sizes is None:
            self.position += sum(map(len, lines)) + len(lines)
        else:
            self.position += sum(self._sizes[first:last])
        self._next = first + len(lines)
        return lines
