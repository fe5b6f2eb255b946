"""Chooses partitions for records without keys: one for each batch, as Kafka's producer (KIP-480).

librdkafka looks for the partition of each record, which takes a fifth of the time of sending it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer

from connect_runtime.tasks.send_failures import RAISED

# Kafka's default for `metadata.max.age.ms`: how soon new partitions get records
_AGE_S: Final = 300.0
_AGAIN_S: Final = 10.0  # after Kafka did not tell
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Known:
    partitions: Sequence[int]
    until: float


class StickyPartitions:
    """Knows the partitions of topics that one producer writes to. Does not keep the producer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def choose(self, topic: str, producer: Producer) -> int | None:
        """Returns a partition that has a leader; None if that is not known: the client chooses."""
        known = self._known.get(topic)
        if known is None or self._clock() >= known.until:
            found = _with_leader(topic, producer)
            until = self._clock() + (_AGE_S if found else _AGAIN_S)
            known = self._known[topic] = _Known(found, until)
        return random.choice(known.partitions) if known.partitions else None


def _with_leader(topic: str, producer: Producer) -> Sequence[int]:
    with suppress(*RAISED):
        found = producer.list_topics(topic, timeout=_LOOK_S).topics[topic]
        return [number for number, each in found.partitions.items() if each.leader >= 0]
    return []
