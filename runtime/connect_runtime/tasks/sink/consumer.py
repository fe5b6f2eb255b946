"""Reads a sink task's records: its consumer with subscription, rebalances and commits.

Uses cooperative assignment, so a task that joins or leaves stops only the partitions that move;
Apache's default, range, stops every task of the connector for each change.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from connect_runtime.api import ConnectorError, TopicPartition
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import (
    MAX_POLL_EXCEEDED,
    NO_SUCH_TOPIC,
    WRONG_STATE,
    error_of,
    passes,
    reason,
)
from connect_runtime.metrics.task_metrics import STATISTICS_MS
from connect_runtime.settings.connector_topics import matching_topics
from connect_runtime.tasks.kafka_failures import Interrupted, kafka_may_interrupt
from connect_runtime.tasks.sink.offsets import ReadBatch
from connect_runtime.tasks.task_setup import TaskSetup

_log = logging.getLogger(__name__)

Gained: TypeAlias = Callable[[list[TopicPartition]], Mapping[TopicPartition, int]]
Rebalanced: TypeAlias = Callable[[list[TopicPartition]], None]
Statistics: TypeAlias = Callable[[str], None]
# Answers to a commit: the requested offsets, those that Kafka accepted, and the error of the others
Answered: TypeAlias = Callable[
    [Mapping[TopicPartition, int], set[TopicPartition], KafkaError | None], None
]

# Kafka's default for `max.poll.records`. Larger batches leave the processor's cache.
_BATCH: Final = 500
# The client makes room for so many at each read, and refuses more than ten times as many
_LARGEST_BATCH: Final = 100_000
_SETTINGS: Final = {
    "enable.auto.offset.store": False,
    # with librdkafka's 1000 ms, fetching stops for a second whenever its queue is full
    "fetch.queue.backoff.ms": 5,
    # Ignores the config: with any other assignor the calls below are refused and nothing is read.
    # Validation reports other assignors.
    "partition.assignment.strategy": "cooperative-sticky",
    # A deleted topic is noticed as soon, so that a topic recreated under its name is read from its
    # beginning. The default is minutes; Java's notices by its failing fetches.
    "topic.metadata.refresh.interval.ms": 5_000,
    "statistics.interval.ms": STATISTICS_MS,
}
_NO_TOPIC: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001
_START_S: Final = 30.0
_SEEK_S: Final = 10.0
_CLOSE_S: Final = 5.0
_LIST_EVERY_S: Final = 30.0  # Java's default for metadata.max.age.ms is five minutes
_LIST_RETRY_S: Final = 1.0
_LIST_TIMEOUT_S: Final = 10.0
_RESETS: Final = {
    **dict.fromkeys(("earliest", "smallest", "beginning"), OFFSET_BEGINNING),
    **dict.fromkeys(("latest", "largest", "end"), OFFSET_END),
}


class SinkConsumer:
    """Calls back on rebalances, answered commits and librdkafka's statistics from within `read`.

    `gained` returns where to start; `settled` follows once the new partitions can be paused.
    """

    def __init__(
        self,
        setup: TaskSetup,
        *,
        gained: Gained,
        settled: Rebalanced,
        revoked: Rebalanced,
        lost: Rebalanced,
        answered: Answered,
        statistics: Statistics = lambda json: None,
    ) -> None:
        self._gained, self._settled = gained, settled
        self._revoked, self._lost = revoked, lost
        self._answered = answered
        self.assigned: set[TopicPartition] = set()
        self._subscribed: frozenset[str] = frozenset()
        self._task = setup.id
        self._missing: set[str] = set()
        self._closing = False
        self._rebalanced = False
        pattern = setup.topic_pattern
        topics = frozenset() if pattern else setup.topic_names
        properties = setup.sink_consumer()
        self._most = min(int(properties.get("max.poll.records") or _BATCH), _LARGEST_BATCH)
        self._reset = properties["auto.offset.reset"].strip().lower()
        # Java's `none` is librdkafka's `error`
        properties["auto.offset.reset"] = "error" if self._reset == "none" else self._reset
        callbacks = {"on_commit": self._on_commit, "stats_cb": statistics}
        self._consumer = clients.consumer(properties, {**_SETTINGS, **callbacks})
        self._matching = MatchingTopics(pattern, properties) if pattern else None
        self._subscribe(topics)

    def read(self, timeout_s: float) -> ReadBatch:
        """Returns records that have arrived; waits up to `timeout_s` for the first.

        Raises KafkaException for errors that do not pass by themselves.
        """
        if self._matching is not None and self._matching.topics is not None:
            self._subscribe(self._matching.topics)
        first = self._consumer.poll(timeout_s)
        if first is None:
            return ReadBatch([], {})
        self._rebalanced = False
        messages = [first, *self._consumer.consume(self._most - 1, 0)]
        messages = _without_errors(messages, self._wait_for)
        if self._rebalanced:  # between the first record and the others
            messages = [m for m in messages if (m.topic(), m.partition()) in self.assigned]
        # unknown after an assignment or a seek until the first record
        positions = self._consumer.position([KafkaPartition(*p) for p in self.assigned])
        return ReadBatch(messages, {_plain(p): p.offset for p in positions if p.offset >= 0})

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns where to start reading: the committed offset, else by `auto.offset.reset`.

        Raises Interrupted if Kafka does not answer, ConnectorError if there is no such offset.
        """
        requested = [KafkaPartition(*p) for p in partitions]
        with kafka_may_interrupt():
            committed = _offsets(self._consumer.committed(requested, timeout=_START_S))
        uncommitted = [p for p, offset in committed.items() if offset < 0]
        return committed | self._first_starts(uncommitted) if uncommitted else committed

    def _first_starts(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if self._reset not in _RESETS:
            names = ", ".join(map(str, sorted(partitions)))
            raise ConnectorError(f"Undefined offset with no reset policy for partitions: [{names}]")
        requested = [KafkaPartition(*p, _RESETS[self._reset]) for p in partitions]
        try:
            with kafka_may_interrupt():
                return _offsets(self._consumer.offsets_for_times(requested, timeout=_START_S))
        except KafkaException as raised:
            error = error_of(raised)
            if error.code() not in NO_SUCH_TOPIC:
                raise
            # deleted after its assignment: the next assignment is without it
            raise Interrupted(f"A topic has disappeared: {reason(error)}") from raised

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Sends a commit; its answer goes to `answered`.

        Nothing waits for it. When partitions are given up it is sent before the group learns of
        that, on the same connection: it arrives before the next owner asks.
        """
        places = [KafkaPartition(*p, offset) for p, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as raised:
            self._answered(offsets, set(), error_of(raised))

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continues reading at these offsets. Raises Interrupted if the seek does not succeed."""
        deadline = time.monotonic() + _SEEK_S
        for partition, offset in offsets.items():
            while True:
                try:
                    self._consumer.seek(KafkaPartition(*partition, offset))
                    break
                except KafkaException as raised:
                    # right after an assignment it may not read yet
                    if error_of(raised).code() != WRONG_STATE:
                        raise
                    if time.monotonic() > deadline:
                        raise Interrupted(f"{partition} cannot be moved to {offset}") from raised
                time.sleep(0.01)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pauses these partitions; ignores those that are not assigned."""
        self._consumer.pause([KafkaPartition(*p) for p in partitions if p in self.assigned])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resumes these partitions; ignores those that are not assigned."""
        self._consumer.resume([KafkaPartition(*p) for p in partitions if p in self.assigned])

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Waits for answers to commits and drops records. Only `close` may follow.

        Returns whether `until` became true in time.
        """
        self._closing = True
        deadline = time.monotonic() + timeout_s
        while not until():
            if time.monotonic() > deadline:
                return False
            self.pause(self.assigned)
            self._consumer.poll(0.05)
        return True

    def close(self) -> None:
        """Leaves the group. No further rebalance is reported.

        A silent Kafka would block this forever: after a few seconds the consumer is left to close
        in the background, which it does when Kafka answers.
        """
        self._closing = True
        if self._matching is not None:
            self._matching.close()
        closing = threading.Thread(
            target=clients.leave_group, args=(self._consumer,), name="sink-close", daemon=True
        )
        closing.start()
        closing.join(_CLOSE_S)
        if closing.is_alive():
            _log.warning("Kafka does not answer: the consumer leaves its group later")

    def _wait_for(self, topic: str) -> None:
        """Logs once that a topic does not exist: the client goes on when it is created."""
        assigned = {partition.topic for partition in self.assigned}
        if topic not in self._missing | assigned:
            self._missing.add(topic)
            text = (
                "Task %s waits for topic %s, which does not exist: create it, or correct `topics`"
            )
            _log.warning(text, self._task, topic)

    def _subscribe(self, topics: frozenset[str]) -> None:
        if topics == self._subscribed:
            return
        self._subscribed = topics
        if not topics:
            self._consumer.unsubscribe()
            return
        self._consumer.subscribe(
            sorted(topics),
            on_assign=self._on_assign,
            on_revoke=partial(self._give_up, report=self._revoked),
            on_lost=partial(self._give_up, report=self._lost),
        )

    # called by the client, from within poll and consume

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        gained = list(map(_plain, partitions))
        if gained and not self._closing:
            starts = self._gained(gained)
            for place in partitions:
                place.offset = starts[_plain(place)]
        consumer.incremental_assign(partitions)
        self.assigned.update(gained)
        self._missing.difference_update(partition.topic for partition in gained)
        if gained and not self._closing:
            self._settled(gained)

    def _give_up(self, consumer: Any, partitions: list[Any], report: Rebalanced) -> None:
        revoked = list(map(_plain, partitions))
        self._rebalanced = True
        if revoked and not self._closing:
            report(revoked)
        self.assigned.difference_update(revoked)
        consumer.incremental_unassign(partitions)

    def _on_commit(self, error: KafkaError | None, places: list[Any]) -> None:
        offsets = {_plain(p): p.offset for p in places}
        accepted = {_plain(p) for p in places if error is None and p.error is None}
        failure = error or next((p.error for p in places if p.error is not None), None)
        self._answered(offsets, accepted, failure)


def _offsets(places: list[Any]) -> dict[TopicPartition, int]:
    """Returns the offsets by partition. Raises KafkaException for a partition whose offset is
    missing."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
    return {_plain(p): p.offset for p in places}


def _without_errors(messages: list[Any], missing: Callable[[str], None]) -> list[Any]:
    """Returns the records. Calls `missing` for topics that do not exist."""
    errors = list(map(Message.error, messages))
    # neither == nor count: comparing a KafkaError with None leaves a TypeError behind, for later
    if not any(errors):
        return messages
    for message, error in zip(messages, errors, strict=True):
        if error is None:
            continue
        if error.code() == MAX_POLL_EXCEEDED:
            _log.warning(
                "The task was busy for longer than max.poll.interval.ms, so its group went on "
                "without it. It joins again, and records that are not committed are delivered "
                "again. Raise consumer.override.max.poll.interval.ms or lower "
                "consumer.override.max.poll.records."
            )
        elif error.code() in NO_SUCH_TOPIC:
            if error.code() in _NO_TOPIC:
                missing(message.topic())
        # the client recovers by itself
        elif not passes(error):
            raise KafkaException(error)
    return [m for m, error in zip(messages, errors, strict=True) if error is None]


def _plain(place: Any) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)


