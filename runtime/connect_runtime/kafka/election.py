"""Elects the leader: the process that owns a topic's only partition in a consumer group.

Kafka decides, by group membership; nothing is consumed and no clocks are compared. The classic
protocol with cooperative-sticky keeps the leader when others join. Apache's workers use their group
with another protocol type, so the two refuse each other; once they have left the group, Kafka gives
it to the first process that joins.

A leader can always be wrong for a moment: fencing protects its writes, `leading` does not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from connect_runtime.kafka.clients import admin, consumer, leave_group
from connect_runtime.kafka.errors import (
    COORDINATOR_BUSY,
    MAX_POLL_EXCEEDED,
    NO_MEMBER,
    NOT_A_CONSUMER_GROUP,
    SILENT,
    as_failure,
    error_of,
)
from connect_runtime.kafka.kafka_logging import logged
from connect_runtime.kafka.librdkafka import Coordinators
from connect_runtime.waiting import wait_until
from connect_specs.diagnostics import Diagnostic, Unreachable

# A killed or frozen process is replaced after the session. If its owner is stuck, it is no longer
# polled, so it is replaced after the poll interval as well.
_SESSION_S = 6.0
_STUCK_S = 10.0
_OWNER_S = 60.0
_LEAVE_S = 10.0
_CONFIRM_S = 2.0
# Brokers may not know a topic yet that was just created
_NEW_TOPIC_S = 10.0
# Between two polls
_SLICE_S = 0.1
_ANSWER_S = 0.02
_REQUEST_S = 10.0
_RETRY_S = 0.1
_SETTINGS = {
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": int(_SESSION_S * 1000),
    # Joining and handing over wait for the other members' next heartbeats.
    "heartbeat.interval.ms": 500,
    "max.poll.interval.ms": int(_STUCK_S * 1000),
    "enable.auto.commit": False,
}


class GroupTaken(Unreachable):
    """The group belongs to others."""


class ApacheGroup(GroupTaken):
    """The group's members are Apache's Connect workers."""


class Election:
    """Takes part in the election until closed, on its own thread. Any thread may read `leading` and
    `term`; one thread, the owner, calls `poll`.

    The owner may be busy for up to a minute. If it has not called `poll` for longer, it is stuck:
    it stops leading, and this member leaves the group so that another can lead. Others find this
    member by its `identity`, such as its URL. `term` grows each time that leadership is won, so
    losing and winning it between two polls is noticed.
    """

    def __init__(
        self, properties: Mapping[str, str], group: str, topic: str, identity: str
    ) -> None:
        self.term = 0
        self._group = group
        self._topic = topic
        self._owns = False
        self._polled = self._last_poll = self._asked = time.monotonic()
        self._answer: list[KafkaError | None] = []
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._begun = time.monotonic()
        self._consumer: Consumer = consumer(
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
        self._thread = threading.Thread(target=self._take_part, name="election", daemon=True)
        self._thread.start()

    @property
    def leading(self) -> bool:
        """Returns whether this process leads. False also if it was frozen, or its owner stuck, for
        so long that others may have taken over."""
        now_s = time.monotonic()
        return self._owns and now_s - self._polled < _SESSION_S and now_s - self._asked < _OWNER_S

    def poll(self, timeout_s: float = 0.0) -> None:
        """Signals that the owner is alive. Waits up to `timeout_s` for a change of `leading`.

        Raises errors since the last call: ApacheGroup, and Unreachable if Kafka does not allow this
        login to join the group.
        """
        last = (self._owns, self.term)
        with self._changed:
            self._asked = time.monotonic()
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._error is not None or (self._owns, self.term) != last, timeout_s
            )
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Leaves the group at once, so that the next leader need not wait for a timeout."""
        self._closing.set()
        self._own(owns=False)
        self._thread.join(_LEAVE_S)

    # --- on the election's thread ---

    def _take_part(self) -> None:
        try:
            while not self._closing.is_set():
                if self._owner_lives():
                    self._serve_guarded()
        finally:
            self._own(owns=False)
            leave_group(self._consumer)

    def _owner_lives(self) -> bool:
        """Returns whether the owner is alive; waits a little if not. A member that is not polled
        leaves its group after `_STUCK_S`."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closing.is_set() or time.monotonic() - self._asked < _OWNER_S,
                _SLICE_S,
            )

    def _serve_guarded(self) -> None:
        try:
            self._serve()
        except Exception as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()
            # an immediate failure may repeat
            self._closing.wait(_SLICE_S)

    def _serve(self) -> None:
        message = self._poll(_SLICE_S)
        error = None if message is None else message.error()
        if error is not None and error.code() not in SILENT:
            self._failed(error)
        # After a pause as long as a session the process may have been frozen, and answers from
        # before the freeze may still arrive: only the coordinator knows.
        if self._owns and time.monotonic() - self._polled >= _SESSION_S:
            still = self._is_still_member()
            if still is None:
                return  # does not lead until the coordinator has answered
            self._own(owns=still)
        self._polled = self._last_poll

    def _poll(self, wait_s: float) -> Message | None:
        """Polls, and waits if there was nothing. Not in librdkafka, whose waits last for as long as
        the machine's clock is set back, those between heartbeats included: the question for the
        assignment ends them."""
        # for Kafka's client, too, the poll counts and not the wait after it
        self._last_poll = time.monotonic()
        message: Message | None = self._consumer.poll(0)
        if message is None:
            self._consumer.assignment()
            self._closing.wait(wait_s)
        return message

    def _failed(self, error: KafkaError) -> None:
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            raise _apache_group(self._group)
        young = time.monotonic() - self._begun < _NEW_TOPIC_S
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and young:
            return
        if error.code() != MAX_POLL_EXCEEDED:
            raise as_failure(error, "This process cannot join its group", self._group)
        self._own(owns=False)

    def _is_still_member(self) -> bool | None:
        """Asks the coordinator with a commit, which it accepts only from members of this
        generation. None if it does not answer."""
        self._answer.clear()
        term = self.term
        try:
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, 0)], asynchronous=True)
        except KafkaException:
            return None
        wait_until(
            lambda: bool(self._answer),
            _CONFIRM_S,
            every_s=_ANSWER_S,
            stop=self._closing.is_set,
            sleep=self._poll,
        )
        if not self._owns or self.term != term:
            return self._owns
        error = self._answer[0] if self._answer else None
        if not self._answer or (error is not None and error.code() not in NO_MEMBER):
            return None
        return error is None

    def _won(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        # Set explicitly, so that no committed offset is looked for; paused, so that none is read.
        member.incremental_assign([TopicPartition(at.topic, at.partition, 0) for at in partitions])
        member.pause(partitions)
        if any(at.partition == 0 for at in partitions):
            self.term += 1
            self._own(owns=not self._closing.is_set())

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if any(at.partition == 0 for at in partitions):
            self._own(owns=False)

    def _own(self, *, owns: bool) -> None:
        with self._changed:
            self._owns = owns
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Leader:
    """The member that owns the partition: its identity, and its host's address."""

    identity: str
    host: str


