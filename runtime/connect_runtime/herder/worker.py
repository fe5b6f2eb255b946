"""Runs connector instances, attempts and rounds of fencing for the herder.

It acts and remembers, and decides nothing. Used on the herder's thread only; plugin objects, Spark
and fencing report back through events.
"""

from __future__ import annotations

import logging
import math
import queue
import random
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import assert_never

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.engine.jvm import call_timeout_s
from connect_runtime.engine.jvm_connection import SLOW_S
from connect_runtime.herder import effects
from connect_runtime.herder.earlier_attempts import kind_of
from connect_runtime.herder.effects import Effect
from connect_runtime.herder.failures import Failures
from connect_runtime.herder.instances import (
    Instances,
    PluginCalls,
    TooManyTasks,
    check_task_count,
    java_settings,
)
from connect_runtime.herder.launcher import Launcher, WorkerSettings
from connect_runtime.herder.runs import (
    Event,
    Fencing,
    FencingEnded,
    Instance,
    InstanceEvent,
    InstanceFailed,
    InstancePhase,
    InstanceStarted,
    InstanceStopped,
    Kind,
    Run,
    RunPhase,
    TaskEnded,
)
from connect_runtime.herder.source_offsets import SourceOffsets
from connect_runtime.herder.view import View
from connect_runtime.plugins import sides
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.storage.status_topic import storable_trace
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_runtime.traces import trace_text
from connect_specs.secrets import Redactor

_log = logging.getLogger(__name__)

# A lost or fenced attempt is launched again after about 1 s, then 2, 4, ... up to a minute; if it
# ran this long before, the pauses start over. They differ: a task that takes its executor with it
# would otherwise always start together with the innocent ones, and none of them would get on.
_BACKOFF_S = 1.0
_BACKOFF_MAX_S = 60.0
_SETTLED_S = 300.0
# A JVM that was killed while it ran says little of its task, unless the system does so all
# the time: ten kills are a failure, and pauses before that a tenth of the first one
_KILL = 0.1
# A connector that throws when asked for task configs is asked again after so long, then 0.5 s, 1,
# ... as by Apache's workers: a database may be away while its tables are listed.
_ASK_S = 0.25
_ASK_MAX_S = 60.0
# Plugins that take longer to start have failed, those of Java after `java.call.timeout.ms`; those
# that take longer to stop are abandoned, as in Connect.
_START_S = 300.0
_STOP_S = 5.0
# An attempt that has not ended by then is killed again.
_KILLED_S = 15.0
# Ends after which a transaction may be open
_LEAVES_TRANSACTIONS = (AttemptEnd.FAILED, AttemptEnd.INTERRUPTED, AttemptEnd.LOST)
# After a lost term: by then the new leader has superseded our attempts, and they have ended.
_SUPERSEDED_S = 60.0


