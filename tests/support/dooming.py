"""A process that is killed: whichever call to cluster or ledger is its last, done or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.storage.log import LogRecord, LogWriter, NewRecord
from connect_runtime.storage.memory import MemoryLogs
from support.fake_cluster import FakeCluster


class Killed(BaseException):
    """What SIGKILL is to a process: nothing catches it."""


@dataclass(slots=True)
class Doom:
    """Kills at a certain call, before or after it takes effect."""

    at: int
    before: bool
    calls: int = 0

    def around(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls == self.at and self.before:
            raise Killed
        answer = call()
        if self.calls == self.at:
            raise Killed
        return answer


class DoomedCluster(FakeCluster):
    """Its writing verbs may be the last thing that the process does."""

    doom: Doom

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _WRITES:
            return found
        doom = super().__getattribute__("doom")
        return lambda *args: doom.around(lambda: found(*args))


_WRITES = frozenset(
    "create update_config stop pause resume restart delete alter_offsets reset_offsets".split()
)


@dataclass(slots=True)
class DoomedWriter:
    inner: LogWriter
    doom: Doom

    @property
    def usable(self) -> bool:
        return self.inner.usable

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        found: Sequence[LogRecord] = self.doom.around(lambda: self.inner.write(records))
        return found

    def close(self) -> None:
        self.inner.close()


class DoomedLogs:
    """The ledger's logs, whose writes may be the last."""

    def __init__(self, inner: MemoryLogs, doom: Doom) -> None:
        self._inner = inner
        self._doom = doom

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def writer(self, transactional_id: str) -> DoomedWriter:
        return DoomedWriter(self._inner.writer(transactional_id), self._doom)
