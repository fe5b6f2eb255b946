"""Our runtime as the cluster of a project.

A leader that runs is asked over its REST API. Without one this process leads until it has finished,
never beside another. While it leads no tasks run: a connector that is resumed starts with the next
runtime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TypeVar

from connect_reconciler.backend.backend import Cluster, LiveStatuses, short_timeout_client
from connect_reconciler.backend.http import HttpCluster
from connect_reconciler.backend.lease import (
    LeaseRefused,
    OnWait,
    identity,
    lease_held_message,
    no_progress,
)
from connect_reconciler.backend.observe.kafka_view import KafkaView
from connect_reconciler.backend.observe.observe import Topics, read_topics
from connect_reconciler.backend.on_kafka import KafkaBackend
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.model.live import Live
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.engine.catalog import java_plugins
from connect_runtime.herder import requests
from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.herder import Herder
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.herder.verbs import ConnectorStatus, RequestError
from connect_runtime.herder.view import View
from connect_runtime.joining import ensure_topics
from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.election import Election, Leader, find_leader
from connect_runtime.kafka.errors import is_denied
from connect_runtime.kafka.groups import SinkGroups
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.rest.password import USER, password_file, read_password
from connect_runtime.settings.worker_config import from_project, project_tls
from connect_runtime.storage import config_topic
from connect_runtime.storage.snapshots import ConfigSnapshot
from connect_runtime.validation.validate import check
from connect_runtime.waiting import wait_until
from connect_specs.desired import Desired, OffsetEntry, Project, RestTarget, TargetState
from connect_specs.diagnostics import ConnectError, Diagnostic, Unreachable

# A leader that was killed is still named for 6 s; one that just won has yet to read its topics.
_CHOOSE_S = 15.0
_ELECTION_S = 2.0
_ELECTED_S = 3.0
_JOIN_S = 10.0
_EVERY_S = 0.2
_LOOK_S = 0.02


class RuntimeBackend(KafkaBackend):
    @property
    def address(self) -> str:
        return self.project.group_id

    def _with_workers(self, desired: Desired, live: Live, topics: Topics) -> Live:
        return replace(live, ours=True)

    def statuses(self) -> LiveStatuses:
        names, view = self.project.topics, KafkaView(self.kafka)
        # a Kafka that cannot be reached is an error at once; a new leader's statuses are read
        view.cluster_id()
        leader = find_leader(self.kafka, self.project.group_id, names.config, _ELECTED_S)
        topics = read_topics(names, view, (names.config, names.status))
        connectors, topics_view = topics.config.connectors, View(topics.config, topics.status)
        statuses = {
            name: requests.status(topics_view, name, lambda class_name: "unknown")
            for name in connectors.keys() & topics.status.connectors.keys()
        }
        name = None if leader is None else leader.identity
        return LiveStatuses(name, connectors, statuses, topics.unread)

    def config(self, name: str) -> Mapping[str, str] | None:
        # This needs no leader
        records = KafkaView(self.kafka).records(self.project.topics.config)
        cluster = config_topic.reduce_all(ConfigSnapshot(), records).connectors.get(name)
        return None if cluster is None else cluster.config

    def rest(self) -> RestClient | None:
        leader = _leader(self.project, self.kafka)
        if leader is None or not _has_url(leader):
            return None
        target = runtime_target(self.project, leader.identity)
        return short_timeout_client(target, login_hint(self.project), direct=True)

    def cluster(self, waits: OnWait = no_progress) -> Cluster:
        check_reachable(self.kafka)
        leader: Leader | None = None
        reported = False

        def opened() -> Cluster | None:
            nonlocal leader, reported
            leader = _leader(self.project, self.kafka)
            if leader is None:
                return _lead(self.project, self.kafka)
            if _has_url(leader):
                return _over_http(self.project, leader.identity)
            if not reported:
                waits(lease_held_message(leader.identity), _CHOOSE_S)
            reported = True
            return None

        cluster = wait_until(opened, _CHOOSE_S, every_s=_EVERY_S)
        if cluster is None:
            raise _taken(leader, self.project.group_id)
        return cluster

    def _cluster_to_change(
        self, desired: Desired, logs: KafkaLogs, stack: ExitStack, waits: OnWait
    ) -> Cluster:
        cluster = self.cluster(waits)
        stack.callback(cluster.close)
        return cluster


def _leader(project: Project, client: Mapping[str, str]) -> Leader | None:
    return find_leader(client, project.group_id, project.topics.config, _ELECTION_S)


def _has_url(leader: Leader) -> bool:
    """Returns True if a runtime leads; an apply that leads has no address."""
    return leader.identity.startswith(("http://", "https://"))


def _over_http(project: Project, url: str) -> HttpCluster | None:
    """Returns the cluster at this leader's address; None if it does not answer."""
    target, hint = runtime_target(project, url), login_hint(project)
    cluster = HttpCluster(RestClient(target, login_hint=hint, direct=True))
    if cluster.ready():
        return cluster
    cluster.close()
    return None


