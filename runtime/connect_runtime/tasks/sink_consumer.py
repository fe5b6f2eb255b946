"""The consumer of a sink task: what it subscribes to, and batches of what it reads.

Cooperative assignment, so that a task that joins or leaves stops only the partitions that move;
Apache's default, range, stops every task of the connector for each change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from connect_runtime.api import Column, ConfigError, Converter, SinkBatch, TopicPartition
from connect_runtime.data.converters import Converters
from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import NO_SUCH_TOPIC
from connect_runtime.tasks import client_properties
from connect_runtime.tasks.launch import TaskLaunch

Gained: TypeAlias = Callable[[list[TopicPartition]], Mapping[TopicPartition, int | None]]
Told: TypeAlias = Callable[[list[TopicPartition]], None]

_BATCH: Final = 10_000
_SETTINGS: Final = {
    "enable.auto.offset.store": False,
    # with librdkafka's 1000 ms it stops fetching for a second whenever its queue is full
    "fetch.queue.backoff.ms": 5,
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """Messages as read, and the next offset of each assigned partition after them."""

    messages: list[Any]
    positions: Mapping[TopicPartition, int]


class SinkConsumer:
    """Calls back on rebalances from within `read`.

    `gained` answers where to start; `settled` follows once the new partitions can be paused.
    """

    def __init__(
        self,
        launch: TaskLaunch,
        *,
        gained: Gained,
        settled: Told,
        revoked: Told,
        lost: Told,
        committed: Callable[[Any, list[Any]], None],
    ) -> None:
        self._gained, self._settled = gained, settled
        self._revoked, self._lost = revoked, lost
        self.assigned: set[TopicPartition] = set()
        self._closing = False
        self._rebalanced = False
        properties = client_properties.sink_consumer(launch)
        self._most = int(properties.get("max.poll.records") or _BATCH)
        properties.setdefault(
            "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        )
        self._consumer = clients.consumer(properties, {**_SETTINGS, "on_commit": committed})
        self._consumer.subscribe(
            _topics(launch.connector_config),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def read(self, timeout_s: float) -> Delivery:
        """What has arrived; waits up to `timeout_s` for the first record."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return Delivery([], {})
        self._rebalanced = False
        messages = [first, *self._consumer.consume(self._most - 1, 0)]
        messages = _without_errors(messages)
        if self._rebalanced:  # between the first record and the others
            messages = [m for m in messages if (m.topic(), m.partition()) in self.assigned]
        places = self._consumer.position([KafkaPartition(*p) for p in self.assigned])
        positions = {
            TopicPartition(p.topic, p.partition): p.offset for p in places if p.offset >= 0
        }
        return Delivery(messages, positions)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The committed offset of each; None where there is none."""
        asked = [KafkaPartition(*p) for p in partitions]
        found = self._consumer.committed(asked, timeout=30)
        return {
            TopicPartition(p.topic, p.partition): p.offset if p.offset >= 0 else None for p in found
        }

    def commit(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> None:
        """Commits; without `wait` the answer comes to `committed`. Raises KafkaException."""
        places = [KafkaPartition(*p, offset) for p, offset in offsets.items()]
        answers = self._consumer.commit(offsets=places, asynchronous=not wait)
        for answer in answers or ():
            if answer.error is not None:
                raise KafkaException(answer.error)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Reads on from these offsets."""
        for partition, offset in offsets.items():
            self._consumer.seek(KafkaPartition(*partition, offset))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Delivers nothing of these; partitions that are not assigned are left out."""
        self._consumer.pause([KafkaPartition(*p) for p in partitions if p in self.assigned])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume([KafkaPartition(*p) for p in partitions if p in self.assigned])

    def close(self) -> None:
        """Leaves the group. Nothing is called back any more."""
        self._closing = True
        self._consumer.close()

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        gained = _plain(partitions)
        starts = self._gained(gained) if gained else {}
        for place in partitions:
            start = starts.get(TopicPartition(place.topic, place.partition))
            if start is not None:
                place.offset = start
        consumer.incremental_assign(partitions)
        self.assigned.update(gained)
        self._settled(gained)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self._give_up(consumer, partitions, self._revoked)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._give_up(consumer, partitions, self._lost)

    def _give_up(self, consumer: Any, partitions: list[Any], tell: Told) -> None:
        gone = _plain(partitions)
        self._rebalanced = True
        if gone and not self._closing:
            tell(gone)
        self.assigned.difference_update(gone)
        consumer.incremental_unassign(partitions)


def batch_of(messages: list[Any], converters: Converters) -> SinkBatch:
    """The batch to put. Converts now what could fail, and the rest when it is asked for."""
    value = _LazyColumn(messages, Message.value, converters.value)
    key = _LazyColumn(messages, Message.key, converters.key)
    return SinkBatch(
        lambda: value.column.values,
        value_schemas=lambda: value.column.each_schema(),
        keys=lambda: key.column.values,
        key_schemas=lambda: key.column.each_schema(),
        topics=lambda: list(map(Message.topic, messages)),
        partitions=lambda: list(map(Message.partition, messages)),
        offsets=lambda: list(map(Message.offset, messages)),
        timestamps=lambda: [m.timestamp()[1] if m.timestamp()[0] else None for m in messages],
        headers=lambda: [m.headers() or () for m in messages],
        size=len(messages),
    )


class _LazyColumn:
    """Keys or values, read once."""

    __slots__ = ("_column", "_converter", "_field", "_messages")

    def __init__(self, messages: list[Any], field: Any, converter: Converter) -> None:
        self._messages, self._field, self._converter = messages, field, converter
        self._column: Column | None = None
        if not converter.reads_anything:
            self._column = self.column

    @property
    def column(self) -> Column:
        if self._column is None:
            self._column = self._converter.reader()(list(map(self._field, self._messages)))
        return self._column


def _without_errors(messages: list[Any]) -> list[Any]:
    errors = list(map(Message.error, messages))
    # neither == nor count: comparing a KafkaError with None leaves a TypeError behind, for later
    if not any(errors):
        return messages
    for error in errors:
        # a topic that does not exist yet is waited for, like everything that passes by itself
        if error is not None and not error.retriable() and error.code() not in NO_SUCH_TOPIC:
            raise KafkaException(error)
    return [m for m, error in zip(messages, errors, strict=True) if error is None]


def _topics(config: Mapping[str, str]) -> list[str]:
    pattern = (config.get("topics.regex") or "").strip()
    if pattern:
        # librdkafka takes a name as a pattern if it begins with ^; Java matches the whole name
        return [f"^({pattern.removeprefix('^').removesuffix('$')})$"]
    names = re.split(r"\s*,\s*", (config.get("topics") or "").strip())
    topics = list(dict.fromkeys(filter(None, names)))
    if not topics:
        raise ConfigError("Must configure one of topics or topics.regex")
    return topics


def _plain(partitions: list[Any]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.partition) for p in partitions]