@logged("find the leader of group", "group")
def find_leader(
    properties: Mapping[str, str], group: str, topic: str, timeout_s: float
) -> Leader | None:
    """Returns the leader, None if there is none. Waits up to `timeout_s` for an election in
    progress.

    Raises ApacheGroup if Apache's workers are members of the group, and GroupTaken if a member
    leads by another topic: two leaders of one group would fence each other for ever.
    """
    with Coordinators(properties) as coordinators:
        return leader_of(coordinators, properties, group, topic, timeout_s)


def leader_of(
    coordinators: Coordinators,
    properties: Mapping[str, str],
    group: str,
    topic: str,
    timeout_s: float,
) -> Leader | None:
    """Does the same as `find_leader`, through an existing client."""
    deadline = time.monotonic() + timeout_s
    busy_until = time.monotonic() + _REQUEST_S
    while True:
        description = coordinators.describe([group], _REQUEST_S)[group]
        if isinstance(description, KafkaError):
            if description.code() == NOT_A_CONSUMER_GROUP:
                if _is_empty(admin(properties), group):
                    return None
                raise _apache_group(group)
            if description.code() in COORDINATOR_BUSY and time.monotonic() < busy_until:
                time.sleep(_RETRY_S)
                continue
            raise as_failure(description, "The group cannot be read", group)
        strangers: list[str] = []
        for member in description.members:
            owned = member.assignment.topic_partitions if member.assignment else ()
            if any((at.topic, at.partition) == (topic, 0) for at in owned):
                return Leader(identity=member.client_id, host=member.host.lstrip("/"))
            strangers += (
                f"{member.client_id}, with {at.topic}" for at in owned if at.topic != topic
            )
        if strangers:
            raise _of_other_topics(group, topic, strangers[0])
        settled = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
        if description.state in settled or time.monotonic() > deadline:
            return None
        time.sleep(_RETRY_S)


def members_of(coordinators: Coordinators, group: str, timeout_s: float) -> tuple[str, ...]:
    """Returns the identities of all candidates; none if Kafka does not answer in time."""
    description = coordinators.describe([group], timeout_s)[group]
    if isinstance(description, KafkaError):
        return ()
    return tuple(member.client_id for member in description.members)


def _is_empty(client: AdminClient, group: str) -> bool:
    """Returns whether a group of another protocol type has no members. Newer calls show no such
    group, so this uses a deprecated one."""
    try:
        groups = client.list_groups(group, timeout=_REQUEST_S)
    except KafkaException as exception:
        raise as_failure(error_of(exception), "The group cannot be read", group) from None
    # a group that is not listed is not known to be empty
    return bool(groups) and all(listing.error is None and not listing.members for listing in groups)


def _of_other_topics(group: str, topic: str, stranger: str) -> GroupTaken:
    return GroupTaken(
        Diagnostic(
            "cluster.other-topics",
            f"Another cluster uses this group.id: {stranger} in place of {topic}",
            group,
            hint="Give each cluster a group.id of its own, and all workers of one cluster the same "
            "config.storage.topic.",
        )
    )


def _apache_group(group: str) -> ApacheGroup:
    return ApacheGroup(
        Diagnostic(
            "cluster.of-apache",
            "A Kafka Connect cluster of Apache's workers uses this group.id",
            group,
            hint="Stop its workers first, or choose another group.id. Killed workers leave the "
            "group after their session.timeout.ms, 10 s by default.",
        )
    )
