"""Turns errors of Kafka into the error that ends an attempt, and keeps them apart from the task's.

A failure that passes by itself (a silent broker, a moving coordinator, a partition without a
leader) interrupts the attempt but does not fail its task: it is launched again after a pause. A
failure that lasts until it is corrected (permissions, logins, settings, deleted topics) fails it.

The code that calls Kafka decides this, not the code that catches the error at the end: a task may
use its own Kafka clients, and their errors are the task's failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from connect_runtime.api import ConnectorError
from connect_runtime.kafka.errors import (
    AUTHENTICATION,
    FENCED,
    NO_SUCH_TOPIC,
    OTHER_REFUSED,
    PURGED,
    SILENT,
    TOO_LARGE,
    UNREACHABLE,
    error_of,
    passes,
    reason,
)
from connect_runtime.storage.log import Fenced, LogBlocked
from connect_specs.diagnostics import Diagnostic, Unreachable

_PASSING_CODES: Final = frozenset({UNREACHABLE, "topic.slow"})
_ASK_TIMEOUT_S: Final = 5.0
_MOST_FAILURES: Final = 10
_MAY_BE_DELETED: Final = SILENT | NO_SUCH_TOPIC | {KafkaError._MSG_TIMED_OUT}  # noqa: SLF001
# The errors that calls to a producer raise. Use error_in() to find the cause.
RAISED: Final = (KafkaException, SystemError)


class Interrupted(Exception):
    """Kafka failed this attempt, not its task, or its JVM has ended: it is launched again after a
    pause. `killed`: a signal from outside ended the JVM of a task that ran."""

    def __init__(self, text: str = "", *, killed: bool = False) -> None:
        super().__init__(text)
        self.killed = killed


class BatchTooLarge(ConnectorError):
    """Kafka refused a batch of records because of its size: each by itself may be small enough."""


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
    except LogBlocked as error:
        raise Interrupted(f"Kafka interrupted this attempt: {error}") from error
    except Unreachable as error:
        if not all(diagnostic.code in _PASSING_CODES for diagnostic in error.diagnostics):
            raise
        raise Interrupted(f"Kafka interrupted this attempt: {error}") from error


class SendFailures:
    """Collects the failures of one producer: its `on_delivery` and its `error_cb`.

    After a failure librdkafka answers most calls only with the fact that there was one; the reason
    is in delivery reports. `fewer` names a topic that lost partitions.
    """

    def __init__(self, fewer: Callable[[Producer], str | None] = lambda producer: None) -> None:
        self._fewer = fewer
        self._failures: list[tuple[KafkaError, str | None]] = []
        self._refused_login: KafkaError | None = None

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        """Handles a delivery report."""
        # purged records failed because of another record
        if error is None or error.code() in PURGED:
            return
        if error.code() == OTHER_REFUSED and self._failures:
            return
        if len(self._failures) < _MOST_FAILURES:
            self._failures.append((error, message.topic()))

    def erred(self, error: KafkaError) -> None:
        """Handles a connection error. A refused login makes all calls time out without giving a
        reason."""
        if error.code() in AUTHENTICATION:
            self._refused_login = error

    def __bool__(self) -> bool:
        return bool(self._failures)

    def clear(self) -> None:
        self._failures.clear()
        self._refused_login = None

    def failure(self, error: KafkaError | None, producer: Producer) -> Exception:
        """Returns the error to raise after `error`, or after delivery reports alone.

        Fenced if a newer producer has the transactional id; Interrupted for temporary errors;
        BatchTooLarge; else ConnectorError.
        """
        try:
            producer.poll(0)  # handles pending reports
        except RAISED as fatal:
            self._failures.append((error_in(fatal), None))
        failures = [*self._failures, *([] if error is None else [(error, None)])]
        if any(failure.code() in FENCED for failure, _ in failures):
            return _fenced()
        # lasting errors come before temporary ones: a lasting failure makes others time out
        failures.sort(key=lambda item: (passes(item[0]), item[0].code() == OTHER_REFUSED))
        cause, topic = failures[0]
        if cause.code() in NO_SUCH_TOPIC:
            fewer = self._fewer(producer)
            if fewer is not None:
                return Interrupted(fewer)
        if topic is not None and cause.code() in _MAY_BE_DELETED and _is_gone(topic, producer):
            return ConnectorError(
                f"Topic {topic} does not exist, or not any more: what was not committed yet could"
                " not be delivered. Create the topic and restart the task, or change the"
                " connector's config; the task then goes on after its last commit."
            )
        if self._refused_login is not None:
            return ConnectorError(f"Kafka refuses the login: {reason(self._refused_login)}")
        if passes(cause):
            return Interrupted(f"Kafka interrupted this attempt: {reason(cause)}")
        text = f"Unrecoverable exception trying to send: {reason(cause)}"
        together = sum(
            failure.code() == TOO_LARGE and topic is not None for failure, topic in failures
        )
        return BatchTooLarge(text) if together > 1 else ConnectorError(text)


def error_in(raised: BaseException) -> KafkaError:
    """Returns the error of a producer's call.

    A fatal error that arrives together with delivery reports is wrapped in a SystemError: the
    client library calls the reports' callback with an exception already set.
    """
    cause = raised if isinstance(raised, KafkaException) else raised.__cause__
    if isinstance(cause, KafkaException):
        return error_of(cause)
    raise raised


def missing_right(transactional_id: str) -> str:
    """Returns the text of what an exactly-once source's login lacks."""
    return (
        f"It needs Write on the transactional id {transactional_id}. Allow it, or set"
        " exactly.once.source.support=disabled in the worker's file, and restart the task."
    )


def _fenced() -> Fenced:
    """Returns the error for a newer producer with the same transactional id."""
    text = (
        "another producer has taken over this task's transactional id, or Kafka has aborted its"
        " transaction, which was open for longer than transaction.timeout.ms"
    )
    return Fenced(Diagnostic(code="task.fenced", what=text))


def _is_gone(topic: str, producer: Producer) -> bool:
    """Returns True if Kafka has no such topic. Asks for all topics: asking for one may create
    it."""
    try:
        return topic not in producer.list_topics(timeout=_ASK_TIMEOUT_S).topics
    except KafkaException:
        return False
