"""Sink tasks while Kafka is silent: frozen, as a suspended machine is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.sink.consumer import SinkConsumer
from support.broker import create_topic, produce
from support.wait import wait_until

TASK = TaskId("snk", 0)
FILE_TASK = "org.apache.kafka.connect.file.FileStreamSinkTask"


@pytest.fixture(scope="module")
def frozen_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A Kafka of this file's own, to be frozen."""
    started = EmbeddedBroker.start(tmp_path_factory.mktemp("frozen"))
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def frozen(broker: EmbeddedBroker) -> Iterator[None]:
    """Kafka says nothing while the context lasts."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@pytest.fixture
def silent(frozen_broker: EmbeddedBroker, unique: str, make_cluster: Any) -> Iterator[Any]:
    """A Connect cluster on that Kafka, with a data topic of one partition."""
    made = make_cluster(frozen_broker.bootstrap_servers, unique)
    create_topic(made.bootstrap_servers, made.data)
    yield made
    made.close()


def filled(cluster: Any, *values: str) -> None:
    produce(cluster.bootstrap_servers, cluster.data, [(None, v.encode()) for v in values])


def config(cluster: Any, file: Path) -> Mapping[str, str]:
    return {"name": "snk", "task.class": FILE_TASK, "topics": cluster.data, "file": str(file)}


@pytest.mark.long
def test_a_sink_goes_on_after_a_silence(
    silent: Any, frozen_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """And its end is held up neither by the commit nor by leaving the group."""
    file = tmp_path / "out.txt"
    filled(silent, "a")
    silent.assign(TASK, 1)
    running = silent.run(silent.launch(TASK, config(silent, file)))
    wait_until(lambda: file.exists() and file.read_text() == "a\n", what="the record")
    with frozen(frozen_broker):
        running.thread.join(15)
        assert running.thread.is_alive()
    filled(silent, "b")
    # what is not committed may come again: its group has gone on without this task
    wait_until(lambda: file.read_text().split()[-1] == "b", what="what came after", timeout_s=60)

    with frozen(frozen_broker):
        running.orphan.set()
        began = time.monotonic()
        running.thread.join(60)
        assert not running.thread.is_alive()
        assert time.monotonic() - began < 30
    assert running.outcome().ended is AttemptEnd.ORPHANED


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        (KafkaError._TIMED_OUT, AttemptEnd.INTERRUPTED),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, AttemptEnd.INTERRUPTED),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, AttemptEnd.FAILED),
    ],
)
def test_a_silent_kafka_at_the_start_interrupts(
    silent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, ended: AttemptEnd
) -> None:
    made = SinkConsumer.__init__

    def with_a_failing_answer(self: Any, *args: Any, **more: Any) -> None:
        made(self, *args, **more)
        self._consumer = _Failing(self._consumer, code)

    monkeypatch.setattr(SinkConsumer, "__init__", with_a_failing_answer)
    silent.assign(TASK, 1)
    running = silent.run(silent.launch(TASK, config(silent, tmp_path / "out.txt")))

    assert running.outcome().ended is ended


class _Failing:
    """A consumer that cannot tell what is committed."""

    def __init__(self, consumer: Any, code: int) -> None:
        self._consumer, self._code = consumer, code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def committed(self, partitions: list[Any], timeout: float) -> Any:
        raise KafkaException(KafkaError(self._code))
