"""A connector that does what it must not, and a Kafka that refuses whatever concerns it."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from connect_runtime.storage.log import Fenced, LogRecord, NewRecord, WriteRefused
from connect_runtime.storage.memory import (
    MemoryBackgroundWriter,
    MemoryLogs,
    MemoryLogWriter,
)
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Unreachable
from support.connectors import ObedientSource

MISBEHAVING = f"{__name__}.MisbehavingSource"

TASK_CONFIGS: dict[str, Any] = {
    "none": None,
    "a number": 3,
    "not mappings": [1, "x"],
    "a number in it": [{"n": 1}],
    "no value in it": [{"n": None, "m": "1"}],
    "a key that is no text": [{1: "n"}],
    "half a surrogate": [{"n": "\ud800"}],
    "too many": [{"n": "1"}] * 9,
    "no end": itertools.repeat({"n": "1"}),
    "nothing": [],
    "two": [{"n": "1"}, {"n": "2"}],
}


class MisbehavingSource(ObedientSource):
    """`start`, `answer` and `stop` of its config say how."""

    answers: ClassVar[int] = 0

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self._misbehave(props.get("start", ""))

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        answer = self.props.get("answer", "two")
        if answer == "another each time":
            MisbehavingSource.answers += 1
            return [{"n": str(MisbehavingSource.answers)}]
        if answer in ("throws", "exits", "surrogate"):
            self._misbehave(answer)
        found: Any = TASK_CONFIGS[answer]
        return found  # type: ignore[no-any-return]

    def stop(self) -> None:
        self._misbehave(self.props.get("stop", ""))

    def _misbehave(self, how: str) -> None:
        match how:
            case "throws":
                raise RuntimeError("it throws")
            case "exits":
                sys.exit(3)
            case "surrogate":
                raise RuntimeError("half a surrogate: \ud800")
            case "long":
                raise RuntimeError("x" * 3_000_000)
            case "fails itself":
                self.context.raise_error(RuntimeError("it fails itself"))
            case "asks again":
                self.context.request_task_reconfiguration()


class RefusingLogs(MemoryLogs):
    """Refuses what the leader writes where `refuses` says so, and to fence ids that begin with
    `unfenced`. A transaction of the leader with more than `most` bytes takes too long."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.refuses: Callable[[NewRecord], bool] = lambda record: False
        self.unfenced: str | None = None
        self.most = math.inf
        self.fence_error: Callable[[], ConnectError] = not_allowed
        # statuses that Kafka does not take, and whether no writer can be opened
        self.unwritable: Callable[[NewRecord], bool] = lambda record: False
        self.no_writer = False

    def background_writer(self) -> MemoryBackgroundWriter:
        return _RefusingStatuses(self)

    def writer(self, transactional_id: str) -> MemoryLogWriter:
        if self.no_writer:
            raise silent()
        with self.changed:
            return _RefusingWriter(self, transactional_id, self.take_over(transactional_id))

    def fence(self, transactional_ids: Sequence[str]) -> None:
        if self.unfenced and any(each.startswith(self.unfenced) for each in transactional_ids):
            raise self.fence_error()
        super().fence(transactional_ids)


class _RefusingStatuses(MemoryBackgroundWriter):
    """Keeps what cannot be written, until it can."""

    def __init__(self, logs: RefusingLogs) -> None:
        super().__init__(logs)
        self._refusing = logs
        self._kept: list[NewRecord] = []

    def write(self, records: Sequence[NewRecord]) -> None:
        records, self._kept = [*self._kept, *records], []
        for record in records:
            if self._refusing.unwritable(record):
                self._kept.append(record)
            else:
                super().write([record])
        self.problem = f"{self._kept[0].topic}-0: no broker" if self._kept else None

    def drop(self) -> None:
        self._kept, self.problem = [], None


class _RefusingWriter(MemoryLogWriter):
    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        logs = self._logs
        assert isinstance(logs, RefusingLogs)
        if self._id.startswith("connect-cluster-") and any(map(logs.refuses, records)):
            raise WriteRefused(Diagnostic("write.refused", "The record is too large"))
        if sum(len(each.value or b"") for each in records) > logs.most:
            # as Kafka answers once it has aborted one
            raise Fenced(Diagnostic("write.fenced", "A newer writer has taken over"))
        # a task's status
        return super().write([each for each in records if not logs.unwritable(each)])


def not_allowed() -> ConnectError:
    return Failed(Diagnostic("kafka.not-allowed", "Earlier writers cannot be fenced"))


def silent() -> ConnectError:
    return Unreachable(Diagnostic("kafka.unreachable", "Earlier writers cannot be fenced"))
