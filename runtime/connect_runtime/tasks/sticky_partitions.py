"""Knows the partitions of the topics that one producer writes to.

Records without keys go to one partition for each batch, as with Kafka's producer (KIP-480):
librdkafka looks for the partition of each record, which takes a fifth of the time of sending it.
And a topic that is made anew with fewer partitions is noticed: librdkafka keeps records for
partitions that are gone until they time out.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer

from connect_runtime.api import ConnectorError
from connect_runtime.tasks.send_failures import RAISED
from connect_specs.counting import counted

# Kafka's default for `metadata.max.age.ms`: how soon new partitions get records
_AGE_S: Final = 300.0
_AGAIN_S: Final = 10.0  # after Kafka did not tell
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Known:
    """A topic: how many partitions it has, and which of them have leaders."""

    count: int
    with_leader: Sequence[int]
    until: float


class StickyPartitions:
    """Belongs to one producer, which it does not keep."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}
        # A silent Kafka holds up each question
        self._ask_from = -math.inf

    def choose(self, topic: str, producer: Producer) -> int | None:
        """Returns a partition that has a leader; None if that is not known: the client chooses."""
        known = self._of(topic, producer)
        return random.choice(known.with_leader) if known.with_leader else None

    def check(self, topic: str, partition: int | None, producer: Producer) -> None:
        """Call before records of this partition are sent; None: the client chooses one. Raises
        ConnectorError if the topic does not have it: librdkafka would not say which."""
        known = self._of(topic, producer)
        if partition is None or not known.count or partition < known.count:
            return
        del self._known[topic]  # it may have more by now
        known = self._of(topic, producer)
        if known.count and partition >= known.count:
            raise ConnectorError(
                f"A record is for partition {partition} of topic {topic}, which has"
                f" {counted(known.count, 'partition')}. Give the topic more, or correct what"
                " chooses the partition, the connector or a transformation; then restart the task."
            )

    def fewer(self, producer: Producer) -> str | None:
        """Returns a text that names a topic with fewer partitions than it had; None if there is
        none, or Kafka does not answer. Asks for all topics: asking for one may create it."""
        with suppress(*RAISED):
            topics = producer.list_topics(timeout=_LOOK_S).topics
            for name, known in self._known.items():
                count = len(topics[name].partitions) if name in topics else 0
                if 0 < count < known.count:
                    return (
                        f"Topic {name} has {count} of the {known.count} partitions that it had, so"
                        " it was made anew. The next attempt writes to these, and begins after the"
                        " last commit."
                    )
        return None

    def _of(self, topic: str, producer: Producer) -> _Known:
        known = self._known.get(topic)
        if known is None or self._clock() >= known.until:
            count, with_leader = self._partitions(topic, producer)
            until = self._clock() + (_AGE_S if with_leader else _AGAIN_S)
            if known is not None:
                count = count or known.count  # it may be about to be made anew
            known = self._known[topic] = _Known(count, with_leader, until)
        return known

    def _partitions(self, topic: str, producer: Producer) -> tuple[int, Sequence[int]]:
        """Returns how many partitions there are, and which have leaders; 0 and none if Kafka does
        not answer, which is then asked for no topic for a while."""
        if self._clock() < self._ask_from:
            return 0, []
        try:
            found = producer.list_topics(topic, timeout=_LOOK_S).topics[topic].partitions
        except RAISED:
            self._ask_from = self._clock() + _AGAIN_S
            return 0, []
        return len(found), [number for number, each in found.items() if each.leader >= 0]
