"""Turns Kafka's errors about undelivered records into the error that ends the attempt.

It is Fenced, Interrupted, or a failure with the most specific reason. After a failure librdkafka
answers most calls only with the fact that there was one; the reason is in delivery reports.
"""

from __future__ import annotations

from collections.abc import Callable
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
    error_of,
    passes,
    reason,
)
from connect_runtime.storage.log import Fenced
from connect_runtime.tasks.interrupted import Interrupted
from connect_specs.diagnostics import Diagnostic

_ASK_TIMEOUT_S: Final = 5.0
_KEPT: Final = 10
# What calls to a producer raise. Use error_in() to find the cause.
RAISED: Final = (KafkaException, SystemError)


class BatchTooLarge(ConnectorError):
    """Kafka refused a batch of records because of its size: each by itself may be small enough."""


class SendFailures:
    """Collects the failures of one producer: its `on_delivery` and its `error_cb`. `fewer` says
    which of its topics lost partitions."""

    def __init__(self, fewer: Callable[[Producer], str | None] = lambda producer: None) -> None:
        self._fewer = fewer
        self._found: list[tuple[KafkaError, str | None]] = []
        self._refusal: KafkaError | None = None

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        """Handles a delivery report."""
        # purged records failed because of another record
        if error is None or error.code() in PURGED:
            return
        if error.code() == OTHER_REFUSED and self._found:
            return
        if len(self._found) < _KEPT:
            self._found.append((error, message.topic()))

    def erred(self, error: KafkaError) -> None:
        """Handles a connection error. A refused login makes all calls time out without giving a
        reason."""
        if error.code() in AUTHENTICATION:
            self._refusal = error

    def __bool__(self) -> bool:
        return bool(self._found)

    def clear(self) -> None:
        self._found.clear()
        self._refusal = None

    def failure(self, error: KafkaError | None, producer: Producer) -> Exception:
        """Returns what to raise after `error`, or after delivery reports alone.

        Fenced if a newer producer has the transactional id; Interrupted for temporary errors;
        BatchTooLarge; else ConnectorError.
        """
        try:
            producer.poll(0)  # handles pending reports
        except RAISED as fatal:
            self._found.append((error_in(fatal), None))
        found = [*self._found, *([] if error is None else [(error, None)])]
        if any(each.code() in FENCED for each, _ in found):
            return fenced()
        # lasting errors come before temporary ones: a lasting failure makes others time out
        found.sort(key=lambda each: (passes(each[0]), each[0].code() == OTHER_REFUSED))
        telling, topic = found[0]
        if telling.code() in NO_SUCH_TOPIC:
            fewer = self._fewer(producer)
            if fewer is not None:
                return Interrupted(fewer)
        if topic is not None and telling.code() in _MAY_BE_DELETED and _is_gone(topic, producer):
            return ConnectorError(
                f"Topic {topic} does not exist, or not any more: what was not committed yet could"
                " not be delivered. Create the topic and restart the task, or change the"
                " connector's config; the task then goes on after its last commit."
            )
        if self._refusal is not None:
            return ConnectorError(f"Kafka refuses the login: {reason(self._refusal)}")
        if passes(telling):
            return Interrupted(f"Kafka interrupted this attempt: {reason(telling)}")
        text = f"Unrecoverable exception trying to send: {reason(telling)}"
        together = sum(each.code() == TOO_LARGE and topic is not None for each, topic in found)
        return BatchTooLarge(text) if together > 1 else ConnectorError(text)


def error_in(raised: BaseException) -> KafkaError:
    """Returns the error of a producer's call.

    A fatal error that arrives together with delivery reports is wrapped in a SystemError: the
    client library calls the reports' callback with an exception already set.
    """
    found = raised if isinstance(raised, KafkaException) else raised.__cause__
    if isinstance(found, KafkaException):
        return error_of(found)
    raise raised


def fenced() -> Fenced:
    """Returns the error for a newer producer with the same transactional id."""
    what = (
        "another producer has taken over this task's transactional id, or Kafka has aborted its"
        " transaction, which was open for longer than transaction.timeout.ms"
    )
    return Fenced(Diagnostic(code="task.fenced", what=what))


_MAY_BE_DELETED: Final = SILENT | NO_SUCH_TOPIC | {KafkaError._MSG_TIMED_OUT}  # noqa: SLF001


def _is_gone(topic: str, producer: Producer) -> bool:
    """Whether Kafka has no such topic. Asks for all topics: asking for one may create it."""
    try:
        return topic not in producer.list_topics(timeout=_ASK_TIMEOUT_S).topics
    except KafkaException:
        return False
