"""Connect's verbs on the herder, for REST and an in-process apply, from any thread.

Reads use the newest view. Writes run on the herder's thread, where the view cannot change between
the check and the write. `ConnectHerder` is a herder with these verbs, made of its parts, for
`connect up` and for an apply without a runtime.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder import requests
from connect_runtime.herder.earlier_attempts import utc_text
from connect_runtime.herder.effects import Effect, Reassign
from connect_runtime.herder.herder import Candidate, Herder
from connect_runtime.herder.launcher import Launcher, WorkerSettings
from connect_runtime.herder.offset_changes import ConnectorOffsets
from connect_runtime.herder.plugin_calls import ConnectorTypes
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
from connect_runtime.storage.snapshots import TaskId
from connect_specs.desired import OffsetEntry
from connect_specs.names import ClusterTopics
from connect_specs.states import TargetState

T = TypeVar("T")

Check = Callable[[str, Mapping[str, str | None]], None]


_NO_LEADER: Final = (
    "Worker was unable to handle this request and may be unable to handle other requests. No "
    "worker leads: Kafka cannot be reached, or a leader is being elected."
)


class ConnectCluster:
    """Implements `Verbs`. `check` refuses an invalid config (RequestError 400); `leader` returns
    the leader's URL if it is another runtime; `problem` says why no task can run here,
    `topics_problem` which topics that it needs cannot be used, `topics_degraded` which others."""

    def __init__(
        self,
        herder: Herder,
        topics: ClusterTopics,
        offsets: ConnectorOffsets,
        *,
        check: Check,
        leader: Callable[[], str | None],
        problem: Callable[[], str | None],
        tracking: TopicTracking,
        topics_problem: Callable[[], str | None],
        topics_degraded: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._herder = herder
        self._topics = topics
        self._offsets = offsets
        self._check = check
        self._leader = leader
        self._problem = problem
        self._tracking = tracking
        self._topics_problem = topics_problem
        self._topics_degraded = topics_degraded
        self._kinds = ConnectorTypes()
        # True once a leader was known; until that, this worker is starting
        self._started = False

    # --- reads ---

    def connectors(self) -> Sequence[str]:
        return list(self._herder.view.config.connectors)

    def info(self, name: str) -> ConnectorInfo:
        return requests.info(self._herder.view, name, self._kinds.of)

    def config(self, name: str) -> Mapping[str, str]:
        return requests.find_connector(self._herder.view.config, name, requests.NOT_FOUND).config

    def status(self, name: str) -> ConnectorStatus:
        return requests.status(self._herder.view, name, self._kinds.of)

    def tasks(self, name: str) -> Sequence[TaskInfo]:
        return requests.tasks(self._herder.view, name)

    def topics(self, name: str) -> Sequence[str]:
        requests.check_tracked(self._tracking)
        return sorted(self._herder.view.status.topics.get(name, frozenset()))

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        return self._offsets.list(name)

    def runtime(self) -> RuntimeInfo:
        view = self._herder.view
        leading = self._herder.leading
        unconfirmed = requests.unconfirmed_tasks(view, self._herder.now()) if leading else ()
        return RuntimeInfo(
            leader=self._herder.url if leading else self._leader(),
            leading=leading,
            term=view.term,
            slots=view.slots or 0,
            running=sum(run.active for run in view.runs.values()),
            waiting=requests.waiting_tasks(view, self._herder.now()) if leading else (),
            problem=self._problem() or self._topics_problem() or self.degraded(),
            paused_release=view.paused_release,
            unconfirmed=unconfirmed,
            unconfirmed_since=utc_text(view, view.led_at) if unconfirmed else None,
        )

    def changes(self) -> int:
        return self._herder.changes

    def ready(self) -> bool:
        self._started = self._started or self._herder.has_led or self._has_leader()
        return self._started

    def problem(self) -> str | None:
        if not self._has_leader():
            return _NO_LEADER
        problem = self._problem()
        return self._topics_problem() if problem is None else f"Worker cannot run tasks. {problem}"

    def degraded(self) -> str | None:
        problems = (self._topics_degraded(), self._herder.statuses_problem)
        return ". ".join(filter(None, problems)) or None

    def _has_leader(self) -> bool:
        if self._herder.leading or not self._herder.opened:
            return self._herder.opened
        # The election still names a runtime killed at this address for a few seconds.
        return self._leader() not in (None, self._herder.url)

    # --- writes ---

    def must_lead(self) -> None:
        self._run(self._herder.must_lead)

    def create(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None
    ) -> ConnectorInfo:
        self._check(name, config)
        return self._write(
            name,
            lambda: requests.create(
                self._herder.view.config, self._topics.config, name, config, initial_state
            ),
        )

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        self._check(name, config)
        created = name not in self._herder.view.config.connectors
        info = self._write(name, lambda: requests.put_config(self._topics.config, name, config))
        return info, created

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        state = requests.find_connector(self._herder.view.config, name, requests.NOT_FOUND)
        merged = requests.patch(state, patch)
        self._check(merged.get("name") or name, merged)

        def unless_changed() -> Sequence[NewRecord]:
            current = requests.find_connector(self._herder.view.config, name, requests.NOT_FOUND)
            if (current.config, current.null_keys) != (state.config, state.null_keys):
                raise RequestError(
                    409,
                    "Cannot complete request momentarily due to stale configuration (typically "
                    "caused by a concurrent config change)",
                )
            return requests.put_config(self._topics.config, name, merged)

        return self._write(name, unless_changed)

    def delete(self, name: str) -> None:
        self._change(
            name, lambda: requests.delete(self._herder.view.config, self._topics.config, name)
        )

    def stop(self, name: str) -> None:
        self._change(
            name, lambda: requests.stop(self._herder.view.config, self._topics.config, name)
        )

    def pause(self, name: str) -> None:
        self._target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._target(name, TargetState.RUNNING)

    def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus | None:
        flags = include_tasks or only_failed

        def begin() -> View | None:
            self._herder.must_lead()
            view = self._herder.view
            requests.find_connector(view.config, name, "Unknown connector: {}")
            if not flags:
                self._perform(restart_effects(view, name))
                return None
            if name not in view.status.connectors:
                raise RequestError(404, f"Status for connector {name} not found")
            record = config_topic.restart_record(
                self._topics.config, name, include_tasks=include_tasks, only_failed=only_failed
            )
            self._herder.write([record])
            self._perform(
                restart_effects(
                    self._herder.view, name, include_tasks=include_tasks, only_failed=only_failed
                )
            )
            return view

        view = self._run(lambda: self._herder.run_on_thread(begin))
        if view is None:
            return None
        # not on the herder's thread: finding the class may take long
        status = requests.status(view, name, self._kinds.of)
        return requests.restarting_status(
            status, include_tasks=include_tasks, only_failed=only_failed
        )

    def restart_task(self, name: str, task: int) -> None:
        def begin() -> None:
            self._herder.must_lead()
            requests.restartable_task(self._herder.view.config, name, task)
            self._perform(task_restart_effects(self._herder.view, TaskId(name, task)))

        self._run(lambda: self._herder.run_on_thread(begin))

    def reset_topics(self, name: str) -> None:
        def begin() -> None:
            self._herder.must_lead()
            records = requests.reset_topics(
                self._herder.view.status, self._topics.status, name, self._tracking
            )
            if records:
                self._herder.write(records)
            # running tasks then record again what they use
            runs = self._herder.view.runs.values()
            self._perform(
                [
                    Reassign(run.id, run.state)
                    for run in runs
                    if run.id.connector == name and run.phase is RunPhase.LAUNCHED
                ]
            )

        self._run(lambda: self._herder.run_on_thread(begin))

    def set_logger_level(self, namespace: str, level: str) -> None:
        record = config_topic.logger_record(self._topics.config, namespace, level)
        self._run(lambda: self._herder.run_on_thread(lambda: self._herder.write([record])))

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        return self._run(lambda: self._offsets.change(name, offsets))

    def reset_offsets(self, name: str) -> str:
        return self._run(lambda: self._offsets.change(name, None))

    # --- internals ---

    def _target(self, name: str, state: TargetState) -> None:
        self._change(
            name,
            lambda: requests.target(self._herder.view.config, self._topics.config, name, state),
        )

    def _change(self, name: str, records: Callable[[], Sequence[NewRecord]]) -> None:
        def begin() -> None:
            self._herder.must_lead()
            if self._offsets.busy(name):
                raise RequestError(
                    409,
                    "Cannot complete request because of a conflicting operation "
                    "(offsets of this connector are being modified)",
                )
            self._herder.write(records())

        self._run(lambda: self._herder.run_on_thread(begin))

    def _write(self, name: str, records: Callable[[], Sequence[NewRecord]]) -> ConnectorInfo:
        self._change(name, records)
        return self.info(name)

    def _perform(self, effects: Sequence[Effect]) -> None:
        self._herder.perform(effects, self._herder.now())

    def _run(self, call: Callable[[], T]) -> T:
        """Runs the call and turns its failures into Connect's errors."""
        try:
            return call()
        except NotLeader as error:
            leader = self._leader()
            # the election names this runtime before it leads, or after it stopped
            raise NotLeader(None if leader == self._herder.url else leader) from error
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