class Worker:
    """Instances, fencings and failures by connector, attempts by task. `launcher` None: this
    process runs nothing. Connectors' methods and fencing run in `pool`, by default in its own
    threads. `events` holds what they, and tasks, report from any thread."""

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
        self._sources = sources
        self._pool = pool or PluginCalls()
        self.events: queue.Queue[Event] = queue.Queue()
        self._hosted = Instances(self.events.put, sources, providers, self._pool, settings)
        self._serials = count(1)
        self.term = 0
        self.instances: dict[str, Instance] = {}
        self.runs: dict[TaskId, Run] = {}
        self.kinds: dict[str, Kind | None] = {}
        self.versions: dict[str, str | None] = {}
        self.fencings: dict[str, Fencing] = {}
        # configs as stored: a config provider must not hold up the herder's thread
        self.failures = Failures(partial(Redactor.of_configs, settings.properties))
        # By connector: the fingerprint of what its tasks' configs resolve to.
        self.published: dict[str, str] = {}
        # Attempts that are known to be dead. Later attempts have higher numbers.
        self.dead: dict[TaskId, int] = {}
        # By connector: since when its tasks have had to wait to be launched.
        self.waits: dict[str, float] = {}
        # Attempts of earlier terms that have not ended, and when they are killed.
        self._former: dict[tuple[TaskId, int], float] = {}

    @property
    def slots(self) -> int | None:
        """Returns how many attempts can run at once; None if none ever can."""
        return None if self._launcher is None else self._launcher.slots

    @property
    def occupied(self) -> int:
        """Returns how many slots attempts hold, including abandoned attempts."""
        return 0 if self._launcher is None else self._launcher.active

    @property
    def obstacle(self) -> str | None:
        """Returns why nothing can run now."""
        return None if self._launcher is None else self._launcher.problem

    # --- events ---

    def instance_changed(self, event: InstanceEvent, now: float) -> None:
        """Applies the event, unless its instance was replaced."""
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
                changed[event.name] = _started(instance, event, now)
                if event.task_configs is not None:
                    # a leader's tasks start after their connector, with the values of that moment
                    self.published = {event.name: event.fingerprint, **self.published}
            case InstanceFailed():
                changed[event.name] = replace(
                    instance,
                    phase=InstancePhase.FAILED,
                    trace=storable_trace(event.trace),
                    version=event.version,
                    deadline=math.inf,
                    reload_at=_reload_at(instance, event, now),
                )
        self.instances = changed
        if isinstance(event, InstanceStarted | InstanceFailed):
            # known also when the instance is gone, and an attempt of its tasks is not
            kind = event.kind if isinstance(event, InstanceStarted) else None
            class_name = instance.config.get("connector.class") or ""
            self.remember_class(class_name, kind, event.version)

    def remember_class(self, class_name: str, kind: Kind | None, version: str | None) -> None:
        """Remembers what is known of a connector class."""
        if kind is not None and self.kinds.get(class_name) != kind:
            self.kinds = {**self.kinds, class_name: kind}
        if version is not None and self.versions.get(class_name) != version:
            self.versions = {**self.versions, class_name: version}

    def fencing_ended(self, event: FencingEnded, view: View, now: float) -> None:
        """Applies the event, unless its round is no longer current."""
        fencing = self.fencings.get(event.name)
        if fencing is None or fencing.serial != event.serial:
            return
        if event.error is None:
            self.failures.succeeded(event.name)
            self.fencings = {**self.fencings, event.name: replace(fencing, done=True)}
            return
        self._forget_fencing(event.name)
        if fencing.is_for(view.config.connectors.get(event.name)):
            self.failures.add(event.name, event.error, view, now)

    def task_ended(self, outcome: Outcome, now: float) -> None:
        """Applies the outcome, unless its attempt was replaced."""
        self._former.pop((outcome.id, outcome.attempt), None)
        if outcome.dead:
            newest = max(self.dead.get(outcome.id, -1), outcome.attempt)
            self.dead = {**self.dead, outcome.id: newest}
        run = self.runs.get(outcome.id)
        if run is None or run.attempt != outcome.attempt:
            return
        if run.phase is not RunPhase.LAUNCHED and (outcome.dead or self.settings.exactly_once):
            # It was asked to end; how it ended no longer matters.
            self._drop(run.id)
            return
        if outcome.trace is not None:
            outcome = replace(outcome, trace=storable_trace(outcome.trace))
        failures = 0.0 if now - run.launched_at > _SETTLED_S else run.failures
        # an earlier attempt that made its producer late, or another worker, is no failure of this
        if outcome.ended is not AttemptEnd.FENCED:
            failures += _KILL if outcome.killed else 1
        pause = _KILL if 0 < failures < 1 else 2 ** max(failures - 1, 0)
        wait = min(_BACKOFF_S * pause, _BACKOFF_MAX_S) * random.uniform(0.5, 1)
        self._set(
            replace(
                run,
                phase=RunPhase.ENDED,
                outcome=outcome,
                failures=failures,
                ended_at=now,
                deadline=now + wait,
            )
        )

    def lead(self, term: int) -> None:
        """Starts leading in this term."""
        self.term = term
        if self._launcher is not None:
            self._launcher.lead(term)

    def forget_all(self, now: float) -> None:
        """Stops leading: instances stop, the new leader supersedes the attempts, and those that do
        not end in time are killed."""
        for name, instance in self.instances.items():
            self._hosted.stop(name, instance.serial)
        for run in self.runs.values():
            if run.active:
                self._former[run.id, run.attempt] = now + _SUPERSEDED_S + self.settings.graceful_s
        self.instances = {}
        self.runs = {}
        self.fencings = {}
        self.waits = {}
        self.failures.clear()
        self.published = {}
        if self._launcher is not None:
            self._launcher.follow()

    def kill_former(self, now: float) -> None:
        """Kills overdue attempts of earlier terms, again and again until their end is reported."""
        for (task, attempt), deadline in list(self._former.items()):
            if now >= deadline and self._launcher is not None:
                self._former[task, attempt] = now + _KILLED_S
                text = "Attempt %d of task %s is of an earlier term and is killed"
                about = {"connector": task.connector, "task": task.task}
                _log.warning(text, attempt, task, extra=about)
                self._launcher.kill(task, attempt)

    def close(self) -> None:
        """Stops all instances."""
        self._hosted.close(self.settings.graceful_s)

    # --- effects ---

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
            case effects.StartInstance(name=name):
                self._start_instance(name, view, now)
            case effects.StopInstance(name=name):
                self._stop_instance(name, now)
                if name not in view.config.connectors:
                    self.published = {k: v for k, v in self.published.items() if k != name}
            case effects.ForgetInstance(name=name):
                self.instances = {key: i for key, i in self.instances.items() if key != name}
            case effects.FailInstance(name=name, trace=trace):
                failed = InstanceFailed(name, self.instances[name].serial, trace)
                self.instance_changed(failed, now)
            case effects.AskTasks(name=name):
                instance = self.instances[name]
                self.instances = {**self.instances, name: replace(instance, ask_at=math.inf)}
                self._hosted.ask(name, instance.serial)
            case effects.Identify(class_name=class_name):
                self.kinds = {**self.kinds, class_name: None}
                self._hosted.identify(class_name)
            case effects.PublishTasks(name=name):
                state = view.config.connectors[name]
                published = replace(self.instances[name], published=state.generation)
                self.instances = {**self.instances, name: published}
                self.published = {**self.published, name: published.fingerprint}
            case effects.Fence():
                self._begin_fencing(effect, view)
            case effects.RecordFencing(name=name):
                self._forget_fencing(name)
            case effects.Fail(name=name, trace=trace, again_s=again_s):
                self.failures.add(name, trace, view, now, again_s)
            case effects.ForgetFailure(name=name):
                self.failures.forget(name, view)
            case effects.Wait(name=name, over=over):
                waits = {key: since for key, since in self.waits.items() if key != name}
                self.waits = waits if over else {**waits, name: now}
            case effects.Launch(task=task):
                self._launch(effect, view, now, attempts[task], offsets[str(task).encode()])
            case effects.Reassign(task=task, state=target):
                self._set(replace(self.runs[task], state=target))
            case effects.StopRun(task=task):
                deadline = now + self.settings.graceful_s
                self._set(replace(self.runs[task], phase=RunPhase.STOPPING, deadline=deadline))
            case effects.KillRun(task=task):
                deadline = now + _KILLED_S
                self._set(replace(self.runs[task], phase=RunPhase.KILLED, deadline=deadline))
                if self._launcher is not None:
                    self._launcher.kill(task, self.runs[task].attempt)
            case effects.ForgetRun(task=task):
                self._drop(task)
            case effects.Unassign() | effects.ConnectorStatusIs() | effects.TaskStatusIs():
                pass
            case _:
                assert_never(effect)

    def _start_instance(self, name: str, view: View, now: float) -> None:
        config = view.config.connectors[name].config
        serial = next(self._serials)
        start_s = call_timeout_s(self.settings.properties) if sides.is_java(config) else _START_S
        instance = Instance(
            serial,
            InstancePhase.STARTING,
            config,
            deadline=now + start_s,
            slow_at=now + min(SLOW_S, start_s),
        )
        self.instances = {**self.instances, name: instance}
        self._hosted.start(name, serial, config)

    def _stop_instance(self, name: str, now: float) -> None:
        instance = self.instances[name]
        stopping = replace(instance, phase=InstancePhase.STOPPING, deadline=now + _STOP_S)
        self.instances = {**self.instances, name: stopping}
        self._hosted.stop(name, instance.serial)

    def _begin_fencing(self, effect: effects.Fence, view: View) -> None:
        name, serial = effect.name, next(self._serials)
        config = view.config.connectors[name].config
        self.fencings = {**self.fencings, name: Fencing(serial, effect.generation, config)}

        def run() -> None:
            failure: Exception | None = None
            try:
                self._hosted.fence(name, config, range(effect.count))
            except Exception as error:
                failure = error
            self.events.put(FencingEnded(name, serial, failure))

        self._pool.submit(run)

    def _forget_fencing(self, name: str) -> None:
        self.fencings = {key: fencing for key, fencing in self.fencings.items() if key != name}

    def _launch(
        self, effect: effects.Launch, view: View, now: float, attempt: int, offset: int
    ) -> None:
        assert self._launcher is not None
        task = effect.task
        state = view.config.connectors[task.connector]
        run = Run(task, attempt, effect.generation, effect.state, launched_at=now)
        self._set(replace(run, failures=effect.failures))
        java = java_settings(state.config)
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
            worker={**self.settings.properties, **(java or {})},
            socket=self.settings.socket,
            count=len(state.task_configs),
            java=java is not None,
            # sources may have a key `topics`, too
            sink=kind_of(view, state) == "sink",
            logger_levels=self.settings.logger_levels,
        )
        try:
            check_task_count(task.connector, len(state.task_configs), state.config)
        except TooManyTasks as error:
            trace = trace_text(error, Redactor())
            self.events.put(TaskEnded(Outcome(task, attempt, AttemptEnd.FAILED, trace)))
        else:
            self._launcher.launch(launch, partial(self._attempt_ended, launch))

    def _attempt_ended(self, launch: TaskLaunch, outcome: Outcome) -> None:
        """Reports the end of an attempt. If it may have left a transaction open, which would hide
        the offsets of others, its producer is fenced before, unless this leader knows of another
        one that has superseded it: that would fence its successor. Called from any thread."""

        def run() -> None:
            current = self.runs.get(launch.id)
            if current is not None and current.attempt == launch.attempt:
                try:
                    config = launch.connector_config
                    self._hosted.fence(launch.id.connector, config, [launch.id.task])
                except Exception as error:  # its successor fences it, too
                    _log.warning("Task %s is not fenced: %s", launch.id, error)
            self.events.put(TaskEnded(outcome))

        if launch.java and launch.transactional and outcome.ended in _LEAVES_TRANSACTIONS:
            with suppress(RuntimeError):  # the runtime ends
                self._pool.submit(run)
                return
        self.events.put(TaskEnded(outcome))

    def _drop(self, task: TaskId) -> None:
        self.runs = {key: run for key, run in self.runs.items() if key != task}

    def _set(self, run: Run) -> None:
        self.runs = {**self.runs, run.id: run}


def _started(instance: Instance, event: InstanceStarted, now: float) -> Instance:
    """Returns the instance with its answer, or with the time when it is asked again."""
    started = replace(
        instance,
        phase=InstancePhase.STARTED,
        kind=event.kind,
        version=event.version,
        deadline=math.inf,
        fingerprint=event.fingerprint,
        reload_at=_reload_at(instance, event, now),
    )
    if event.task_configs is None:
        pause_s = min(_ASK_S * 2**instance.thrown, _ASK_MAX_S)
        trace = None if event.trace is None else storable_trace(event.trace)
        return replace(started, trace=trace, thrown=instance.thrown + 1, ask_at=now + pause_s)
    return replace(
        started,
        task_configs=event.task_configs,
        published=None,
        trace=None,
        thrown=0,
        ask_at=math.inf,
    )


def _reload_at(instance: Instance, event: InstanceStarted | InstanceFailed, now: float) -> float:
    """Returns when to reload. The first answer counts: later ones use the same resolved values."""
    if instance.reload_at != math.inf or event.reload_in_s is None:
        return instance.reload_at
    return now + event.reload_in_s
