"""Reports to a dead letter queue, from whichever thread of a task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Message

from connect_runtime.errors.dead_letters import DeadLetterQueue, FailureHeaders
from connect_runtime.errors.handler import Failure, Stage


class SlowProducer:
    """Has room for one message, which it delivers at the third poll."""

    def __init__(self) -> None:
        self._delivered: Callable[..., None] | None = None
        self._polls = 0

    def produce(self, topic: str, on_delivery: Callable[..., None], **message: Any) -> None:
        if self._delivered is not None:
            raise BufferError
        self._delivered, self._polls = on_delivery, 0

    def poll(self, timeout_s: float) -> int:
        self._polls += 1
        if self._delivered is not None and self._polls >= 3:
            delivered, self._delivered = self._delivered, None
            delivered(None, None)
        return 0

    def __len__(self) -> int:
        return int(self._delivered is not None)


def test_only_the_tasks_own_thread_looks_whether_the_task_is_to_end() -> None:
    """It reads the socket of the task's orders, which is one thread's."""
    asked: list[int] = []

    def pause(seconds: float) -> bool:
        asked.append(threading.get_ident())
        return True

    queue = DeadLetterQueue("dead", SlowProducer(), None, pause)  # type: ignore[arg-type]

    def report() -> None:
        message = Message("t", 0, 1, b"k", b"v")
        for _ in range(2):
            queue.report(Failure(Stage.VALUE_CONVERTER, "C", ValueError("bad"), message)).result(20)

    with ThreadPoolExecutor(1) as another:
        another.submit(report).result(20)
    assert asked == []
    report()
    assert set(asked) == {threading.get_ident()}


def test_half_of_a_surrogate_pair_in_an_error_is_a_question_mark() -> None:
    failure = Failure(Stage.TASK_PUT, "C", ValueError("a\udcff"), Message("t", 0, 1))

    headers = dict(FailureHeaders("c", 0, str, str).of(failure))
    assert headers["__connect.errors.exception.message"] == b"a?"
