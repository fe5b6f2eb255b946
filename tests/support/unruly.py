"""File connectors that hang, throw or return what is no answer, in the method that `where` of their
config names: `start`, `task_configs`, `task.start`, `task.poll`, `task.put`, `task.flush`."""

from __future__ import annotations

import resource
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connect_runtime.api import RetriableError, SinkBatch, SinkTask, SourceTask, TopicPartition
from connect_runtime.connectors.file_sink import FileStreamSinkConnector, FileStreamSinkTask
from connect_runtime.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask

SOURCE = f"{__name__}.UnrulySource"
SINK = f"{__name__}.UnrulySink"
RETRYING = f"{__name__}.RetryingSink"


class UnrulySource(FileStreamSourceConnector):
    """A source."""

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        act(props, "start")

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return act(self._props, "task_configs") or super().task_configs(max_tasks)

    def task_class(self) -> type[SourceTask]:
        return UnrulySourceTask


class UnrulySink(FileStreamSinkConnector):
    """A sink."""

    def task_class(self) -> type[SinkTask]:
        return UnrulySinkTask


class RetryingSink(FileStreamSinkConnector):
    """Its tasks put nothing until the file `gate` is there, and ask to be given the same again;
    the file `<gate>.retries` says that they have."""

    def task_class(self) -> type[SinkTask]:
        return RetryingSinkTask


class UnrulySourceTask(FileStreamSourceTask):
    """Its task."""

    def start(self, props: Mapping[str, str]) -> None:
        self._given = props
        super().start(props)
        act(props, "task.start")

    def poll(self) -> Any:
        return act(self._given, "task.poll") or super().poll()


class UnrulySinkTask(FileStreamSinkTask):
    """Its task."""

    def start(self, props: Mapping[str, str]) -> None:
        self._given = props
        super().start(props)
        act(props, "task.start")

    def put(self, records: SinkBatch) -> None:
        act(self._given, "task.put")
        super().put(records)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        act(self._given, "task.flush")
        super().flush(offsets)


class RetryingSinkTask(FileStreamSinkTask):
    """Its task."""

    def start(self, props: Mapping[str, str]) -> None:
        self._gate = Path(props["gate"])
        super().start(props)

    def put(self, records: SinkBatch) -> None:
        if len(records) and not self._gate.exists():
            Path(f"{self._gate}.retries").touch()
            raise RetriableError("not yet")
        super().put(records)


# A plugin that fails keeps what it has taken
_TAKEN: list[bytearray] = []
_MOST = 256 << 20


def _take_all_memory() -> None:
    """Of what its process may have; this limits it as `spark.executor.pyspark.memory` does."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MOST, hard))
    size = _MOST
    while size > 1024:
        try:
            _TAKEN.append(bytearray(size))
        except MemoryError:
            size //= 2
    raise MemoryError


def act(props: Mapping[str, str], method: str) -> Any:
    """Misbehaves if it is to do so here; what it returns then is no answer."""
    if props.get("where") != method:
        return None
    match props["how"]:
        case "throws":
            raise RuntimeError(f"{method} throws")
        case "exits":
            raise SystemExit(3)
        case "takes all memory":
            _take_all_memory()
        case "hangs":
            threading.Event().wait()
    return 7
