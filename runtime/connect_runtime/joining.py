"""Checks that a process may join a cluster, and finds the cluster's leader.

Kafka must be reachable, the group must not belong to Apache's workers, and the topics must exist in
the required shape.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from typing import Final, TypeVar

from connect_runtime.kafka.client_checks import READ, WRITE, check_rights, check_worker_clients
from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.election import GroupTaken, Leader, find_leader
from connect_runtime.kafka.errors import UNREACHABLE
from connect_runtime.kafka.log import TOO_FEW_BROKERS, TOPIC_NOT_READY, KafkaLogs
from connect_runtime.settings.connector_topics import TopicSettings
from connect_runtime.settings.worker_config import SMALL_SEGMENTS, WorkerConfig
from connect_runtime.storage.log import InternalTopic
from connect_runtime.waiting import SharedCalls, TakesTooLong, retry_while
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
        self._calls = SharedCalls[None](_WAIT_S)
        # The leader's URL, and when Kafka answered
        self._answer: tuple[str | None, float] = (None, -inf)

    def __call__(self) -> str | None:
        """Returns the leader's URL; None if there is no leader or Kafka does not answer."""
        if time.monotonic() - self._answer[1] > _FRESH_S:
            with suppress(TakesTooLong):
                self._calls.result(self, self._refresh)
        leader, answered_at = self._answer
        return leader if time.monotonic() - answered_at <= _STALE_S else None

    def _refresh(self) -> None:
        leader: Leader | None = None
        try:
            leader = find_leader(self._client, self._group_id, self._config_topic, 0.0)
        except Exception as error:  # a request that asks for the leader has an answer without one
            _log.warning("The leader could not be determined: %s", error)
        finally:
            self._answer = (None if leader is None else leader.identity, time.monotonic())
