"""What a sink's consumer makes of errors among messages."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from connect_runtime.tasks.sink.consumer import _without_errors

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
