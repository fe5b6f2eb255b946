"""Which one of many processes leads? The one that owns a topic's only partition in a group.

Kafka decides, by consumer group membership; nothing is consumed and no clocks are compared. The
classic protocol with cooperative-sticky lets a leader stay when others join. Apache's workers use
their group with another protocol type, so the two refuse each other.

A leader can always be wrong for a moment: what it writes is guarded by fencing, not by `leading`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from connect_runtime.kafka.clients import admin, consumer
from connect_runtime.kafka.errors import (
    COORDINATOR_BUSY,
    MAX_POLL_EXCEEDED,
    NOT_A_CONSUMER_GROUP,
    SILENT,
    as_failure,
    error_of,
)
from connect_specs.diagnostics import Diagnostic, Unreachable

# A process that was killed or frozen is replaced after the session, one whose thread is stuck
# while its heartbeats go on after the poll interval. Between the two a leader may wait for Kafka.
_SESSION_S = 6.0
_STUCK_S = 10.0
_CONFIRM_S = 2.0
_SLICE_S = 0.02
_REQUEST_S = 10.0
_ASK_AGAIN_S = 0.1
_SETTINGS = {
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": int(_SESSION_S * 1000),
    # Joining and handing over wait for the others' next heartbeats.
    "heartbeat.interval.ms": 500,
    "max.poll.interval.ms": int(_STUCK_S * 1000),
    "enable.auto.commit": False,
}


class Election:
    """Standing in the election until closed. Belongs to one thread; `leading` may be read by any.

    `identity` is what others find this member by, such as its URL. `term` grows each time that
    leadership is won, so that losing and winning it within one poll does not go unnoticed.
    """

    def __init__(
        self, properties: Mapping[str, str], group: str, topic: str, identity: str
    ) -> None:
        self.term = 0
        self._group = group
        self._topic = topic
        self._owns = False
        self._polled = time.monotonic()
        self._answer: list[KafkaError | None] = []
        self._consumer: Consumer | None = consumer(
            properties,
            {
                **_SETTINGS,
                "group.id": group,
                "client.id": identity,
                "on_commit": lambda error, _: self._answer.append(error),
            },
        )
        self._consumer.subscribe(
            [topic], on_assign=self._won, on_revoke=self._lost, on_lost=self._lost
        )

    @property
    def leading(self) -> bool:
        """False also when nobody has called poll for so long that others may have taken over."""
        return self._owns and time.monotonic() - self._polled < _SESSION_S

    def poll(self, timeout_s: float = 0.0) -> None:
        """Takes part; must be called every second or so. Waits up to `timeout_s` for a change.

        Raises Unreachable where Apache's workers use the group, or Kafka does not allow it.
        """
        before = (self._owns, self.term)
        deadline = time.monotonic() + timeout_s
        while True:
            self._serve(min(_SLICE_S, max(0.0, deadline - time.monotonic())))
            if (self._owns, self.term) != before or time.monotonic() >= deadline:
                return

    def close(self) -> None:
        """Leaves the group at once, so that the next one need not wait for a timeout."""
        self._owns = False
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _serve(self, timeout_s: float) -> None:
        assert self._consumer is not None, "the election is closed"
        message = self._consumer.poll(timeout_s)
        # After a pause as long as a session the process may have been frozen, and its answers
        # from before the freeze still be on their way: only the coordinator knows.
        if self._owns and time.monotonic() - self._polled >= _SESSION_S:
            self._owns = self._is_still_member()
        self._polled = time.monotonic()
        error = None if message is None else message.error()
        if error is None or error.code() in SILENT:
            return
        if error.code() == MAX_POLL_EXCEEDED:
            self._owns = False
        elif error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            raise _apache_group(self._group)
        else:
            raise as_failure(error, "This process cannot join its group", self._group)

    def _is_still_member(self) -> bool:
        """Asks the coordinator, which takes a commit from members of this generation only."""
        assert self._consumer is not None, "the election is closed"
        self._answer.clear()
        term = self.term
        try:
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, 0)], asynchronous=True)
        except KafkaException:
            return False
        deadline = time.monotonic() + _CONFIRM_S
        while not self._answer and time.monotonic() < deadline:
            self._consumer.poll(_SLICE_S)
        return self._owns and self.term == term and self._answer == [None]

    def _won(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        # Set explicitly, so that no committed offset is looked for; paused, so that none is read.
        member.incremental_assign([TopicPartition(at.topic, at.partition, 0) for at in partitions])
        member.pause(partitions)
        if any(at.partition == 0 for at in partitions):
            self._owns = True
            self.term += 1

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if any(at.partition == 0 for at in partitions):
            self._owns = False


@dataclass(frozen=True, slots=True)
class Leader:
    """The member that owns the partition: the identity it gave itself, and its host's address."""

    identity: str
    host: str


def find_leader(
    properties: Mapping[str, str], group: str, topic: str, timeout_s: float
) -> Leader | None:
    """Who leads, None if nobody does. Waits up to `timeout_s` for an election that is under way.

    Raises Unreachable where Apache's workers use the group.
    """
    client = admin(properties)
    deadline = time.monotonic() + timeout_s
    busy_until = time.monotonic() + _REQUEST_S
    while True:
        try:
            found = client.describe_consumer_groups([group], request_timeout=_REQUEST_S)[
                group
            ].result()
        except KafkaException as exception:
            code = error_of(exception).code()
            if code == NOT_A_CONSUMER_GROUP:
                raise _apache_group(group) from None
            if code in COORDINATOR_BUSY and time.monotonic() < busy_until:
                time.sleep(_ASK_AGAIN_S)
                continue
            raise as_failure(error_of(exception), "The group cannot be read", group) from None
        for member in found.members:
            owned = member.assignment.topic_partitions if member.assignment else ()
            if any((at.topic, at.partition) == (topic, 0) for at in owned):
                return Leader(identity=member.client_id, host=member.host.lstrip("/"))
        settled = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
        if found.state in settled or time.monotonic() > deadline:
            return None
        time.sleep(_ASK_AGAIN_S)


def members_of(client: AdminClient, group: str, timeout_s: float) -> tuple[str, ...]:
    """The identities of all who stand in the election; none where Kafka does not say in time."""
    try:
        found = client.describe_consumer_groups([group], request_timeout=timeout_s)[group]
        return tuple(member.client_id for member in found.result(timeout_s).members)
    except (KafkaException, TimeoutError):
        return ()


def _apache_group(group: str) -> Unreachable:
    return Unreachable(
        Diagnostic(
            "cluster.of-apache",
            "A Kafka Connect cluster of Apache's workers uses this group.id",
            group,
            hint="Stop its workers first, or choose another group.id.",
        )
    )
