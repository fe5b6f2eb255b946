"""Asks the coordinators of consumer groups.

librdkafka 2.16 ends the whole process if such a request times out while no coordinator answers, and
one answers later (an assertion in `rd_kafka_enq_once_del_source_return`). So these requests never
time out: whoever gives up waiting ends the client, which nobody else uses.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Self, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.errors import COORDINATOR_BUSY, error_of
from connect_specs.diagnostics import Diagnostic, Unreachable

K = TypeVar("K")
T = TypeVar("T")

# The longest that librdkafka accepts
UNENDING_S: Final = 3600.0
_WAIT_S: Final = 10.0
_RETRY_S: Final = 0.05


class Coordinators:
    """A client, which ends with a `with` block or with this object. Answers are values or Kafka's
    errors, by group; the error is a timeout for those that are missing after `timeout_s`."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._client: AdminClient | None = admin(properties, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Tracebacks may hold this object, and must not hold the client
        self._client = None

    def describe(
        self, groups: Sequence[str], timeout_s: float, *, rights: bool = False
    ) -> dict[str, Any]:
        """Returns descriptions; `rights`: with what this login may do."""
        asked = self._asks().describe_consumer_groups(
            list(groups), include_authorized_operations=rights, request_timeout=UNENDING_S
        )
        return settled(asked, timeout_s)

    def offsets(self, groups: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Returns the committed offsets of each group's partitions, asked for at the same time."""
        self._wait(groups)
        asked: dict[str, Future[Any]] = {}
        for group in groups:
            wanted = [ConsumerGroupTopicPartitions(group)]
            asked |= self._asks().list_consumer_group_offsets(wanted, request_timeout=UNENDING_S)
        return settled(asked, timeout_s)

    def alter(self, group: str, offsets: Sequence[TopicPartition], timeout_s: float) -> Any:
        """Sets offsets; returns the answer for the group."""
        self._wait((group,))
        wanted = [ConsumerGroupTopicPartitions(group, list(offsets))]
        asked = self._asks().alter_consumer_group_offsets(wanted, request_timeout=UNENDING_S)
        return settled(asked, timeout_s)[group]

    def delete(self, group: str, timeout_s: float) -> Any:
        """Deletes the group; returns the answer for it."""
        self._wait((group,))
        asked = self._asks().delete_consumer_groups([group], request_timeout=UNENDING_S)
        return settled(asked, timeout_s)[group]

    def _asks(self) -> AdminClient:
        if self._client is None:
            what = "The coordinators are not asked any more: their client has ended"
            raise Unreachable(Diagnostic("kafka.client-ended", what))
        return self._client

    def _wait(self, groups: Sequence[str]) -> None:
        """Waits until the coordinators answer, or 10 s have passed.

        If one is about to move, or its broker has just started, requests about a group fail, and
        librdkafka 2.16's request for a group's offsets ends the whole process. So a harmless
        request goes first.
        """
        deadline = time.monotonic() + _WAIT_S
        pending = list(groups)
        while pending and (left_s := deadline - time.monotonic()) > 0:
            found = self.describe(pending, left_s)
            pending = [group for group, answer in found.items() if _is_busy(answer)]
            if pending:
                time.sleep(_RETRY_S)


def settled(asked: Mapping[K, Future[T]], timeout_s: float) -> dict[K, T | KafkaError]:
    """Waits for answers, and returns each or its error."""
    deadline = time.monotonic() + timeout_s
    found: dict[K, T | KafkaError] = {}
    for name, answer in asked.items():
        try:
            found[name] = answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            found[name] = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
        except KafkaException as exception:
            found[name] = error_of(exception)
    return found


def _is_busy(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code() in COORDINATOR_BUSY
