"""Did Kafka interrupt an attempt, or did its task fail?

What passes by itself (a broker that is silent, a coordinator that moves, a partition without a
leader) ends the attempt and not its task: it is launched again after a pause. What stays until
somebody acts (rights, logins, settings, topics that are gone) fails the task.

The edges that call Kafka decide this, never whoever catches an error at the end: a task may use
Kafka clients of its own, and what those raise is the task's failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from connect_runtime.kafka.errors import PASSING, error_of, reason
from connect_runtime.storage.log import LogBlocked
from connect_specs.diagnostics import ConnectError, Unreachable

_PASSING_CODES = frozenset({"kafka.unreachable", "topic.slow"})


class Interrupted(Exception):
    """Kafka failed this attempt, not its task: it is launched again after a pause."""


def is_interruption(error: KafkaError) -> bool:
    """Whether what Kafka said passes by itself."""
    return error.retriable() or error.code() in PASSING


@contextmanager
def kafka_may_interrupt() -> Iterator[None]:
    """Raises Interrupted for what Kafka's clients raise inside and what passes by itself.

    For blocks that call Kafka and nothing of the task's.
    """
    try:
        yield
    except KafkaException as raised:
        error = error_of(raised)
        if not is_interruption(error):
            raise
        raise Interrupted(f"Kafka interrupted this attempt: {reason(error)}") from raised
    except (LogBlocked, Unreachable) as error:
        if not _passes(error):
            raise
        raise Interrupted(f"Kafka interrupted this attempt: {error}") from error


def _passes(error: ConnectError) -> bool:
    return isinstance(error, LogBlocked) or all(
        each.code in _PASSING_CODES for each in error.diagnostics
    )
