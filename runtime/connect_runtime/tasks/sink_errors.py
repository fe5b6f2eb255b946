"""Sets up what a sink task does about failed records: its policy, reports and dead letter queue."""

from __future__ import annotations

from functools import partial
from typing import Final

from connect_runtime.api import ConnectorError
from connect_runtime.errors.dead_letters import Context, DeadLetterQueue
from connect_runtime.errors.handler import ErrorHandler, Reporter
from connect_runtime.errors.policy import DeadLetters
from connect_runtime.errors.task_reporter import TaskReporter
from connect_runtime.kafka import clients
from connect_runtime.kafka.new_topics import NewTopics
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.settings.topic_creation import NewTopicSettings, TopicCreation
from connect_runtime.tasks.interrupted import kafka_may_interrupt
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.made_message import made_message
from connect_runtime.tasks.retry_wait import RetryWait

_CLOSE_S: Final = 5.0
_QUEUE: Final = {"linger.ms": 5}


class SinkErrors:
    """Belongs to one task. Raises ConnectorError, or Interrupted, if the dead letter queue's topic
    neither exists nor can be created."""

    def __init__(
        self,
        setup: TaskSetup,
        wait: RetryWait,
        metrics: TaskMetrics,
    ) -> None:
        policy = setup.error_policy
        reporters: list[Reporter] = []
        self._queue: DeadLetterQueue | None = None
        if policy.dead_letters is not None:
            self._queue = _queue(setup, policy.dead_letters, wait, metrics)
            reporters.append(self._queue)
        reporters += setup.log_reporters(metrics)
        self.handler = ErrorHandler(policy, reporters, wait, metrics)
        made = partial(made_message, setup.converters)
        self.reporter = TaskReporter(self.handler, made) if reporters else None

    def check_put(self) -> None:
        """Call after each `put`. Raises what a report of the task failed with."""
        if self.reporter is not None:
            self.reporter.check()
        if self._queue is not None:
            self._queue.serve()

    def all_kept(self, timeout_s: float) -> bool:
        """Whether all reports are kept, so that offsets may be committed; waits for them. Raises
        ConnectorError if one cannot be."""
        return self._queue is None or self._queue.wait(timeout_s)

    def close(self) -> None:
        """Waits a moment for reports, also for that of the record that failed the task. Raises
        ConnectorError if one is not kept: it is made again when its record is read again."""
        try:
            if not self.all_kept(_CLOSE_S):
                raise ConnectorError("Kafka has not taken all of them")
        finally:
            if self._queue is not None:
                self._queue.close()


def _queue(
    setup: TaskSetup,
    letters: DeadLetters,
    wait: RetryWait,
    metrics: TaskMetrics,
) -> DeadLetterQueue:
    properties = setup.dead_letter_producer()
    settings = NewTopicSettings(1, letters.replication_factor, {})
    admin = setup.sink_clients.dead_letters_admin()
    try:
        with kafka_may_interrupt():
            NewTopics(admin, TopicCreation((), settings)).ensure(letters.topic)
    except ConnectorError as error:
        raise ConnectorError(
            f"Could not initialize dead letter queue with topic={letters.topic}"
        ) from error
    context = Context(setup.id.connector, setup.id.task, setup.text, setup.trace)
    producer = clients.producer(properties, _QUEUE)
    shown = context if letters.with_context else None
    return DeadLetterQueue(letters.topic, producer, shown, wait, metrics)