def _taken(leader: Leader | None, group_id: str) -> ConnectError:
    if leader is None:
        problem = "no leader can be elected"
        return Unreachable(Diagnostic("cluster.no-leader", problem, group_id))
    if _has_url(leader):
        problem = f"the leader does not answer at {leader.identity}"
        hint = "check that this address can be reached from here, and the runtime's log"
        return Unreachable(Diagnostic("cluster.leader-silent", problem, group_id, hint=hint))
    problem = lease_held_message(leader.identity)
    return LeaseRefused(
        Diagnostic("apply.leased", problem, group_id, hint="wait until it has ended")
    )


def _lead(project: Project, client: Mapping[str, str]) -> InProcessCluster | None:
    """Leads in this process. Returns None if another process won the election."""
    worker, _ = from_project(replace(project, kafka=client), None, resolve=False)
    name = identity()
    with ExitStack() as stack:
        logs = KafkaLogs(client)
        stack.callback(logs.close)
        # made only if a connector whose offsets move holds a reference
        providers = ConfigProviders(worker.properties)
        stack.callback(providers.close)
        ensure_topics(worker, logs)
        stack.enter_context(java_plugins_here(project, client))
        herder = ConnectCluster(
            name,
            WorkerSettings(project.group_id, project.topics, name, worker.properties),
            logs=logs,
            groups=SinkGroups(),
            election=Election(client, project.group_id, project.topics.config, name),
            launcher=None,
            check=lambda name, config: check(config, worker),
            leader=lambda: None,
            providers=providers,
        )
        stack.callback(herder.close)
        herder.start()
        if not wait_until(lambda: _leads(herder.herder), _JOIN_S, every_s=_LOOK_S):
            return None
        return InProcessCluster(herder, stack.pop_all().close)


@contextmanager
def java_plugins_here(project: Project, client: Mapping[str, str]) -> Iterator[None]:
    """Makes the Java plugins on the project's plugin.path usable in this process, for the context.
    Of what their JVM logs only errors are shown."""
    logging.getLogger("org.apache.kafka").setLevel(logging.ERROR)
    worker, _ = from_project(replace(project, kafka=client), None, resolve=False)
    providers = ConfigProviders(worker.properties)
    with closing(providers), java_plugins(worker.properties, identity(), providers):
        yield


def _leads(herder: Herder) -> bool:
    """Raises the obstacle if it is a right that this login lacks: waiting does not help then."""
    if herder.obstacle is not None and is_denied(herder.obstacle):
        raise herder.obstacle
    return herder.leading


def runtime_target(project: Project, url: str) -> RestTarget:
    """Returns the target of a runtime, without a login if this folder has no password."""
    password = read_password(project.data)
    tls = project_tls(project) if url.startswith("https://") else None
    return RestTarget(url, None if password is None else USER, password, ssl=tls)


def login_hint(project: Project) -> str:
    """Returns the hint for a login that the runtime refuses."""
    return (
        f"copy the runtime's password file to {password_file(project.data)}; on the runtime's "
        "machine, `connect password` says where it is"
    )


T = TypeVar("T")


class InProcessCluster:
    """Implements `Cluster`. `close` ends the herder's leadership."""

    def __init__(self, verbs: ConnectCluster, close: Callable[[], None]) -> None:
        self._verbs = verbs
        self._close = close

    @property
    def runs_tasks(self) -> bool:
        return False

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        self._verbs.create(name, config, state)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        self._verbs.put_config(name, config)

    def config(self, name: str) -> Mapping[str, str] | None:
        return _unless_missing(lambda: self._verbs.config(name))

    def status(self, name: str) -> ConnectorStatus | None:
        return _unless_missing(lambda: self._verbs.status(name))

    def set_target(self, name: str, target: TargetState) -> None:
        verbs = {
            TargetState.RUNNING: self._verbs.resume,
            TargetState.PAUSED: self._verbs.pause,
            TargetState.STOPPED: self._verbs.stop,
        }
        verbs[target](name)

    def restart(self, name: str, *, only_failed: bool) -> None:
        self._verbs.restart(name, include_tasks=True, only_failed=only_failed)

    def delete(self, name: str) -> None:
        self._verbs.delete(name)

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        return self._verbs.offsets(name)

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        return _explained(lambda: self._verbs.alter_offsets(name, offsets))

    def reset_offsets(self, name: str) -> str:
        return _explained(lambda: self._verbs.reset_offsets(name))

    def close(self) -> None:
        self._close()


def _explained(ask: Callable[[], T]) -> T:
    """Calls `ask`. Adds the missing right to its error, which Connect's text leaves out."""
    try:
        return ask()
    except RequestError as error:
        cause = error.__cause__
        if not isinstance(cause, ConnectError) or not is_denied(cause):
            raise
        reason = f"{error.message}: {cause} ({cause.diagnostics[0].why})"
        raise RequestError(error.status, reason) from cause


def _unless_missing(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except RequestError as error:
        if error.status == 404:
            return None
        raise
