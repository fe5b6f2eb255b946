"""Connect's verbs on a herder of this process, for REST and an apply, from any thread.

Any runtime answers reads, from the newest view of the topics. Writes run on the herder's thread,
where the view cannot change between the check and the write; only the leader answers them, others
do nothing and raise NotLeader. All raise RequestError with Connect's status and text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeVar

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.engine.catalog import plugin_problems
from connect_runtime.herder import requests
from connect_runtime.herder.earlier_attempts import utc_text
from connect_runtime.herder.effects import Effect, Reassign
from connect_runtime.herder.herder import Candidate, Herder
from connect_runtime.herder.launcher import Launcher, WorkerSettings
from connect_runtime.herder.offset_changes import ConnectorOffsets
from connect_runtime.herder.requests import restart_effects, task_restart_effects
from connect_runtime.herder.runs import RunPhase
from connect_runtime.herder.source_offsets import OpenLogs, SourceOffsets
from connect_runtime.herder.verbs import (
    ConnectorInfo,
    ConnectorStatus,
    NotLeader,
    Refusal,
    RequestError,
    RuntimeInfo,
    TaskInfo,
)
from connect_runtime.herder.view import View
from connect_runtime.herder.worker import Worker
from connect_runtime.kafka.groups import SinkGroups
from connect_runtime.kafka.log import connector_logs
from connect_runtime.plugins import registry
from connect_runtime.plugins.definitions import ConnectorTypes
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.settings.connector_topics import TopicTracking
from connect_runtime.storage import config_topic
from connect_runtime.storage.log import (
    Fenced,
    Logs,
    NewRecord,
    OffsetsNotWritten,
    WriteFailed,
    WriteRefused,
)
from connect_runtime.storage.snapshots import ConfigSnapshot, TaskId
from connect_specs.desired import OffsetEntry, TargetState

T = TypeVar("T")

Check = Callable[[str, Mapping[str, str | None]], None]
# Given the config topic, its name, and the connector
ConfigChange = Callable[[ConfigSnapshot, str, str], Sequence[NewRecord]]

_NO_LEADER: Final = (
    "Worker was unable to handle this request and may be unable to handle other requests. No "
    "worker leads: Kafka cannot be reached, or a leader is being elected."
)


class ConnectCluster:
    """A herder of this process with Connect's verbs. Call `start`, then `close`, which also
    closes what it opened.

    `launcher` None: it runs nothing. `check` refuses an invalid config (RequestError 400); `leader`
    returns the leader's URL if another runtime leads; `open_logs` opens logs for connectors that
    need their own; `topics_problem` says which topics that it needs cannot be used now,
    `topics_degraded` which others. The caller closes `providers`. Tests pass their own `clock` and
    `pool`.
    """

    def __init__(
        self,
        url: str,
        settings: WorkerSettings,
        *,
        logs: Logs,
        groups: SinkGroups,
        election: Candidate,
        launcher: Launcher | None,
        check: Check,
        leader: Callable[[], str | None],
        open_logs: OpenLogs = connector_logs,
        clock: Callable[[], float] = time.monotonic,
        pool: Executor | None = None,
        topics_problem: Callable[[], str | None] = lambda: None,
        topics_degraded: Callable[[], str | None] = lambda: None,
        providers: ConfigProviders | None = None,
    ) -> None:
        allow_modules(settings.properties)
        providers = providers or ConfigProviders({})
        self._settings = settings
        self._topics = settings.topics
        self._launcher = launcher
        self._check = check
        self._leader = leader
        self._topics_problem = topics_problem
        self._topics_degraded = topics_degraded
        self._tracking = TopicTracking.of(settings.properties)
        self._kinds = ConnectorTypes()
        # True once a leader was known; until that, this worker is starting
        self._started = False
        self._sources = SourceOffsets(logs, settings, providers, open_logs)
        worker = Worker(settings, launcher, self._sources, providers, pool)
        self.herder = Herder(url, logs, election, worker, clock)
        self._offsets = ConnectorOffsets(self.herder, settings, self._sources, groups, providers)

    def start(self) -> None:
        """Starts reading the topics, taking part in the election and answering requests."""
        self.herder.start()

    def close(self) -> None:
        """Stops tasks and connectors in order, writes their statuses, and leaves the group."""
        self.herder.stop(self._settings.graceful_s + 20)
        self._sources.close()

    # --- reads ---

    def connectors(self) -> Sequence[str]:
        return list(self.herder.view.config.connectors)

    def info(self, name: str) -> ConnectorInfo:
        return requests.info(self.herder.view, name, self._kinds.of)

    def config(self, name: str) -> Mapping[str, str]:
        return requests.find_connector(self.herder.view.config, name, requests.NOT_FOUND).config

    def status(self, name: str) -> ConnectorStatus:
        return requests.status(self.herder.view, name, self._kinds.of)

    def tasks(self, name: str) -> Sequence[TaskInfo]:
        return requests.tasks(self.herder.view, name)

    def topics(self, name: str) -> Sequence[str]:
        requests.check_tracked(self._tracking)
        return sorted(self.herder.view.status.topics.get(name, frozenset()))

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        return self._offsets.list(name)

    def runtime(self) -> RuntimeInfo:
        view = self.herder.view
        leading = self.herder.leading
        unconfirmed = requests.unconfirmed_tasks(view, self.herder.now()) if leading else ()
        return RuntimeInfo(
            leader=self.herder.url if leading else self._leader(),
            leading=leading,
            term=view.term,
            slots=view.slots or 0,
            running=sum(run.active for run in view.runs.values()),
            waiting=requests.waiting_tasks(view, self.herder.now()) if leading else (),
            problem=self._problem() or self._topics_problem() or self.degraded(),
            paused_release=view.paused_release,
            unconfirmed=unconfirmed,
            unconfirmed_since=utc_text(view, view.led_at) if unconfirmed else None,
            plugin_problems=plugin_problems(),
            own_jvms=requests.tasks_with_own_jvms(view),
        )

    def changes(self) -> int:
        """Counts changes of anything that the reads above return, but for offsets. The type of a
        class that could not be used may change uncounted."""
        return self.herder.changes

    def ready(self) -> bool:
        """Returns whether start-up is complete: the topics were read, and a leader was known
        since."""
        self._started = self._started or self.herder.has_led or self._has_leader()
        return self._started

    def problem(self) -> str | None:
        """Returns why this runtime cannot do its work now: no worker leads, no task can run, or
        topics that requests need cannot be read or written. If another one leads, it may wait for
        Kafka briefly."""
        if not self._has_leader():
            return _NO_LEADER
        problem = self._problem()
        return self._topics_problem() if problem is None else f"Worker cannot run tasks. {problem}"

    def degraded(self) -> str | None:
        """Returns what this runtime lacks while it does its work: offsets or statuses that cannot
        be read or written."""
        problems = (self._topics_degraded(), self.herder.statuses_problem)
        return ". ".join(filter(None, problems)) or None

    def _problem(self) -> str | None:
        """Returns why no task can run here."""
        return None if self._launcher is None else self._launcher.problem

    def _has_leader(self) -> bool:
        if self.herder.leading or not self.herder.opened:
            return self.herder.opened
        # The election still names a runtime killed at this address for a few seconds.
        return self._leader() not in (None, self.herder.url)

    # --- writes ---

    def must_lead(self) -> None:
        """Raises NotLeader if another runtime answers writes."""
        self._run(self.herder.must_lead)

    def create(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None
    ) -> ConnectorInfo:
        self._check(name, config)
        self._change(name, partial(requests.create, config=config, initial_state=initial_state))
        return self.info(name)

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        """Creates or updates; the second value says whether it was created."""
        self._check(name, config)
        created = name not in self.herder.view.config.connectors
        self._change(name, partial(requests.put_config, config=config))
        return self.info(name), created

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        state = requests.find_connector(self.herder.view.config, name, requests.NOT_FOUND)
        merged = requests.patch(state, patch)
        self._check(merged.get("name") or name, merged)
        self._change(name, partial(requests.put_patched, config=merged, patched=state))
        return self.info(name)

    def delete(self, name: str) -> None:
        self._change(name, requests.delete)

    def stop(self, name: str) -> None:
        self._change(name, requests.stop)

    def pause(self, name: str) -> None:
        self._change(name, partial(requests.target, state=TargetState.PAUSED))

    def resume(self, name: str) -> None:
        self._change(name, partial(requests.target, state=TargetState.RUNNING))

    def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus | None:
        """Returns None for a plain restart, else the status with RESTARTING where it applies."""
        scope = {"include_tasks": include_tasks, "only_failed": only_failed}
        is_plain = not any(scope.values())

        def begin() -> View:
            self.herder.must_lead()
            view = self.herder.view
            requests.find_connector(view.config, name, "Unknown connector: {}")
            if not is_plain:
                if name not in view.status.connectors:
                    raise RequestError(404, f"Status for connector {name} not found")
                self.herder.write([config_topic.restart_record(self._topics.config, name, **scope)])
            self._perform(restart_effects(self.herder.view, name, **scope))
            return view

        view = self._on_thread(begin)
        if is_plain:
            return None
        # not on the herder's thread: finding the class may take long
        return requests.restarting_status(requests.status(view, name, self._kinds.of), **scope)

    def restart_task(self, name: str, task: int) -> None:
        def begin() -> None:
            self.herder.must_lead()
            requests.restartable_task(self.herder.view.config, name, task)
            self._perform(task_restart_effects(self.herder.view, TaskId(name, task)))

        self._on_thread(begin)

    def reset_topics(self, name: str) -> None:
        def begin() -> None:
            self.herder.must_lead()
            records = requests.reset_topics(
                self.herder.view.status, self._topics.status, name, self._tracking
            )
            if records:
                self.herder.write(records)
            # running tasks then record again what they use
            runs = self.herder.view.runs.values()
            self._perform(
                [
                    Reassign(run.id, run.state)
                    for run in runs
                    if run.id.connector == name and run.phase is RunPhase.LAUNCHED
                ]
            )

        self._on_thread(begin)

    def set_logger_level(self, namespace: str, level: str) -> None:
        """Sets the level of loggers on all runtimes of the cluster."""
        record = config_topic.logger_record(self._topics.config, namespace, level)
        self._on_thread(lambda: self.herder.write([record]))

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        """Returns Connect's success text (KIP-875)."""
        return self._run(lambda: self._offsets.change(name, offsets))

    def reset_offsets(self, name: str) -> str:
        return self._run(lambda: self._offsets.change(name, None))

    # --- internals ---

    def _change(self, name: str, records: ConfigChange) -> None:
        """Writes the records of a change, which holds for the config topic at that moment."""

        def begin() -> None:
            self.herder.must_lead()
            if self._offsets.busy(name):
                raise RequestError(
                    409,
                    "Cannot complete request because of a conflicting operation "
                    "(offsets of this connector are being modified)",
                )
            self.herder.write(records(self.herder.view.config, self._topics.config, name))

        self._on_thread(begin)

    def _perform(self, effects: Sequence[Effect]) -> None:
        self.herder.perform(effects, self.herder.now())

    def _on_thread(self, call: Callable[[], T]) -> T:
        return self._run(lambda: self.herder.run_on_thread(call))

    def _run(self, call: Callable[[], T]) -> T:
        """Runs the call and turns its failures into Connect's errors."""
        try:
            return call()
        except NotLeader as error:
            leader = self._leader()
            # the election names this runtime before it leads, or after it stopped
            raise NotLeader(None if leader == self.herder.url else leader) from error
        except registry.NoSuchClass as error:
            raise RequestError(500, str(error), Refusal.NO_SUCH_CLASS) from error
        except WriteRefused as error:
            raise RequestError(
                400,
                "Kafka refuses the records of this request, and nothing was written: "
                f"{error.why}. Use a smaller config, or raise max.message.bytes of the topic and "
                "max.request.size of the worker's producer",
            ) from error
        except OffsetsNotWritten as error:
            raise RequestError(500, f"{error}: {error.why}", Refusal.NOT_WRITTEN) from error
        except (Fenced, WriteFailed) as error:
            text = (
                "Failed to write to config topic; this may be due to a transient error and the "
                "request can be safely retried"
            )
            reason = next(
                (diagnostic.why or diagnostic.what for diagnostic in error.diagnostics), ""
            )
            raise RequestError(
                500, f"{text} ({reason})" if reason else text, Refusal.NOT_WRITTEN
            ) from error
        except TimeoutError as error:
            raise RequestError(500, "Request timed out", Refusal.TIMED_OUT) from error
