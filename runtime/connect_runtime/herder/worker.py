"""Runs connector instances, attempts and rounds of fencing for the herder.

It acts and remembers, and decides nothing. Used on the herder's thread only; plugin objects, Spark
and fencing report back through events.
"""

from __future__ import annotations

import logging
import math
import queue
import random
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from itertools import count
from typing import assert_never

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder import effects
from connect_runtime.herder.effects import Effect
from connect_runtime.herder.instances import (
    Instances,
    PluginCalls,
    TooManyTasks,
    check_task_count,
    java_settings,
)
from connect_runtime.herder.launcher import Launcher, WorkerSettings
from connect_runtime.herder.runs import (
    ConnectorFailure,
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
from connect_runtime.kafka.errors import UNREACHABLE
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.storage.status_topic import storable_trace
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_runtime.traces import trace_text
from connect_specs.diagnostics import ConnectError
from connect_specs.secrets import Redactor

_log = logging.getLogger(__name__)

# A lost or fenced attempt is launched again after about 1 s, then 2, 4, ... up to a minute; if it
# ran this long before, the pauses start over. They differ: a task that takes its executor with it
# would otherwise always start together with the innocent ones, and none of them would get on.
_BACKOFF_S = 1.0
_BACKOFF_MAX_S = 60.0
_SETTLED_S = 60.0
# A connector that throws when asked for task configs is asked again after so long, then 0.5 s, 1,
# ... as by Apache's workers: a database may be away while its tables are listed.
_ASK_S = 0.25
_ASK_MAX_S = 60.0
# Plugins that take longer to start have failed; those that take longer to stop are abandoned, as in
# Connect.
_START_S = 300.0
_STOP_S = 5.0
# An attempt that has not ended by then is killed again.
_KILLED_S = 15.0
# A failure that passes by itself is retried after so long
_RETRY_S = 2.0
_RETRY_MAX_S = 60.0
# After a lost term: by then the new leader has superseded our attempts, and they have ended.
_SUPERSEDED_S = 60.0


class Failures:
    """Failures by connector, and whether they are retried automatically.

    If Kafka refuses something, the connector waits for a restart or another config, as in KIP-618.
    If Kafka was too slow or unreachable, it is retried with pauses that double up to a minute; so
    is the cleanup of a deleted connector. `all` is replaced, never changed.
    """

    def __init__(self, redactor: Callable[[Mapping[str, str]], Redactor]) -> None:
        """Keeps `redactor`, which redacts the secrets of a connector's stored config and the
        worker's."""
        self._redactor = redactor
        self.all: dict[str, ConnectorFailure] = {}
        # Consecutive failures, kept while a retry has cleared the failure itself.
        self._counts: dict[str, int] = {}
        # The last logged failure, so that retries are not logged each time.
        self._logged: dict[str, str] = {}

    def add(
        self,
        name: str,
        error: Exception | str,
        view: View,
        now: float,
        again_s: float = math.inf,
    ) -> None:
        """Records why the connector cannot be brought to its wanted state, and that it is retried
        in `again_s` seconds."""
        state = view.config.connectors.get(name)
        redactor = self._redactor(state.config if state else {})
        text = redactor.redact(error) if isinstance(error, str) else trace_text(error, redactor)
        trace = storable_trace(text)
        if self._logged.get(name) != trace:
            self._logged[name] = trace
            _log.error("Connector %s fails: %s", name, trace, extra={"connector": name})
        failure = self.all.get(name)
        if failure is not None and failure.is_about(state) and now < failure.retry_at:
            # only its status could still be written
            self.all = {**self.all, name: replace(failure, not_reported=True)}
            return
        retry_at = now + again_s
        # a deleted connector cannot be restarted, and its attempts must end
        passes = isinstance(error, ConnectError) and any(
            diagnostic.code == UNREACHABLE for diagnostic in error.diagnostics
        )
        if passes or state is None:
            count = self._counts[name] = self._counts.get(name, 0) + 1
            retry_at = now + min(_RETRY_S * 2 ** (count - 1), _RETRY_MAX_S)
        else:
            self._counts.pop(name, None)
        self.all = {**self.all, name: ConnectorFailure(trace, state, retry_at=retry_at)}

    def forget(self, name: str, view: View) -> None:
        """Clears the connector's failure, so that it is tried again."""
        failure = self.all.get(name)
        if failure is not None and not failure.is_about(view.config.connectors.get(name)):
            self._counts.pop(name, None)
        self.all = {key: failure for key, failure in self.all.items() if key != name}

    def succeeded(self, name: str) -> None:
        """Resets the retry pause: what failed before has worked."""
        self._counts.pop(name, None)
        self._logged.pop(name, None)

    def clear(self) -> None:
        """Clears all failures, because another runtime leads now."""
        self.all = {}
        self._counts.clear()
        self._logged.clear()


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
        failures = 1 if now - run.launched_at > _SETTLED_S else run.failures + 1
        wait = min(_BACKOFF_S * 2 ** (failures - 1), _BACKOFF_MAX_S) * random.uniform(0.5, 1)
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
        instance = Instance(serial, InstancePhase.STARTING, config, deadline=now + _START_S)
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
                self._sources.fence(name, config, effect.count)
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
        )
        try:
            check_task_count(task.connector, len(state.task_configs), state.config)
        except TooManyTasks as error:
            trace = trace_text(error, Redactor())
            self.events.put(TaskEnded(Outcome(task, attempt, AttemptEnd.FAILED, trace)))
        else:
            self._launcher.launch(launch, lambda outcome: self.events.put(TaskEnded(outcome)))

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
