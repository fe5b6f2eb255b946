"""Checks that a process may join a cluster, and finds the cluster's leader.

Kafka must be reachable, the group must not belong to Apache's workers, and the topics must exist in
the required shape.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from connect_runtime.kafka.client_checks import check_worker_clients
from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.election import GroupTaken, find_leader
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.rights import READ, WRITE, check_rights
from connect_runtime.settings.worker_config import SMALL_SEGMENTS, TopicSettings, WorkerConfig
from connect_specs.diagnostics import ConnectError, Unreachable

_log = logging.getLogger(__name__)
_waits = logging.getLogger("connect.waits")

# The leader is cached this long; a failover takes seconds.
_FRESH_S = 1.0
# How long Kafka is waited for before anybody is told
_QUIET_S = 3.0
# Apache's session.timeout.ms is 10 s by default.
_SESSION_S = 12.0
_RETRY_S = 0.25
# While Kafka is asked again, callers wait this long, then use an answer of at most this age.
_WAIT_S = 1.0
_STALE_S = 10.0


def find_kafka(config: WorkerConfig) -> str:
    """Returns the Kafka cluster's id. Raises Unreachable, and Invalid for invalid client
    properties.

    Kafka may be starting at the same time: waits for it, and says so.
    """
    check_worker_clients(config.resolved_properties)
    deadline = time.monotonic() + config.reach_s
    try:
        return check_reachable(config.client, min(config.reach_s, _QUIET_S))
    except Unreachable as error:
        (found,) = error.diagnostics
        left_s = deadline - time.monotonic()
        if found.code != "kafka.unreachable" or left_s <= 0:
            raise
    text = "%s at %s (%s); waiting up to %.0f s for it"
    _waits.warning(text, found.what, found.where, found.why, left_s)
    return check_reachable(config.client, left_s)


def find_cluster(config: WorkerConfig) -> str:
    """Returns the Kafka cluster's id. Raises Unreachable, also if Apache's workers or another
    cluster use the group, and Invalid for invalid client properties.

    Killed workers stay members for one session; this waits for that long.
    """
    cluster_id = find_kafka(config)
    deadline = time.monotonic() + _SESSION_S
    warned = False
    while True:
        try:
            find_leader(config.client, config.group_id, config.topics.config, 0.0)
            return cluster_id
        except GroupTaken as taken:
            if time.monotonic() > deadline:
                raise
            if not warned:
                text = "%s: %s; waiting up to %.0f s for its members to leave"
                _log.warning(text, config.group_id, taken.diagnostics[0].what, _SESSION_S)
                warned = True
        time.sleep(_RETRY_S)


def ensure_topics(config: WorkerConfig, logs: KafkaLogs) -> None:
    """Creates missing topics, and checks the others. Raises Failed, and Unreachable if a leader
    would lack a permission."""
    topics = config.topics
    used = (topics.config, topics.offsets, topics.status, topics.assignments)
    check_rights(
        config.client,
        topics=dict.fromkeys(used, (READ, WRITE)),
        groups={config.group_id: (READ,)},
    )
    ours = TopicSettings(1, config.config_topic.replication_factor, SMALL_SEGMENTS)
    for topic, settings, key, purpose in (
        (
            config.topics.config,
            config.config_topic,
            "config.storage.topic",
            "connector configurations",
        ),
        (
            config.topics.offsets,
            config.offset_topic,
            "offset.storage.topic",
            "source connector offsets",
        ),
        (
            config.topics.status,
            config.status_topic,
            "status.storage.topic",
            "connector and task statuses",
        ),
        (config.topics.assignments, ours, "topics.assignments", "task assignments"),
    ):
        logs.ensure_compacted(
            topic,
            settings.partitions,
            purpose,
            key=key,
            replication_factor=settings.replication_factor,
            config=settings.config,
        )


class Leader:
    """Finds a cluster's leader by request Kafka on demand; thread-safe.

    One thread at a time asks Kafka: a Kafka that does not answer delays callers only briefly.
    """

    def __init__(self, client: Mapping[str, str], group_id: str, config_topic: str) -> None:
        self._client = client
        self._group_id = group_id
        self._config_topic = config_topic
        self._lock = threading.Lock()
        self._request: _Request | None = None
        self._answered_at: float | None = None
        self._found: str | None = None

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
            return self._found if self._age_s() <= _STALE_S else None

    def _age_s(self) -> float:
        return inf if self._answered_at is None else time.monotonic() - self._answered_at

    def _refresh(self, request: _Request) -> None:
        found = None
        try:
            found = self._find()
        finally:
            with self._lock:
                self._found, self._answered_at, self._request = found, time.monotonic(), None
            request.over.set()

    def _find(self) -> str | None:
        try:
            found = find_leader(self._client, self._group_id, self._config_topic, 0.0)
        except ConnectError as error:
            _log.warning("The leader could not be determined: %s", error)
            return None
        return None if found is None else found.identity


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to Kafka in progress."""

    began: float
    over: threading.Event = field(default_factory=threading.Event)
