"""A process that is killed: whichever call to cluster or ledger is its last, done or not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def around(self, call: Callable[[], Any], what: str = "") -> Any:
        with self._lock:
            self.calls += 1
            is_last = self.calls == self.at
        if is_last and self.before:
            raise Killed
        answer = call()
        if is_last:
            raise Killed
        return answer


@dataclass(slots=True)
class End:
    """After how many calls one thread of a process is dead, and whether the last one took place."""

    calls: int
    took_place: bool


@dataclass(slots=True)
class DoomOfMany:
    """Kills a process with several connectors under way: each of their threads is dead after some
    number of calls of its own. What the others do meanwhile is nothing to it, so that they may as
    well be run one after another. `ends` are those of the threads in the order of their start;
    None: it had nothing left to do. `done` is what took place on the cluster."""

    ends: list[End | None]
    done: set[str] = field(default_factory=set)
    dead: int = 0
    _now: End | None = None

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """In place of the one that runs threads."""
        dead = self.dead
        for job in jobs:
            self._now = self.ends.pop(0) if self.ends else None
            with suppress(Killed):
                job()
        self._now = None
        if self.dead > dead:
            raise Killed

    def around(self, call: Callable[[], Any], what: str = "") -> Any:
        if self._now is None:
            return self._did(call, what)
        self._now.calls -= 1
        if self._now.calls > 0:
            return self._did(call, what)
        self.dead += 1
        if self._now.took_place:
            self._did(call, what)
        raise Killed

    def _did(self, call: Callable[[], Any], what: str) -> Any:
        answer = call()
        self.done.add(what)
        return answer


class DoomedCluster(FakeCluster):
    """Its writing verbs may be the last thing that the process does."""

    doom: Doom | DoomOfMany

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _WRITES:
            return found
        doom = super().__getattribute__("doom")
        return lambda *args: doom.around(lambda: found(*args), told(name, *args))


_WRITES = frozenset(
    "create update_config set_target restart delete alter_offsets reset_offsets".split()
)


def told(verb: str, name: str, *rest: Any) -> str:
    """A request in short: `delete a`, `stopped a`."""
    return f"{rest[0] if verb == 'set_target' else verb} {name}"


@dataclass(slots=True)
class DoomedWriter:
    inner: LogWriter
    doom: Doom | DoomOfMany

    @property
    def usable(self) -> bool:
        return self.inner.usable

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        found: Sequence[LogRecord] = self.doom.around(lambda: self.inner.write(records), "write")
        return found

    def close(self) -> None:
        self.inner.close()


class DoomedLogs:
    """The ledger's logs, whose writes may be the last."""

    def __init__(self, inner: MemoryLogs, doom: Doom | DoomOfMany) -> None:
        self._inner = inner
        self._doom = doom

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def writer(self, transactional_id: str) -> DoomedWriter:
        return DoomedWriter(self._inner.writer(transactional_id), self._doom)
