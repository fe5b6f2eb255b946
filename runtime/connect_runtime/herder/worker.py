"""What this runtime runs for the herder: connector instances and attempts at tasks.

It acts and remembers; it decides nothing. All of it is used on the herder's thread; the plugin
objects and Spark report back through events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import count
from typing import assert_never

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.decide import View
from connect_runtime.herder.effects import (
    ConnectorStatusIs,
    Effect,
    Fence,
    ForgetRun,
    KillRun,
    Launch,
    PublishTasks,
    Reassign,
    StartInstance,
    StopInstance,
    StopRun,
    TaskStatusIs,
    Unassign,
)
from connect_runtime.herder.events import (
    Event,
    InstanceFailed,
    InstanceStarted,
    InstanceStopped,
    TaskEnded,
)
from connect_runtime.herder.instances import Instances
from connect_runtime.herder.launcher import Launcher
from connect_runtime.herder.runs import Instance, InstancePhase, Run, RunPhase
from connect_runtime.herder.source_offsets import SourceOffsets
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Outcome, TaskLaunch
from connect_specs.names import ClusterTopics

# An attempt that was lost or fenced is launched again after 1 s, then 2, 4, ... up to a minute;
# one that ran this long before counts as the first.
_BACKOFF_S = 1.0
_BACKOFF_MOST_S = 60.0
_SETTLED_S = 60.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a task needs to know of its worker. `properties` in Apache's names; `graceful_s` is how
    long an attempt may take to end before it is killed."""

    group_id: str
    topics: ClusterTopics
    worker_id: str
    properties: Mapping[str, str]
    graceful_s: float = 5.0


