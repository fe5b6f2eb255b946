"""What a task says about itself in the status topic.

A source task writes this in its own transactions, so that a zombie cannot; this file also has the
plain way, for tasks without such a producer. It opens a producer for one record: states change
rarely, and an idle client for each of hundreds of tasks costs more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from connect_runtime.kafka import clients
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import State, Status
from connect_runtime.storage.status_topic import task_record, topic_in_use_record
from connect_runtime.tasks import client_properties
from connect_runtime.tasks.launch import TaskLaunch
from connect_runtime.traces import trace_text
from connect_specs.redaction import Redactor, secrets_in

_WRITE_TIMEOUT_S: Final = 10.0


class Reporter:
    """Makes and writes the status records of one attempt."""

    def __init__(self, launch: TaskLaunch) -> None:
        self._launch = launch
        self._topics: set[str] = set()
        self._tracking = launch.worker.get("topic.tracking.enable", "true").lower() == "true"
        self.version: str | None = None
        self.trace: str | None = None

    def record(self, state: State, trace: str | None = None) -> NewRecord:
        """Says that the task is in `state`."""
        launch = self._launch
        status = Status(
            state=state,
            worker_id=launch.worker_id,
            generation=launch.leader_term,
            trace=trace,
            version=self.version,
        )
        return task_record(launch.topics.status, launch.id, status)

    def failure(self, error: BaseException) -> NewRecord:
        """Says that the task failed; `trace` is then what was said."""
        self.trace = trace_of(error, self._launch)
        return self.record(State.FAILED, self.trace)

    def new_topics(self, topics: Iterable[str]) -> list[NewRecord]:
        """Records for topics that this attempt uses for the first time; none if tracking is off."""
        found = [t for t in topics if t not in self._topics]
        if not self._tracking or not found:
            return []
        self._topics.update(found)
        launch = self._launch
        return [
            topic_in_use_record(
                launch.topics.status,
                topic,
                launch.id.connector,
                task=launch.id.task,
                discovered_ms=int(time.time() * 1000),
            )
            for topic in found
        ]

    def write(self, *records: NewRecord) -> None:
        """Writes records outside any transaction. Raises KafkaException."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failed.append(error)

        properties = client_properties.control(self._launch, "statuses")
        producer = clients.producer(
            properties,
            {"acks": "all", "message.timeout.ms": int(_WRITE_TIMEOUT_S * 1000), "linger.ms": 0},
        )
        for record in records:
            producer.produce(record.topic, record.value, record.key, on_delivery=delivered)
        # longer than a message may take: each of them has been answered by then
        producer.flush(_WRITE_TIMEOUT_S + 1)
        if failed:
            raise KafkaException(failed[0])


def trace_of(error: BaseException, launch: TaskLaunch) -> str:
    """The traceback's text without the secrets of the task's configs and without what config
    providers gave. What other code derives from a secret gets past this."""
    configs = (launch.config, launch.connector_config, launch.worker)
    secrets = (secret for config in configs for secret in secrets_in(config))
    return trace_text(error, Redactor((*launch.given, *secrets)))
