"""Source tasks on a real broker: exactly once, one attempt at a time."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_runtime import KAFKA_VERSION
from connect_runtime.spark.attempts import launch_json
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, TaskLaunch
from support.broker import produce
from support.wait import wait_until

TASK = TaskId("src", 0)
FILE_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"


def file_config(file: Path, topic: str, **more: str) -> dict[str, str]:
    return {"name": "src", "task.class": FILE_TASK, "file": str(file), "topic": topic, **more}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "in.txt"
    file.write_text("".join(f"line {i}\n" for i in range(10)))
    return file


LINES = [f"line {i}" for i in range(10)]


def test_lines_offsets_and_status(cluster: Any, topic: Callable[[int], str], source: Path) -> None:
    cluster.assign(TASK, 1)
    running = cluster.run(cluster.launch(TASK, file_config(source, topic(1))))

    wait_until(lambda: cluster.values() == LINES, what="all lines")
    cluster.wait_for_state(TASK, "RUNNING")
    wait_until(lambda: "polled" in cluster.status(TASK), what="it to say that it has polled")
    assert cluster.status(TASK) == {
        "state": "RUNNING", "trace": None, "worker_id": "host:8083", "generation": 7,
        "version": KAFKA_VERSION, "attempt": 1, "polled": True,
    }  # fmt: skip
    key = f'["src",{{"filename":"{source}"}}]'
    assert cluster.newest(cluster.topics.offsets) == {key: {"position": 70}}
    in_use = cluster.newest(cluster.topics.status)[f"status-topic-{cluster.data}:connector-src"]
    assert in_use["topic"].items() >= {"name": cluster.data, "connector": "src", "task": 0}.items()

    running.stop()
    assert cluster.status(TASK)["state"] == "UNASSIGNED"


def test_it_goes_on_where_it_stopped(cluster: Any, topic: Any, source: Path) -> None:
    config = file_config(source, topic(1))
    for attempt in (1, 2):
        cluster.assign(TASK, attempt)
        running = cluster.run(cluster.launch(TASK, config, attempt))
        cluster.wait_for_state(TASK, "RUNNING")
        wait_until(lambda: len(cluster.values()) == 10 * attempt, what="all lines")  # noqa: B023
        running.stop()
        with source.open("a") as more:
            more.writelines(f"{line}\n" for line in LINES)
    assert cluster.values() == LINES * 2


def test_stored_key_bytes_are_written_again(cluster: Any, topic: Any, source: Path) -> None:
    key = f'["src", {{"filename": "{source}"}}]'.encode()
    produce(cluster.bootstrap_servers, cluster.topics.offsets, [(key, b'{"position":63}')])
    cluster.assign(TASK, 1)
    cluster.run(cluster.launch(TASK, file_config(source, topic(1))))

    wait_until(lambda: cluster.values() == LINES[9:], what="the last line")
    assert cluster.newest(cluster.topics.offsets) == {key.decode(): {"position": 70}}


@pytest.mark.parametrize(
    ("newest", "ended"), [((2, "running"), AttemptEnd.SUPERSEDED), ((None,), AttemptEnd.STOPPED)]
)
def test_a_late_attempt_does_nothing(
    cluster: Any, topic: Any, source: Path, newest: tuple[Any, ...], ended: AttemptEnd
) -> None:
    cluster.assign(TASK, 1)
    cluster.assign(TASK, *newest)
    running = cluster.run(cluster.launch(TASK, file_config(source, topic(1))))

    assert running.outcome().ended is ended
    assert cluster.values() == []
    assert cluster.newest(cluster.topics.status) == {}


def test_an_attempt_that_was_never_assigned_does_nothing(
    cluster: Any, topic: Any, source: Path
) -> None:
    running = cluster.run(cluster.launch(TASK, file_config(source, topic(1))))

    assert running.outcome().ended is AttemptEnd.SUPERSEDED


def test_a_running_attempt_ends_when_another_is_assigned(
    cluster: Any, topic: Any, source: Path
) -> None:
    cluster.assign(TASK, 1)
    running = cluster.run(cluster.launch(TASK, file_config(source, topic(1))))
    cluster.wait_for_state(TASK, "RUNNING")
    cluster.assign(TASK, 2)

    assert running.outcome().ended is AttemptEnd.SUPERSEDED
    assert cluster.status(TASK)["state"] == "RUNNING"


def test_pause_and_resume(cluster: Any, topic: Any, source: Path) -> None:
    cluster.assign(TASK, 1, "paused")
    cluster.run(cluster.launch(TASK, file_config(source, topic(1))))
    cluster.wait_for_state(TASK, "PAUSED")
    assert cluster.values() == []

    cluster.assign(TASK, 1, "running")
    cluster.wait_for_state(TASK, "RUNNING")
    wait_until(lambda: cluster.values() == LINES, what="all lines")
    cluster.assign(TASK, 1, "paused")
    cluster.wait_for_state(TASK, "PAUSED")
    with source.open("a") as more:
        more.write("while paused\n")
    cluster.assign(TASK, 1, "running")
    wait_until(lambda: cluster.values() == [*LINES, "while paused"], what="the last line")


def test_an_orphan_commits_and_ends(cluster: Any, topic: Any, source: Path) -> None:
    cluster.assign(TASK, 1)
    running = cluster.run(cluster.launch(TASK, file_config(source, topic(1))))
    wait_until(lambda: cluster.values() == LINES, what="all lines")
    running.orphan.set()

    assert running.outcome().ended is AttemptEnd.ORPHANED


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"task.class": "no.such.Task"}, "Class no.such.Task could not be found"),
        ({"topic": ""}, "String must be non-empty"),
        ({"value.converter": "bogus"}, "Class bogus could not be found."),
        ({"transaction.timeout": "x", "producer.override.transaction.timeout.ms": "99999999"}, ""),
    ],
)
def test_a_failure_is_told_with_its_trace(
    cluster: Any, topic: Any, source: Path, more: Mapping[str, str], text: str
) -> None:
    cluster.assign(TASK, 1)
    config = file_config(source, topic(1)) | more | {"my.password": "s3cret"}
    running = cluster.run(cluster.launch(TASK, config))

    outcome = running.outcome()
    assert outcome.ended is AttemptEnd.FAILED
    assert outcome.trace is not None
    assert text in outcome.trace
    status = cluster.status(TASK)
    assert (status["state"], status["trace"]) == ("FAILED", outcome.trace)
    assert "s3cret" not in outcome.trace


def test_a_record_that_cannot_be_produced_fails_the_task(
    cluster: Any, topic: Any, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("small\n")
    cluster.assign(TASK, 1)
    running = cluster.run(cluster.launch(TASK, file_config(file, topic(1))))
    wait_until(cluster.values, what="the small line")
    with file.open("a") as more:
        more.write("x" * 2_000_000 + "\n")

    outcome = running.outcome()
    assert outcome.ended is AttemptEnd.FAILED
    assert "Message size too large" in (outcome.trace or "")
    assert cluster.status(TASK)["state"] == "FAILED"
    assert cluster.values() == ["small"]
    assert [o["position"] for o in cluster.newest(cluster.topics.offsets).values()] == [6]


def test_it_may_not_write_to_its_offsets_topic(cluster: Any, source: Path) -> None:
    cluster.assign(TASK, 1)
    running = cluster.run(cluster.launch(TASK, file_config(source, cluster.topics.offsets)))

    assert "may not produce to their own offsets topics" in (running.outcome().trace or "")


CHILD = """
import os, sys, threading, time
from connect_runtime.agent import client
from connect_runtime.agent.node import kafka_service
from connect_runtime.agent.server import AgentServer
from connect_runtime.spark.attempts import launch_from_json
from connect_runtime.tasks.source import transactions
from connect_runtime.tasks.run import run_task

