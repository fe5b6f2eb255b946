"""Launchers without Spark.

`MemoryLauncher` acts attempts out on logs in memory, one step whenever the test says so: they read
their assignment, fence, commit offsets and say their status in the order of real ones.
`ThreadLauncher` runs the real `run_task` in threads, for tests on a real broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from connect_runtime.plugins import registry
from connect_runtime.storage import assignments_topic, offsets_topic, status_topic
from connect_runtime.storage.log import Fenced, LogReader, Logs, LogWriter, NewRecord
from connect_runtime.storage.snapshots import (
    AssignmentSnapshot,
    OffsetSnapshot,
    State,
    Status,
    TaskId,
)
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_runtime.tasks.run import run_task
from connect_specs.desired import TargetState
from connect_specs.names import task_transactional_id
from support.agent import ensure_agent

SOURCE_PARTITION = "partition"


@dataclass(eq=False)
class MemoryAttempt:
    """One attempt. `alive` until its process is gone, which its launcher may not see: a killed
    one is reported LOST and lives on until `reap`. A `hung` one sees nothing."""

    logs: Logs
    launch: TaskLaunch
    ended: Callable[[Outcome], None]
    alive: bool = True
    reported: bool = False
    hung: bool = False
    state: State | None = None
    position: int = 0
    committed: int = 0
    writer: LogWriter | None = None
    snapshot: AssignmentSnapshot = field(default_factory=AssignmentSnapshot)
    reader: LogReader | None = None

    @property
    def id(self) -> TaskId:
        return self.launch.id

    @property
    def source(self) -> bool:
        return registry.connector(self.launch.connector_config["connector.class"]).kind == "source"

    @property
    def plain(self) -> bool:
        """Whether it writes without transactions, so that nobody can fence it."""
        return self.launch.worker.get("exactly.once.source.support") == "disabled"

    def step(self) -> None:
        """Looks at the assignment once, and does what follows."""
        if not self.alive or self.hung:
            return
        try:
            wanted = self._wanted()
            if wanted in ("stop", "nothing"):
                self._finish(wanted)
            elif self.state is None:
                self._begin()
            elif wanted == "pause":
                self._say(State.PAUSED)
            else:
                self._say(State.RUNNING)
                self._work()
        except Fenced:
            self._end(AttemptEnd.FENCED)

    def work_late(self) -> None:
        """Commits what it had begun before it was frozen, without another look."""
        if self.alive and self.state is State.RUNNING:
            try:
                self._work()
            except Fenced:
                self._end(AttemptEnd.FENCED)

    def fail(self) -> None:
        """The task throws."""
        if not self.alive or self.state is None:
            return
        try:
            if self._wanted() != "nothing":
                self._write([self._status(State.FAILED, "it threw")])
        except Fenced:
            self._end(AttemptEnd.FENCED)
        else:
            self._end(AttemptEnd.FAILED, "it threw")

    def lose(self) -> None:
        """The process dies at once."""
        if self.alive:
            self._end(AttemptEnd.LOST, "the worker is gone")

    def kill(self) -> None:
        """As Spark kills: reported now, dead only after `reap`."""
        self._report(AttemptEnd.LOST, "killed", dead=False)

    def reap(self) -> None:
        """A killed one dies."""
        if self.reported:
            self.alive = False

    def _wanted(self) -> str:
        if self.reader is None:
            self.reader = self.logs.reader(self.launch.topics.assignments)
        start = self.launch.assignments_offset
        records = [r for r in self.reader.poll() if r.offset >= start]
        self.snapshot = assignments_topic.reduce_all(self.snapshot, records)
        found = self.snapshot.tasks.get(self.id)
        if found is None:
            return "stop"
        if found.attempt != self.launch.attempt:
            return "nothing"
        return {TargetState.RUNNING: "run", TargetState.PAUSED: "pause"}.get(found.state, "stop")

    def _begin(self) -> None:
        launch = self.launch
        if self.source:
            if not self.plain:
                self.writer = self.logs.writer(
                    task_transactional_id(launch.group_id, self.id.connector, self.id.task)
                )
            again = self._wanted()
            if again in ("stop", "nothing"):
                self._end(AttemptEnd.STOPPED if again == "stop" else AttemptEnd.SUPERSEDED)
                return
            offsets = offsets_topic.reduce_all(
                OffsetSnapshot(), self.logs.reader(launch.topics.offsets).read_to_end(1)
            )
            found = offsets_topic.offset_of(
                offsets, self.id.connector, {SOURCE_PARTITION: self.id.task}
            )
            self.position = 0 if found is None else int(found["position"] or 0)
        self.state = State.UNASSIGNED

    def _work(self) -> None:
        """A source moves its offset by one."""
        if self.source:
            self.position += 1
            key = orjson.dumps([self.id.connector, {SOURCE_PARTITION: self.id.task}])
            value = orjson.dumps({"position": self.position, "by": self.launch.attempt})
            self._write([NewRecord(self.launch.topics.offsets, key, value)])
            self.committed += 1

    def _finish(self, wanted: str) -> None:
        if wanted == "nothing":
            self._end(AttemptEnd.SUPERSEDED)
            return
        if self.state is not None:
            self._write([self._status(State.UNASSIGNED)])
        self._end(AttemptEnd.STOPPED)

    def _say(self, state: State) -> None:
        if self.state is not state:
            self._write([self._status(state)])
            self.state = state

    def _status(self, state: State, trace: str | None = None) -> NewRecord:
        launch = self.launch
        status = Status(
            state, launch.worker_id, launch.leader_term, trace, "1", attempt=launch.attempt
        )
        return status_topic.task_record(launch.topics.status, self.id, status)

    def _write(self, records: list[NewRecord]) -> None:
        # what is written without an id of the task's own, nobody fences
        writer = self.writer or self.logs.writer(f"plain-{self.id}-{self.launch.attempt}")
        writer.write(records)

    def _end(self, ended: AttemptEnd, trace: str | None = None) -> None:
        self._report(ended, trace)
        self.alive = False

    def _report(self, ended: AttemptEnd, trace: str | None = None, *, dead: bool = True) -> None:
        if not self.reported:
            self.reported = True
            self.ended(Outcome(self.id, self.launch.attempt, ended, trace, dead))


class MemoryLauncher:
    """Implements `Launcher`. `attempts` holds all that were ever launched, in order."""

    def __init__(self, logs: Logs, slots: int = 8) -> None:
        self.slots = slots
        self.leads = False
        self.attempts: list[MemoryAttempt] = []
        self._logs = logs

    @property
    def active(self) -> int:
        return len(self.live)

    @property
    def problem(self) -> str | None:
        return None

    @property
    def live(self) -> list[MemoryAttempt]:
        """Attempts whose processes are alive."""
        return [attempt for attempt in self.attempts if attempt.alive]

    def lead(self, term: int) -> None:
        self.leads = True

    def follow(self) -> None:
        self.leads = False

    def launch(self, launch: TaskLaunch, ended: Callable[[Outcome], None]) -> None:
        assert self.leads, "it has released its executors"
        self.attempts.append(MemoryAttempt(self._logs, launch, ended))

    def kill(self, task: TaskId, attempt: int) -> None:
        for found in self.attempts:
            if (found.id, found.launch.attempt) == (task, attempt) and found.alive:
                found.kill()

    def step(self) -> None:
        """Every attempt takes one step."""
        for attempt in list(self.live):
            attempt.step()

    def close(self) -> None:
        for attempt in self.live:
            attempt.lose()


class ThreadLauncher:
    """Implements `Launcher`: `run_task` in threads. A kill only makes an orphan of an attempt."""

    def __init__(self, slots: int = 8) -> None:
        self.slots = slots
        self.launches: list[TaskLaunch] = []
        self._lock = threading.Lock()
        self._running: dict[tuple[TaskId, int], tuple[threading.Thread, threading.Event]] = {}
        self._killed: set[tuple[TaskId, int]] = set()
        ensure_agent()

    def lead(self, term: int) -> None: ...
    def follow(self) -> None: ...

    def launch(self, launch: TaskLaunch, ended: Callable[[Outcome], None]) -> None:
        orphan = threading.Event()
        key = (launch.id, launch.attempt)

        def run() -> None:
            outcome = run_task(launch, orphan.is_set)
            with self._lock:
                del self._running[key]
                killed = key in self._killed
            ended(Outcome(*key, AttemptEnd.LOST, "killed") if killed else outcome)

        thread = threading.Thread(target=run, name=f"attempt-{launch.id}", daemon=True)
        with self._lock:
            self.launches.append(launch)
            self._running[key] = (thread, orphan)
        thread.start()

    @property
    def active(self) -> int:
        return len(self.running)

    @property
    def problem(self) -> str | None:
        return None

    @property
    def running(self) -> list[TaskId]:
        """Tasks with an attempt in a thread now."""
        with self._lock:
            return [task for task, _ in self._running]

    def kill(self, task: TaskId, attempt: int) -> None:
        with self._lock:
            found = self._running.get((task, attempt))
            self._killed.add((task, attempt))
        if found is not None:
            found[1].set()

    def close(self) -> None:
        with self._lock:
            running: list[Any] = list(self._running.values())
        for _, orphan in running:
            orphan.set()
        for thread, _ in running:
            thread.join(15)
            assert not thread.is_alive(), f"{thread.name} does not end"


class BlindLauncher(ThreadLauncher):
    """Reports an attempt that it kills as lost at once, and does nothing to it: as on a node that
    is cut off, it goes on until it looks."""

    def __init__(self) -> None:
        super().__init__()
        self._ended: dict[tuple[TaskId, int], Callable[[Outcome], None]] = {}

    def launch(self, launch: TaskLaunch, ended: Callable[[Outcome], None]) -> None:
        self._ended[launch.id, launch.attempt] = ended
        super().launch(launch, ended)

    def kill(self, task: TaskId, attempt: int) -> None:
        self._ended[task, attempt](Outcome(task, attempt, AttemptEnd.LOST, "killed", dead=False))
