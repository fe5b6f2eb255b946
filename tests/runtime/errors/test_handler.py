"""What follows from the error of a record: tolerance, retries, reports before the task fails."""

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from connect_runtime.api import ConnectorError, DataError, RetriableError
from connect_runtime.errors.handler import (
    DeadLetters,
    ErrorHandler,
    ErrorPolicy,
    Failure,
    RecordSkipped,
    RetriesEnded,
    Stage,
    pieces_of,
)

RAW = Message("t", 0, 5, value=b"v")
ALL = ErrorPolicy(tolerates_all=True)


class Noted:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []

    def report(self, failure: Failure) -> None:
        self.failures.append(failure)


def failing(*errors: Exception) -> Callable[[], str]:
    """An operation that raises these, one each time, and then succeeds."""
    left = list(errors)

    def operation() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return operation


def test_the_first_error_fails_the_task_after_it_was_reported() -> None:
    noted = Noted()
    error = DataError("bad")
    with pytest.raises(ConnectorError, match="Tolerance exceeded in error handler") as raised:
        ErrorHandler(None, [noted]).run(Stage.VALUE_CONVERTER, "p.C", failing(error), RAW)

    assert raised.value.__cause__ is error
    assert noted.failures == [Failure(Stage.VALUE_CONVERTER, "p.C", error, RAW)]


def test_a_tolerated_error_skips_the_record() -> None:
    noted = Noted()
    with pytest.raises(RecordSkipped):
        ErrorHandler(ALL, [noted]).run(Stage.TRANSFORMATION, "p.C", failing(ValueError("any")), RAW)

    assert len(noted.failures) == 1


@pytest.mark.parametrize("before", [(), (RetriableError("later"),)])
def test_a_lack_of_memory_is_no_error_of_the_record(before: tuple[Exception, ...]) -> None:
    """The trap: all further records would be skipped as well. Java's is no exception, either."""
    noted = Noted()
    policy = ErrorPolicy(tolerates_all=True, retry_timeout_s=10)
    handler = ErrorHandler(policy, [noted], lambda seconds: True)
    with pytest.raises(MemoryError):
        handler.run(Stage.VALUE_CONVERTER, "p.C", failing(*before, MemoryError()), RAW)

    assert noted.failures == []


def test_in_other_stages_only_temporary_errors_are_tolerated() -> None:
    noted = Noted()
    handler = ErrorHandler(ALL, [noted])
    with pytest.raises(ConnectorError, match="Unhandled exception in error handler"):
        handler.run(Stage.KAFKA_PRODUCE, "p.C", failing(DataError("bad")), RAW)
    assert noted.failures == []
    with pytest.raises(RecordSkipped):
        handler.run(Stage.KAFKA_PRODUCE, "p.C", failing(RetriableError("busy")), RAW)


def test_a_temporary_error_is_tried_again_with_growing_delays() -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return True

    errors = [RetriableError(str(n)) for n in range(4)]
    handler = ErrorHandler(ErrorPolicy(retry_timeout_s=3600, retry_delay_max_s=2), (), wait)

    assert handler.run(Stage.KEY_CONVERTER, "p.C", failing(*errors), RAW) == "done"
    assert waits[:3] == [0.3, 0.6, 1.2]
    assert 0 <= waits[3] < 2  # 2.4 s would be above the limit


def test_a_retry_ends_with_another_error() -> None:
    noted = Noted()
    handler = ErrorHandler(
        ErrorPolicy(tolerates_all=True, retry_timeout_s=9), [noted], lambda _: True
    )
    bad = DataError("bad")
    with pytest.raises(RecordSkipped):
        handler.run(Stage.KEY_CONVERTER, "p.C", failing(RetriableError("busy"), bad), RAW)

    assert [failure.error for failure in noted.failures] == [bad]


def test_retries_end_with_their_time() -> None:
    handler = ErrorHandler(ErrorPolicy(retry_timeout_s=0.05))

    def busy() -> None:
        raise RetriableError("busy")

    with pytest.raises(ConnectorError, match="Tolerance exceeded") as raised:
        handler.run(Stage.KEY_CONVERTER, "p.C", busy, RAW)
    assert isinstance(raised.value.__cause__, RetriableError)


def test_a_stop_ends_retries_without_a_report() -> None:
    noted = Noted()
    handler = ErrorHandler(
        ErrorPolicy(tolerates_all=True, retry_timeout_s=9), [noted], lambda _: False
    )
    with pytest.raises(RetriesEnded):
        handler.run(Stage.KEY_CONVERTER, "p.C", failing(RetriableError("busy")), RAW)
    assert noted.failures == []


def test_the_policy_of_a_config() -> None:
    assert ErrorPolicy.of({}) == ErrorPolicy()
    assert ErrorPolicy.of(
        {
            "errors.tolerance": "ALL",
            "errors.retry.timeout": "1500",
            "errors.retry.delay.max.ms": "250",
            "errors.log.enable": "true",
            "errors.log.include.messages": "TRUE",
            "errors.deadletterqueue.topic.name": " dead ",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
    ) == ErrorPolicy(
        tolerates_all=True,
        retry_timeout_s=1.5,
        retry_delay_max_s=0.25,
        logs=True,
        logs_messages=True,
        dead_letters=DeadLetters("dead", 1, with_context=True),
    )
    assert ErrorPolicy.of({"errors.retry.timeout": "-1"}).retry_timeout_s == float("inf")


@pytest.mark.parametrize("bad", [{0}, {999}, {17, 18, 500}, set(range(1000)), set()])
def test_pieces_are_all_but_the_bad_records(bad: set[int]) -> None:
    calls = 0

    def convert(begin: int, end: int) -> list[int]:
        nonlocal calls
        calls += 1
        if bad.intersection(range(begin, end)):
            raise DataError("bad")
        return list(range(begin, end))

    pieces = list(pieces_of(0, 1000, convert))

    assert [n for n, piece in pieces if piece is None] == sorted(bad)
    good = [n for _, piece in pieces if piece is not None for n in piece]
    assert good == [n for n in range(1000) if n not in bad]
    assert calls <= 1 + 50 * max(1, len(bad))