class Worker:
    """Instances by name, attempts by task. `launcher` None: this process runs nothing. Connectors'
    methods run in `pool`, by default in threads of its own."""

    def __init__(
        self,
        settings: WorkerSettings,
        launcher: Launcher | None,
        sources: SourceOffsets,
        providers: ConfigProviders,
        pool: Executor | None = None,
    ) -> None:
        self.settings = settings
        self._launcher = launcher
        self._report: Callable[[Event], None] = lambda event: None
        self._hosted = Instances(lambda event: self._report(event), sources, providers, pool)
        self._serials = count(1)
        self.term = 0
        self.instances: dict[str, Instance] = {}
        self.runs: dict[TaskId, Run] = {}
        self.published: dict[str, str] = {}

    def report_to(self, report: Callable[[Event], None]) -> None:
        """Where events go; from any thread."""
        self._report = report

    @property
    def slots(self) -> int | None:
        """How many attempts can run at once; None where none ever can."""
        return None if self._launcher is None else self._launcher.slots

    # --- news ---

    def instance_changed(
        self, event: InstanceStarted | InstanceFailed | InstanceStopped, now: float
    ) -> None:
        """Takes note, unless the news is about an instance that was replaced since."""
        instance = self.instances.get(event.name)
        if instance is None or instance.serial != event.serial:
            return
        changed = dict(self.instances)
        match event:
            case InstanceStopped():
                del changed[event.name]
            case _ if instance.phase is InstancePhase.STOPPING:
                return
            case InstanceStarted() if instance.phase is InstancePhase.FAILED:
                return
            case InstanceStarted():
                changed[event.name] = replace(
                    instance,
                    phase=InstancePhase.STARTED,
                    kind=event.kind,
                    version=event.version,
                    task_configs=event.task_configs,
                    fingerprint=event.fingerprint,
                    reload_at=_reload_at(instance, event, now),
                )
                # a leader's tasks start after their connector, with the values of that time
                self.published = {event.name: event.fingerprint, **self.published}
            case InstanceFailed():
                changed[event.name] = replace(
                    instance,
                    phase=InstancePhase.FAILED,
                    trace=event.trace,
                    version=event.version,
                    reload_at=_reload_at(instance, event, now),
                )
        self.instances = changed

    def task_ended(self, outcome: Outcome, now: float) -> None:
        """Takes note, unless the news is about an attempt that was replaced since."""
        run = self.runs.get(outcome.id)
        if run is None or run.attempt != outcome.attempt:
            return
        if run.phase is not RunPhase.LAUNCHED:
            # It was asked to end, so it has: how does not matter any more.
            self._drop(run.id)
            return
        failures = 1 if now - run.launched_at > _SETTLED_S else run.failures + 1
        wait = min(_BACKOFF_S * 2 ** (failures - 1), _BACKOFF_MOST_S)
        self._set(
            replace(
                run,
                phase=RunPhase.ENDED,
                outcome=outcome,
                failures=failures,
                deadline=now + wait,
            )
        )

    def forget_all(self) -> None:
        """This runtime leads no more: instances stop; the new leader supersedes the attempts."""
        for name, instance in self.instances.items():
            self._hosted.stop(name, instance.serial)
        self.instances = {}
        self.runs = {}
        self.published = {}

    def close(self) -> None:
        """Stops all instances."""
        self._hosted.close(self.settings.graceful_s)

    # --- acts ---

    def act(
        self,
        effect: Effect,
        view: View,
        now: float,
        attempts: Mapping[TaskId, int],
        offsets: Mapping[bytes | None, int],
    ) -> None:
        """Carries out `effect` after its records were committed. `offsets` are those of the
        assignments just written, by key."""
        match effect:
            case StartInstance(name=name):
                self._start_instance(name, view)
            case StopInstance(name=name):
                self._stop_instance(name)
                if name not in view.config.connectors:
                    self.published = {k: v for k, v in self.published.items() if k != name}
            case Launch(task=task):
                self._launch(effect, view, now, attempts[task], offsets[str(task).encode()])
            case Reassign(task=task, state=state):
                self._set(replace(self.runs[task], state=state))
            case StopRun(task=task):
                deadline = now + self.settings.graceful_s
                self._set(replace(self.runs[task], phase=RunPhase.STOPPING, deadline=deadline))
            case KillRun(task=task):
                self._set(replace(self.runs[task], phase=RunPhase.KILLED))
                if self._launcher is not None:
                    self._launcher.kill(task, self.runs[task].attempt)
            case ForgetRun(task=task):
                self._drop(task)
            case PublishTasks(name=name):
                self.published = {**self.published, name: self.instances[name].fingerprint}
            case Fence() | Unassign() | ConnectorStatusIs() | TaskStatusIs():
                pass
            case _:
                assert_never(effect)

    def _start_instance(self, name: str, view: View) -> None:
        config = view.config.connectors[name].config
        instance = Instance(next(self._serials), InstancePhase.STARTING, config)
        self.instances = {**self.instances, name: instance}
        self._hosted.start(name, instance.serial, config)

    def _stop_instance(self, name: str) -> None:
        instance = self.instances[name]
        stopping = replace(instance, phase=InstancePhase.STOPPING)
        self.instances = {**self.instances, name: stopping}
        self._hosted.stop(name, instance.serial)

    def _launch(self, effect: Launch, view: View, now: float, attempt: int, offset: int) -> None:
        assert self._launcher is not None
        task = effect.task
        state = view.config.connectors[task.connector]
        self._set(
            Run(
                task,
                attempt,
                effect.generation,
                effect.state,
                launched_at=now,
                failures=effect.failures,
            )
        )
        launch = TaskLaunch(
            id=task,
            attempt=attempt,
            generation=effect.generation,
            leader_term=self.term,
            assignments_offset=offset,
            group_id=self.settings.group_id,
            topics=self.settings.topics,
            worker_id=self.settings.worker_id,
            config=state.task_configs[task.task],
            connector_config=state.config,
            worker=self.settings.properties,
        )
        self._launcher.launch(launch, self._ended)

    def _ended(self, outcome: Outcome) -> None:
        self._report(TaskEnded(outcome))

    def _drop(self, task: TaskId) -> None:
        self.runs = {key: run for key, run in self.runs.items() if key != task}

    def _set(self, run: Run) -> None:
        self.runs = {**self.runs, run.id: run}


def _reload_at(
    instance: Instance, event: InstanceStarted | InstanceFailed, now: float
) -> float | None:
    """The first answer counts: later ones come from the values that were resolved before it."""
    if instance.reload_at is not None or event.reload_in_s is None:
        return instance.reload_at
    return now + event.reload_in_s
