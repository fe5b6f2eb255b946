"""Separates Kafka's temporary failures, which interrupt an attempt, from its task's failures.

A failure that passes by itself (a silent broker, a moving coordinator, a partition without a
leader) ends the attempt but not its task: it is launched again after a pause. A failure that lasts
until somebody acts (permissions, logins, settings, deleted topics) fails the task.

The code that calls Kafka decides this, not the code that catches the error at the end: a task may
use its own Kafka clients, and their errors are the task's failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException

from connect_runtime.kafka.errors import UNREACHABLE, error_of, passes, reason
from connect_runtime.storage.log import LogBlocked
from connect_specs.diagnostics import ConnectError, Unreachable

_PASSING_CODES = frozenset({UNREACHABLE, "topic.slow"})


class Interrupted(Exception):
    """Kafka failed this attempt, not its task: it is launched again after a pause."""


@contextmanager
def kafka_may_interrupt() -> Iterator[None]:
    """Turns temporary errors of Kafka's clients inside the block into Interrupted.

    For blocks that call Kafka and none of the task's code.
    """
    try:
        yield
    except KafkaException as raised:
        error = error_of(raised)
        if not passes(error):
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
