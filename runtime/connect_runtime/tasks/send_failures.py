"""What Kafka said about records that did not arrive, and what follows for the attempt.

Fenced, Interrupted, or a failure with the reason that tells most. librdkafka answers most calls
after a failure only with the fact that there was one; the reason is in delivery reports.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from connect_runtime.api import ConnectorError
from connect_runtime.kafka.errors import (
    AUTHENTICATION,
    FENCED,
    NO_SUCH_TOPIC,
    PURGED,
    SILENT,
    error_of,
    reason,
)
from connect_runtime.storage.log import Fenced
from connect_runtime.tasks.interrupted import Interrupted, is_interruption
from connect_specs.diagnostics import Diagnostic

_ASK_TIMEOUT_S: Final = 5.0
_KEPT: Final = 10
# What calls to a producer raise. Let error_in() tell what it was.
RAISED: Final = (KafkaException, SystemError)


class SendFailures:
    """Collects the failures of one producer: its `on_delivery` and its `error_cb`."""

    def __init__(self) -> None:
        self._found: list[tuple[KafkaError, str | None]] = []
        self._refusal: KafkaError | None = None

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        """A delivery report."""
        # what was purged failed for the reason of another record
        if error is not None and error.code() not in PURGED and len(self._found) < _KEPT:
            self._found.append((error, message.topic()))

    def erred(self, error: KafkaError) -> None:
        """An error of a connection. A refused login makes all calls time out, without a word."""
        if error.code() in AUTHENTICATION:
            self._refusal = error

    def __bool__(self) -> bool:
        return bool(self._found)

    def clear(self) -> None:
        self._found.clear()
        self._refusal = None

    def failure(self, error: KafkaError | None, producer: Producer) -> Exception:
        """What to raise after `error`, or after delivery reports alone.

        Fenced if a newer producer has the transactional id; Interrupted for what passes by itself;
        else ConnectorError.
        """
        try:
            producer.poll(0)  # takes in what has not been told yet
        except RAISED as fatal:
            self._found.append((error_in(fatal), None))
        found = [*self._found, *([] if error is None else [(error, None)])]
        if any(each.code() in FENCED for each, _ in found):
            return fenced()
        # what stays tells more than what passes: a lasting failure makes others time out
        found.sort(key=lambda each: is_interruption(each[0]))
        telling, topic = found[0]
        if topic is not None and telling.code() in _MAY_BE_DELETED and _is_gone(topic, producer):
            return ConnectorError(
                f"Topic {topic} was deleted while this task wrote to it: what was not committed"
                " yet could not be delivered. Create the topic again and restart the task, or"
                " change the connector's config; the task then goes on after its last commit."
            )
        if self._refusal is not None:
            return ConnectorError(f"Kafka refuses the login: {reason(self._refusal)}")
        if is_interruption(telling):
            return Interrupted(f"Kafka interrupted this attempt: {reason(telling)}")
        return ConnectorError(f"Unrecoverable exception trying to send: {reason(telling)}")


def error_in(raised: BaseException) -> KafkaError:
    """The error that a producer's call raised.

    A fatal error that arrives together with delivery reports comes wrapped in a SystemError: the
    client library calls the reports' callback with an exception already set.
    """
    found = raised if isinstance(raised, KafkaException) else raised.__cause__
    if isinstance(found, KafkaException):
        return error_of(found)
    raise raised


def fenced() -> Fenced:
    """Says that a newer producer has the transactional id."""
    what = (
        "another producer has taken over this task's transactional id, or Kafka has aborted its"
        " transaction, which was open for longer than transaction.timeout.ms"
    )
    return Fenced(Diagnostic(code="task.fenced", what=what))


_MAY_BE_DELETED: Final = SILENT | NO_SUCH_TOPIC | {KafkaError._MSG_TIMED_OUT}  # noqa: SLF001


def _is_gone(topic: str, producer: Producer) -> bool:
    """Whether Kafka says that it has no such topic. Asked for all: asking for one may create it."""
    try:
        return topic not in producer.list_topics(timeout=_ASK_TIMEOUT_S).topics
    except KafkaException:
        return False