given = launch_from_json(sys.stdin.buffer.readline())
agent = AgentServer(client.open_door(), kafka_service, lambda: False, 99)
threading.Thread(target=agent.serve, daemon=True).start()
transactions._SHARED_S = 0  # each poll is a transaction
real, done = transactions.Transactions._call, []

def call(self, function, deadline):
    code = getattr(function, "__code__", None)
    if code is not None and "commit_transaction" in code.co_names:
        if len(done) == 2:
            self._producer.flush()  # everything is in the log, and nothing of it is committed
            print("before commit", flush=True)
            time.sleep(600)
        done.append(1)
    real(self, function, deadline)

transactions.Transactions._call = call
run_task(given, lambda: False)
"""


@contextmanager
def child_before_commit(script: str, launch: TaskLaunch) -> Iterator[subprocess.Popen[bytes]]:
    """Yields a process that runs the launch and waits inside its first transaction."""
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        child.stdin.write(launch_json(launch).encode() + b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"before commit\n"
        yield child


def test_exactly_once_across_a_kill_inside_a_transaction(
    cluster: Any, topic: Any, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    lines = [f"line {i}" for i in range(50_000)]
    file.write_text("".join(f"{line}\n" for line in lines))
    launch = cluster.launch(TASK, file_config(file, topic(1)))
    cluster.assign(TASK, 1)
    with child_before_commit(CHILD, launch) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
    before = cluster.values()
    assert before == lines[: len(before)]
    assert 0 < len(before) < len(lines)

    cluster.assign(TASK, 2)
    cluster.run(replace(launch, attempt=2))
    wait_until(lambda: len(cluster.values()) >= len(lines), what="the rest")
    assert cluster.values() == lines


ZOMBIE = (
    CHILD.replace("time.sleep(600)", "sys.stdin.buffer.readline()")
    .replace("run_task(", "print(run_task(")
    .replace("lambda: False)", "lambda: False).ended, flush=True)")
)


def test_a_zombie_is_fenced_and_commits_nothing(cluster: Any, topic: Any, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    lines = [f"line {i}" for i in range(50_000)]
    file.write_text("".join(f"{line}\n" for line in lines))
    launch = cluster.launch(TASK, file_config(file, topic(1)))
    cluster.assign(TASK, 1)
    with child_before_commit(ZOMBIE, launch) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        cluster.assign(TASK, 2)
        cluster.run(replace(launch, attempt=2))
        wait_until(lambda: cluster.values() == lines, what="the successor")
        child.stdin.write(b"go on\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"fenced\n"
        child.wait()
    assert cluster.values() == lines
    assert cluster.status(TASK)["state"] == "RUNNING"
