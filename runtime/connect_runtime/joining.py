"""Checks that a process may join a cluster, and finds the cluster's leader.

Kafka must be reachable, the group must not belong to Apache's workers, and the topics must exist in
the required shape.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar

from connect_runtime.kafka.client_checks import READ, WRITE, check_rights, check_worker_clients
from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.election import GroupTaken, find_leader
from connect_runtime.kafka.errors import UNREACHABLE
from connect_runtime.kafka.log import TOO_FEW_BROKERS, TOPIC_NOT_READY, KafkaLogs
from connect_runtime.settings.worker_config import SMALL_SEGMENTS, TopicSettings, WorkerConfig
from connect_runtime.storage.log import InternalTopic
from connect_runtime.waiting import retry_while
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)
_waits = logging.getLogger("connect.waits")

T = TypeVar("T")

# Errors of a Kafka that is starting: it is not there, or its coordinators, leaders or other brokers
# are not
_STARTING: Final = frozenset({UNREACHABLE, TOPIC_NOT_READY, TOO_FEW_BROKERS})
# The leader is cached this long; a failover takes seconds.
_FRESH_S = 1.0
# Kafka is waited for this long without a message
_QUIET_S = 3.0
# Apache's session.timeout.ms is 10 s by default.
_SESSION_S = 12.0
_RETRY_S = 0.25
# While Kafka is asked again, callers wait this long, then use an answer of at most this age.
_WAIT_S = 1.0
_STALE_S = 10.0


def find_kafka(config: WorkerConfig) -> str:
    """Returns the Kafka cluster's id, after waiting for a Kafka that is starting. Raises
    Unreachable, and Invalid for invalid client properties."""
    check_worker_clients(config.resolved_properties)
    return _when_started(lambda within_s: check_reachable(config.client, within_s), config.reach_s)


def find_cluster(config: WorkerConfig) -> str:
    """Returns the Kafka cluster's id. Raises Unreachable, also if Apache's workers or another
    cluster use the group, and Invalid for invalid client properties."""
    cluster_id = find_kafka(config)
    _when_started(lambda _: _check_members(config), config.reach_s)
    return cluster_id


def join_topics(config: WorkerConfig, logs: KafkaLogs) -> None:
    """Ensures the topics (`ensure_topics`), after waiting for a Kafka that is starting."""
    _when_started(lambda _: ensure_topics(config, logs), config.reach_s)


def _when_started(call: Callable[[float], T], wait_s: float) -> T:
    """Returns the result of `call`, which gets the seconds that it may take. While Kafka is
    starting, and a part of it is not there yet, calls it again for up to `wait_s`, with a
    message."""
    deadline = time.monotonic() + wait_s
    within_s = min(wait_s, _QUIET_S)
    warned = False
    while True:
        try:
            return call(within_s)
        except ConnectError as error:
            problem = error.diagnostics[0]
            within_s = deadline - time.monotonic()
            if problem.code not in _STARTING or within_s <= 0:
                raise
            if not warned:
                text = "%s at %s (%s); waiting up to %.0f s for it"
                _waits.warning(text, problem.what, problem.where, problem.why, within_s)
                warned = True
        time.sleep(_RETRY_S)


def _check_members(config: WorkerConfig) -> None:
    """Raises GroupTaken if the group belongs to others. Killed workers stay members for one
    session; this waits for that long."""
    warned = False

    def is_taken(error: Exception) -> bool:
        nonlocal warned
        if isinstance(error, GroupTaken) and not warned:
            text = "%s: %s; waiting up to %.0f s for its members to leave"
            _log.warning(text, config.group_id, error.diagnostics[0].what, _SESSION_S)
            warned = True
        return isinstance(error, GroupTaken)

    def find() -> None:
        find_leader(config.client, config.group_id, config.topics.config, 0.0)

    retry_while(is_taken, find, _SESSION_S, every_s=_RETRY_S)


def ensure_topics(config: WorkerConfig, logs: KafkaLogs) -> None:
    """Creates missing topics, and checks the others. Raises Failed, and Unreachable if a leader
    would lack a permission."""
    topics = config.topics
    check_rights(
        config.client,
        topics=dict.fromkeys(topics.internal, (READ, WRITE)),
        groups={config.group_id: (READ,)},
    )

    def ensure(topic: str, settings: TopicSettings, key: str, purpose: str) -> None:
        count, replicas = settings.partitions, settings.replication_factor
        logs.ensure_compacted(InternalTopic(topic, count, purpose, key, replicas, settings.config))

    ensure(topics.config, config.config_topic, "config.storage.topic", "connector configurations")
    ensure(topics.offsets, config.offset_topic, "offset.storage.topic", "source connector offsets")
    ensure(
        topics.status, config.status_topic, "status.storage.topic", "connector and task statuses"
    )
    assignments = TopicSettings(1, config.config_topic.replication_factor, SMALL_SEGMENTS)
    ensure(topics.assignments, assignments, "topics.assignments", "task assignments")


class LeaderLookup:
    """Finds a cluster's leader on demand, by asking Kafka; thread-safe.

    One thread at a time asks Kafka: a Kafka that does not answer delays callers only briefly.
    """

    def __init__(self, client: Mapping[str, str], group_id: str, config_topic: str) -> None:
        self._client = client
        self._group_id = group_id
        self._config_topic = config_topic
        self._lock = threading.Lock()
        self._request: _Request | None = None
        self._answered_at: float | None = None
        self._leader: str | None = None

    def __call__(self) -> str | None:
        """Returns the leader's URL; None if there is no leader or Kafka does not answer."""
        with self._lock:
            if self._request is None and self._age_s() > _FRESH_S:
                self._request = _Request(time.monotonic())
                threading.Thread(
                    target=self._refresh, args=(self._request,), name="find-leader", daemon=True
                ).start()
            request = self._request
        if request is not None:
            request.over.wait(max(0.0, request.began + _WAIT_S - time.monotonic()))
        with self._lock:
            return self._leader if self._age_s() <= _STALE_S else None

    def _age_s(self) -> float:
        return inf if self._answered_at is None else time.monotonic() - self._answered_at

    def _refresh(self, request: _Request) -> None:
        leader = None
        try:
            leader = self._find()
        finally:
            with self._lock:
                self._leader, self._answered_at, self._request = leader, time.monotonic(), None
            request.over.set()

    def _find(self) -> str | None:
        try:
            leader = find_leader(self._client, self._group_id, self._config_topic, 0.0)
        except ConnectError as error:
            _log.warning("The leader could not be determined: %s", error)
            return None
        return None if leader is None else leader.identity


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to Kafka in progress."""

    began: float
    over: threading.Event = field(default_factory=threading.Event)
