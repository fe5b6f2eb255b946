"""Writes messages that failed to a dead letter queue, as they were read (KIP-298).

With `errors.deadletterqueue.context.headers.enable`, headers describe the failure. They are added
to those that the message has: a message that fails twice has two sets.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from connect_runtime.api import ConnectorError
from connect_runtime.errors.handler import Failure, RetriesEnded, Stage, Wait
from connect_runtime.kafka.errors import reason
from connect_runtime.metrics.task_metrics import TaskMetrics

_PREFIX: Final = "__connect.errors."
_ROOM_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class FailureHeaders:
    """The headers of failed messages of one task. `text` and `trace` render an error without
    secrets."""

    connector: str
    task: int
    text: Callable[[BaseException], str]
    trace: Callable[[BaseException], str]

    def of(self, failure: Failure) -> list[tuple[str, bytes | None]]:
        """Returns the headers in Connect's order, all as text in UTF-8."""
        message, error = failure.record, failure.error
        cls = type(error)
        class_name = getattr(cls, "java_class", f"{cls.__module__}.{cls.__qualname__}")
        texts = {
            "topic": message.topic(),
            "partition": str(message.partition()),
            "offset": str(message.offset()),
            "connector.name": self.connector,
            "task.id": str(self.task),
            "stage": failure.stage.name,
            "class.name": failure.class_name,
            "exception.class.name": str(class_name),
            "exception.message": self.text(error) if str(error) else None,
            "exception.stacktrace": self.trace(error),
        }
        return [
            (f"{_PREFIX}{name}", None if text is None else text.encode("utf-8", "replace"))
            for name, text in texts.items()
        ]


class _Sent(Future[None]):
    """A future that is done when Kafka has the message. Waiting for its result ends when the task
    is to end."""

    def __init__(self, wait: Callable[[Callable[[], bool], float], None]) -> None:
        super().__init__()
        self._wait = wait

    def result(self, timeout: float | None = None) -> None:
        """Waits. Raises TimeoutError after so many seconds, and RetriesEnded if the task is to
        end."""
        self._wait(self.done, math.inf if timeout is None else timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits as `result` does, and returns what that would raise about the message."""
        self._wait(self.done, math.inf if timeout is None else timeout)
        return super().exception(0)

    def cancel(self) -> bool:
        """Returns False, as Kafka's own producers do: the message is on its way."""
        return False


class DeadLetterQueue:
    """The queue of one sink task. Errors of Kafka are kept until `wait`.

    `pause(0)` is False once the task is to end. Then nothing waits for room or for Kafka:
    RetriesEnded is raised, and no offsets may be committed any more.
    """

    def __init__(
        self,
        topic: str,
        producer: Producer,
        added_headers: FailureHeaders | None,
        pause: Wait,
        metrics: TaskMetrics | None = None,
    ) -> None:
        self._topic = topic
        self._producer = producer
        self._added_headers = added_headers
        self._pause = pause
        self._metrics = metrics or TaskMetrics()
        self._failed: KafkaError | None = None
        self._gave_up = False
        self._owner = threading.get_ident()
        self._lock = threading.Lock()
        self._is_served = False  # on a thread of its own
        self._closed = False

    def report(self, failure: Failure) -> Future[None]:
        """Sends the message. The result is done when Kafka has it, or has refused it. Raises
        RetriesEnded if there is no room for it and the task is to end."""
        sent = _Sent(self._until)

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is None:
                sent.set_result(None)
                return
            self._failed = self._failed or error
            self._metrics.count("deadletterqueue_produce_failures")
            sent.set_exception(_refused(self._topic, error))

        self._metrics.count("deadletterqueue_produce_requests")
        message = failure.record
        headers = list(message.headers() or ())
        if self._added_headers is not None:
            headers += self._added_headers.of(failure)
        type_, timestamp = message.timestamp()
        more = {"timestamp": timestamp} if type_ and timestamp > 0 else {}
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=message.key(),
                    value=message.value(),
                    headers=headers,
                    on_delivery=delivered,
                    **more,
                )
                break
            except BufferError:  # as much as fits waits for Kafka
                self._serve()
            except KafkaException as error:
                delivered(error.args[0], None)
                break
        self._producer.poll(0)
        if failure.stage is Stage.TASK_PUT and not sent.done():
            self._serve_in_thread()
        return sent

    def serve(self) -> None:
        """Completes the reports that Kafka has answered."""
        self._producer.poll(0)

    def wait(self, timeout_s: float) -> bool:
        """Waits until Kafka has everything. Returns False if it has not in time, or if a report was
        given up because of a stop. Raises ConnectorError if it refused a message."""
        unanswered: int = self._producer.flush(0 if self._gave_up else timeout_s)
        if self._failed is not None:
            raise _refused(self._topic, self._failed)
        return unanswered == 0 and not self._gave_up

    def _serve_in_thread(self) -> None:
        """Serves the producer on a thread until Kafka has answered all: a task may wait for its
        reports in a way that does not serve it, such as `concurrent.futures.wait`."""
        with self._lock:
            if self._is_served:
                return
            self._is_served = True
        threading.Thread(
            target=self._serve_all, args=(self._producer,), name="dead-letters", daemon=True
        ).start()

    def _serve_all(self, producer: Producer) -> None:
        while True:
            producer.poll(_ROOM_S)
            with self._lock:
                if self._closed or not len(producer):
                    self._is_served = False
                    return

    def close(self) -> None:
        """Ends the producer; nothing may follow. An error's traceback may outlive the task and
        refer to this queue."""
        with self._lock:
            self._closed = True
        del self._producer

    def _until(self, done: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not done() and time.monotonic() < deadline:
            self._serve()

    def _serve(self) -> None:
        """Waits a moment for Kafka's answers. Raises RetriesEnded if the task is to end. Only the
        task's own thread may ask for that, and not those that a task may have."""
        self._producer.poll(_ROOM_S)
        if threading.get_ident() == self._owner and not self._pause(0):
            self._gave_up = True
            raise RetriesEnded("The task is to end before Kafka has all reports")


def _refused(topic: str, error: KafkaError) -> ConnectorError:
    return ConnectorError(f"Could not write to the dead letter queue {topic}: {reason(error)}")
