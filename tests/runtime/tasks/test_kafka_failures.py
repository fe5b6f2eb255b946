"""What passes by itself, and what stays until somebody acts.
Errors among a sink's messages end it only if they do not pass.
"""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from connect_runtime.kafka.errors import as_failure, passes
from connect_runtime.storage.log import Fenced, LogBlocked
from connect_runtime.tasks.kafka_failures import Interrupted, kafka_may_interrupt
from connect_runtime.tasks.sink.consumer import _without_errors
from connect_specs.diagnostics import Diagnostic, Unreachable

PASSES = [
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._DESTROY_BROKER,
    KafkaError._PARTIAL,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.CONCURRENT_TRANSACTIONS,
]
STAYS = [
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.PRODUCER_FENCED,
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
]


@pytest.mark.parametrize("code", PASSES)
def test_temporary_errors_interrupt(code: int) -> None:
    assert passes(KafkaError(code))
    with pytest.raises(Interrupted), kafka_may_interrupt():
        raise KafkaException(KafkaError(code))


@pytest.mark.parametrize("code", STAYS)
def test_lasting_errors_fail_the_task(code: int) -> None:
    assert not passes(KafkaError(code))
    with pytest.raises(KafkaException), kafka_may_interrupt():
        raise KafkaException(KafkaError(code))


@pytest.mark.parametrize(
    ("code", "interrupts"),
    [
        (KafkaError._TRANSPORT, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError._AUTHENTICATION, False),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
    ],
)
def test_errors_that_the_clients_edges_made(code: int, interrupts: bool) -> None:
    error = as_failure(KafkaError(code), "It cannot be read", "a-topic")
    with pytest.raises(Interrupted if interrupts else type(error)), kafka_may_interrupt():
        raise error


def test_a_topic_that_arrives_too_slowly_interrupts() -> None:
    with pytest.raises(Interrupted), kafka_may_interrupt():
        raise Unreachable(Diagnostic("topic.slow", "Kafka has not sent the records"))


def test_an_open_transaction_interrupts_and_a_newer_writer_does_not() -> None:
    with pytest.raises(Interrupted), kafka_may_interrupt():
        raise LogBlocked(Diagnostic("log.blocked", "hidden"))
    with pytest.raises(Fenced), kafka_may_interrupt():
        raise Fenced(Diagnostic("task.fenced", "newer"))


RECORD = Message("t", 0, 1, b"key", b"value")


def error(code: int) -> Message:
    return Message("t", 0, error=KafkaError(code))


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC])
def test_a_topic_that_does_not_exist_yet_is_waited_for(code: int) -> None:
    missing: list[str] = []
    assert _without_errors([RECORD, error(code), RECORD], missing.append) == [RECORD, RECORD]
    assert missing == ["t"]
    assert _without_errors([error(code)], missing.append) == []
    assert _without_errors([RECORD], missing.append) == [RECORD]
    assert missing == ["t", "t"]


def test_an_error_that_does_not_pass_is_raised() -> None:
    with pytest.raises(KafkaException) as raised:
        _without_errors([RECORD, error(KafkaError.TOPIC_AUTHORIZATION_FAILED)], [].append)
    assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