@dataclass(frozen=True, slots=True)
class HerderPorts:
    """The herder's outside dependencies: Kafka's logs, groups and election, the launcher (None: run
    nothing), the config check, the leader's URL if another runtime leads, logs for connectors that
    need their own, which topics that it needs, and which others, cannot be used now, and the
    worker's config providers, which the caller closes. Tests pass their own clock and pool."""

    logs: Logs
    groups: SinkGroups
    election: Candidate
    launcher: Launcher | None
    check: Check
    leader: Callable[[], str | None]
    open_logs: OpenLogs = connector_logs
    clock: Callable[[], float] = time.monotonic
    pool: Executor | None = None
    topics_problem: Callable[[], str | None] = lambda: None
    topics_degraded: Callable[[], str | None] = lambda: None
    providers: ConfigProviders = field(default_factory=lambda: ConfigProviders({}))


class ConnectHerder:
    """A herder with Connect's verbs. Call `start`, then `stop`, which also closes what it
    opened."""

    def __init__(self, url: str, settings: WorkerSettings, edges: HerderPorts) -> None:
        allow_modules(settings.properties)
        self._settings = settings
        self._sources = SourceOffsets(
            edges.logs,
            settings.group_id,
            settings.topics.offsets,
            settings.properties,
            edges.providers,
            edges.open_logs,
            in_file=settings.socket is not None,
        )
        self._worker = Worker(
            settings, edges.launcher, self._sources, edges.providers, self._fence, edges.pool
        )
        self.herder = Herder(
            url=url,
            group_id=settings.group_id,
            topics=settings.topics,
            logs=edges.logs,
            election=edges.election,
            worker=self._worker,
            clock=edges.clock,
        )
        offsets = ConnectorOffsets(
            self.herder,
            settings.topics,
            self._sources,
            edges.groups,
            edges.providers,
            settings.leaving_s,
        )
        self.verbs = ConnectCluster(
            self.herder,
            settings.topics,
            offsets,
            check=edges.check,
            leader=edges.leader,
            problem=lambda: edges.launcher.problem if edges.launcher else None,
            tracking=TopicTracking.of(settings.properties),
            topics_problem=edges.topics_problem,
            topics_degraded=edges.topics_degraded,
        )

    def _fence(self, name: str, config: Mapping[str, str], tasks: int) -> None:
        self._sources.fence(self._sources.clients(name, config, "source"), tasks)

    def start(self) -> None:
        """Starts reading the topics, taking part in the election and answering requests."""
        self.herder.start()

    def stop(self) -> None:
        """Stops tasks and connectors in order, writes their statuses, and leaves the group."""
        self.herder.stop(self._settings.graceful_s + 20)
        self._sources.close()
