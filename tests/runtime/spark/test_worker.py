"""What a worker answers to an envelope before any task runs.
The process that tasks are forked from prepares all of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect_runtime.spark import worker
from connect_runtime.spark.attempts import (
    ENVELOPE,
    SECRET,
    ProcessLease,
    envelope_json,
    new_key,
    outcome_from_json,
)
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from runtime.spark.bodies import launch


@dataclass
class Context:
    """Stands in for Spark's TaskContext."""

    envelope: str
    number: int = 0

    def getLocalProperty(self, key: str) -> str | None:
        return self.envelope if key == ENVELOPE else None

    def attemptNumber(self) -> int:
        return self.number


def _never(given: TaskLaunch, orphaned: Callable[[], bool]) -> Outcome:
    raise AssertionError("the task began")


def _answer(context: Context, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(worker.TaskContext, "get", lambda: context)
    return outcome_from_json(next(iter(worker.run_partition([None], _never))))


def test_a_second_try_of_sparks_own_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    envelope = envelope_json(launch("c", attempt=7), new_key(), None)
    found = _answer(Context(envelope, number=1), monkeypatch)
    assert (found.attempt, found.ended, found.dead) == (7, AttemptEnd.LOST, False)


def test_the_partition_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark ends a worker that leaves some unread as a broken one."""
    context = Context(envelope_json(launch("c"), new_key(), None), number=1)
    monkeypatch.setattr(worker.TaskContext, "get", lambda: context)
    partition = iter([None])
    assert len(list(worker.run_partition(partition, _never))) == 1
    assert list(partition) == []


def test_an_attempt_whose_lease_is_over_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = ProcessLease(tmp_path)
    assert lease.over()
    envelope = envelope_json(launch("c"), new_key(), str(lease.path))
    found = _answer(Context(envelope), monkeypatch)
    assert found.ended is AttemptEnd.ORPHANED


def test_a_launch_that_cannot_be_read_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    envelope = envelope_json(launch("c", task=2, attempt=7), new_key(), None)
    monkeypatch.delenv(SECRET, raising=False)
    found = _answer(Context(envelope), monkeypatch)
    assert (found.id.task, found.attempt, found.ended) == (2, 7, AttemptEnd.FAILED)
    assert f"Neither {SECRET}" in str(found.trace)
    monkeypatch.setenv(SECRET, new_key())
    assert "another key" in str(_answer(Context(envelope), monkeypatch).trace)


def test_a_task_that_counts_nothing_publishes_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    news = iter([True, False, False, False, True])

    class Poll:
        def register(self, descriptor: int, events: int) -> None: ...

        def poll(self, wait_ms: float) -> None:
            waits.append(wait_ms / 1000)

    def publish() -> bool:
        new = next(news, None)
        watch._over = new is None
        return bool(new)

    monkeypatch.setattr(worker.select, "poll", Poll)
    watch = worker.OrphanWatch(publish)
    watch._watch()
    assert waits[:6] == [5, 5, 10, 20, 20, 5]
    assert not watch()


# Spark's own server would wait for Spark
_PREPARED = """
import os, sys
from connect_runtime.spark import daemon, node_watch
import pyspark.daemon
node_watch.start = lambda: None
pyspark.daemon.manager = lambda: None
daemon.main()
print(len(os.listdir("/proc/self/task")), *sys.modules)
before = set(sys.modules)
"utf-16".encode("utf-16-le")
from connect_runtime.kafka import clients
clients.producer({"bootstrap.servers": "127.0.0.1:1"})
print(*set(sys.modules) - before)
"""


def test_it_has_one_thread_and_all_modules_when_it_begins_to_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PREPARED], capture_output=True, text=True, timeout=60, check=True
    )
    prepared, later = done.stdout.splitlines()
    threads, *modules = prepared.split()
    assert threads == "1"
    assert {"connect_runtime.tasks.source.source_task", "connect_runtime.tasks.sink.sink_task"} <= {
        *modules
    }
    assert later == ""
    assert done.stderr == ""