class MatchingTopics:
    """Follows the topics that match a pattern, including those that appear and disappear later.

    A thread lists the cluster's topics, so that neither `put` nor a rebalance ever waits for the
    answer. `properties` are the consumer's, under Java's names: every `metadata.max.age.ms` topics
    are listed, Kafka's internal ones unless `exclude.internal.topics`.
    """

    def __init__(self, pattern: re.Pattern[str], properties: Mapping[str, str]) -> None:
        self._pattern = pattern
        self._properties = properties
        self._internal = properties.get("exclude.internal.topics", "true").lower() == "false"
        age_ms = properties.get("metadata.max.age.ms")
        self._every_s = max(_LIST_RETRY_S, int(age_ms) / 1000) if age_ms else _LIST_EVERY_S
        self._ended = threading.Event()
        self.topics: frozenset[str] | None = None  # None until the first answer
        threading.Thread(target=self._watch, name="matching-topics", daemon=True).start()

    def close(self) -> None:
        """Stops looking. Does not wait for a request in progress."""
        self._ended.set()

    def _watch(self) -> None:
        # a consumer, as these are a consumer's properties; it joins no group without subscribing
        client = clients.consumer(self._properties)
        while not self._ended.is_set():
            try:
                metadata = client.list_topics(timeout=_LIST_TIMEOUT_S).topics
            except KafkaException as error:
                _log.debug("Topics cannot be listed: %s", reason(error_of(error)))
                self._ended.wait(_LIST_RETRY_S)
                continue
            existing = [
                name
                for name, topic in metadata.items()
                if topic.error is None or topic.error.code() not in NO_SUCH_TOPIC
            ]
            self.topics = matching_topics(self._pattern, existing, internal=self._internal)
            self._ended.wait(self._every_s)
        client.close()
