"""Connect's verbs in memory, with their semantics and texts but without Kafka, herder and tasks.

tests/contract/test_worker.py holds them, through REST, to what a real worker answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect_runtime.herder import requests
from connect_runtime.herder.verbs import (
    ConnectorInfo,
    ConnectorStatus,
    InstanceStatus,
    NotLeader,
    RequestError,
    RuntimeInfo,
    TaskInfo,
)
from connect_runtime.storage.snapshots import ConnectorState, State, TaskId
from connect_specs.desired import OffsetEntry, TargetState

WORKER = "127.0.0.1:8083"
_STATES = {
    TargetState.RUNNING: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


@dataclass
class FakeConnector:
    config: dict[str, str]
    target: TargetState
    status: ConnectorStatus | None
    offsets: list[OffsetEntry] = field(default_factory=list)
    with_tasks: bool = True
    topics: list[str] = field(default_factory=lambda: ["orders"])


@dataclass
class FakeVerbs:
    """`follower` makes every write NotLeader, of `leader`; `started` False makes `ready` say so.
    `altered` are the entries of the last request that altered offsets, as they came."""

    known: dict[str, FakeConnector] = field(default_factory=dict)
    started: bool = True
    trouble: str | None = None
    lacks: str | None = None
    follower: bool = False
    leader: str | None = None
    altered: Sequence[OffsetEntry] = ()
    logger_levels: dict[str, str] = field(default_factory=dict)

    def connectors(self) -> Sequence[str]:
        return list(self.known)

    def info(self, name: str) -> ConnectorInfo:
        found = self._found(name, "Connector {} not found")
        ids = tuple(task.id for task in self.tasks(name))
        kind = "sink" if "Sink" in found.config["connector.class"] else "source"
        return ConnectorInfo(name, found.config, ids, kind)

    def config(self, name: str) -> Mapping[str, str]:
        return self._found(name, "Connector {} not found").config

    def status(self, name: str) -> ConnectorStatus:
        found = self.known.get(name)
        if found is None or found.status is None:
            raise RequestError(404, f"No status found for connector {name}")
        return found.status

    def tasks(self, name: str) -> Sequence[TaskInfo]:
        found = self._found(name, "Connector {} not found")
        if not found.with_tasks:
            return ()
        return (TaskInfo(TaskId(name, 0), {**found.config, "task.class": "T"}),)

    def topics(self, name: str) -> Sequence[str]:
        return self.known[name].topics if name in self.known else []

    def reset_topics(self, name: str) -> None:
        self.must_lead()
        if name in self.known:
            self.known[name].topics = []

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        return self._found(name, "Connector {} not found").offsets

    def runtime(self) -> RuntimeInfo:
        return RuntimeInfo("http://a:1", leading=True, term=3, slots=64, running=1)

    def changes(self) -> int:
        return 0

    def ready(self) -> bool:
        return self.started

    def problem(self) -> str | None:
        return self.trouble

    def degraded(self) -> str | None:
        return self.lacks

    def create(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None
    ) -> ConnectorInfo:
        self.must_lead()
        if name in self.known:
            raise RequestError(409, f"Connector {name} already exists")
        self._keep(name, config, initial_state or TargetState.RUNNING)
        return self.info(name)

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        self.must_lead()
        created = name not in self.known
        target = TargetState.RUNNING if created else self.known[name].target
        self._keep(name, config, target)
        return self.info(name), created

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        self.must_lead()
        merged = {**self.config(name), **patch}
        self.known[name].config = {k: v for k, v in merged.items() if v is not None}
        return self.info(name)

    def delete(self, name: str) -> None:
        self.must_lead()
        self._found(name, "Connector {} not found")
        del self.known[name]

    def stop(self, name: str) -> None:
        self._target(name, TargetState.STOPPED)

    def pause(self, name: str) -> None:
        self._target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._target(name, TargetState.RUNNING)

    def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus | None:
        self.must_lead()
        self._found(name, "Unknown connector: {}")
        if not include_tasks and not only_failed:
            return None
        return requests.restarting_status(
            self.status(name), include_tasks=include_tasks, only_failed=only_failed
        )

    def restart_task(self, name: str, task: int) -> None:
        self.must_lead()
        self._found(name, "Unknown connector: {}")
        if task >= len(self.tasks(name)):
            raise RequestError(404, f"Unknown task: {name}-{task}")

    def set_logger_level(self, namespace: str, level: str) -> None:
        self.must_lead()
        self.logger_levels[namespace] = level

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        found = self._stopped(name)
        self.altered = offsets
        kept = [
            old for old in found.offsets if all(old.partition != new.partition for new in offsets)
        ]
        found.offsets = [*kept, *(entry for entry in offsets if entry.offset is not None)]
        return "The offsets for this connector have been altered successfully"

    def reset_offsets(self, name: str) -> str:
        self._stopped(name).offsets = []
        return "The offsets for this connector have been reset successfully"

    def fail(self, name: str, trace: str) -> None:
        """Makes the connector's task FAILED."""
        status = self.status(name)
        failed = InstanceStatus(State.FAILED, WORKER, trace, None)
        self.known[name].status = replace(status, tasks={0: failed})

    def _keep(self, name: str, config: Mapping[str, str | None], target: TargetState) -> None:
        was = self.known.get(name)
        texts = {key: value for key, value in config.items() if value is not None}
        found = FakeConnector(texts, target, None)
        if was is not None:
            found.offsets, found.with_tasks = was.offsets, was.with_tasks
        else:
            found.with_tasks = target is TargetState.RUNNING
        self.known[name] = found
        self._show(name)

    def _target(self, name: str, target: TargetState) -> None:
        self.must_lead()
        found = self._found(name, "Unknown connector {}")
        found.target = target
        if target is not TargetState.PAUSED:
            # a paused connector keeps its tasks, and one that never ran has none
            found.with_tasks = target is TargetState.RUNNING
        self._show(name)

    def _show(self, name: str) -> None:
        found = self.known[name]
        state = InstanceStatus(_STATES[found.target], WORKER, None, "1.0")
        tasks = {task.id.task: state for task in self.tasks(name)}
        found.status = ConnectorStatus(name, state, tasks, self.info(name).type)

    def _stopped(self, name: str) -> FakeConnector:
        """A connector whose offsets can be moved."""
        self.must_lead()
        found = self._found(name, "Connector {} not found")
        requests.check_stopped(ConnectorState(name, found.config, found.target))
        return found

    def must_lead(self) -> None:
        if self.follower:
            raise NotLeader(self.leader)

    def _found(self, name: str, text: str) -> FakeConnector:
        if name not in self.known:
            raise RequestError(404, text.format(name))
        return self.known[name]
