"""Statuses: by whom they are written, which attempt they are about, and what they may cost."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from connect_runtime.kafka.local_processes import free_port
from connect_runtime.storage.snapshots import State, TaskId
from connect_runtime.tasks.control.statuses import StatusReporter
from connect_runtime.tasks.control.worker_topics import WorkerTopics
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.task_setup import TaskSetup
from support.broker import read_to_end
from support.guarded_broker import GuardedBroker
from support.wait import wait_until

TASK = TaskId("src", 0)
FILE_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkTask"


def test_writing_never_waits_and_what_was_written_arrives_in_order(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = cluster.launch(TASK, {}, attempt=3)
    silent = replace(launch, worker={"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    reporter = StatusReporter(TaskSetup(silent))
    monkeypatch.setattr("connect_runtime.kafka.background_writer.TRY_S", 2.0)
    monkeypatch.setattr("connect_runtime.tasks.control.statuses._CLOSE_S", 1.0)
    before = time.monotonic()
    for _ in range(10):
        reporter.write(reporter.record(State.RUNNING))
    # to wait for each would be 20 s
    assert time.monotonic() - before < 10

    reporter.close()
    assert time.monotonic() - before < 15

    reporter = StatusReporter(TaskSetup(launch))
    for state in (State.RUNNING, State.PAUSED, State.RUNNING, State.UNASSIGNED):
        reporter.write(reporter.record(state))
    reporter.close()
    status = cluster.status(TASK)
    assert (status["state"], status["attempt"], status["generation"]) == ("UNASSIGNED", 3, 7)
    # nothing of it stays behind, not even of the one that Kafka never answered
    wait_until(
        lambda: not [t for t in threading.enumerate() if t.name == "statuses"],
        what="both threads to end",
    )


def test_a_writer_that_breaks_is_replaced_for_the_next_status(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin may have left the process without memory for a while."""
    tries: list[Any] = []
    real = WorkerTopics.write_status

    def first_breaks(self: WorkerTopics, record: Any) -> Any:
        tries.append(record)
        if len(tries) == 1:
            raise MemoryError
        return real(self, record)

    monkeypatch.setattr(WorkerTopics, "write_status", first_breaks)
    reporter = StatusReporter(cluster.setup(TASK, {}))
    reporter.write(reporter.record(State.RUNNING))
    wait_until(lambda: reporter._writing is None, what="the first writer to break")
    reporter.write(reporter.record(State.PAUSED))
    reporter.close()
    assert cluster.status(TASK)["state"] == "PAUSED"


@pytest.mark.parametrize("states", [[State.RUNNING, State.PAUSED], [State.PAUSED]])
def test_a_writer_that_gets_no_thread_is_started_with_the_next_status_or_at_the_end(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, states: list[State]
) -> None:
    """The last status of a task says why it failed."""

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    reporter = StatusReporter(cluster.setup(TASK, {}))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        reporter.write(reporter.record(states[0]))
    for state in states[1:]:
        reporter.write(reporter.record(state))
    reporter.close()
    assert cluster.status(TASK)["state"] == "PAUSED"


def test_a_status_that_cannot_be_written_stops_no_records(
    cluster: Any, topic: Any, tmp_path: Any
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("a\nb\n")
    cluster.assign(TASK, 1)
    config = {"name": "src", "task.class": FILE_TASK, "file": str(file), "topic": topic(1)}
    launch = cluster.launch(TASK, config)
    missing = replace(launch.topics, status=f"{cluster.name}-no-such\x7ftopic")
    running = cluster.run(replace(launch, topics=missing))

    wait_until(lambda: cluster.values() == ["a", "b"], what="records")
    running.stop()


def test_topics_are_recorded_again_after_the_leader_forgot_them(
    cluster: Any, topic: Any, tmp_path: Any
) -> None:
    file, out = tmp_path / "in.txt", tmp_path / "out.txt"
    file.write_text("a\n")
    data, sink = topic(1), TaskId("snk", 0)
    sink_config = {"task.class": FILE_SINK, "name": "snk", "topics": data, "file": str(out)}
    source_config = {"task.class": FILE_TASK, "name": "src", "topic": data, "file": str(file)}
    for task, config in ((TASK, source_config), (sink, sink_config)):
        cluster.assign(task, 1)
        cluster.run(cluster.launch(task, config))

    def recorded() -> dict[str, int]:
        """How often each connector's use of the topic was recorded."""
        found = read_to_end(cluster.bootstrap_servers, cluster.topics.status)
        keys = [message.key().decode() for message in found]
        wanted = {name: f"status-topic-{data}:connector-{name}" for name in ("src", "snk")}
        return {name: keys.count(key) for name, key in wanted.items()}

    wait_until(lambda: recorded() == {"src": 1, "snk": 1}, what="both to use the topic")

    def append(line: str) -> None:
        with file.open("a") as lines:
            lines.write(f"{line}\n")

    append("b")
    wait_until(lambda: out.read_text().endswith("b\n"), what="b")
    assert recorded() == {"src": 1, "snk": 1}

    # an assignment is repeated after the topics were forgotten
    cluster.assign(TASK, 1)
    cluster.assign(sink, 1)

    def recorded_again() -> bool:
        append("c")  # the earlier ones may have been on their way when the assignment came
        return recorded() == {"src": 2, "snk": 2}

    wait_until(recorded_again, what="both to use the topic again")


def test_only_the_newest_attempt_says_that_it_failed(
    cluster: Any, topic: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("a\n")

    def poll(self: Any) -> None:
        cluster.assign(TASK, 2)
        raise ValueError("the zombie fails")

    monkeypatch.setattr("connect_runtime.connectors.file_source.FileStreamSourceTask.poll", poll)
    cluster.assign(TASK, 1)
    config = {"name": "src", "task.class": FILE_TASK, "file": str(file), "topic": topic(1)}
    outcome = cluster.run(cluster.launch(TASK, config)).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    assert cluster.status(TASK)["state"] == "RUNNING"


def test_a_connectors_own_login_writes_no_status(
    guarded_cluster: Any, guarded: GuardedBroker, tmp_path: Any
) -> None:
    cluster = guarded_cluster
    file = tmp_path / "in.txt"
    file.write_text("a\nb\n")
    # the connector's user may write records, write and read offsets, and nothing else
    guarded.allow("reader", "TOPIC", cluster.data, "WRITE", "DESCRIBE", "CREATE")
    guarded.allow("reader", "TOPIC", cluster.topics.offsets, "WRITE", "DESCRIBE", "READ")
    guarded.allow("reader", "TRANSACTIONAL_ID", cluster.name, "WRITE", "DESCRIBE")
    own = {f"producer.override.{k}": v for k, v in guarded.client("reader").items()}
    cluster.assign(TASK, 1)
    config = {"name": "src", "task.class": FILE_TASK, "file": str(file), "topic": cluster.data}
    running = cluster.run(cluster.launch(TASK, config | own))

    cluster.wait_for_state(TASK, "RUNNING")
    wait_until(lambda: cluster.values() == ["a", "b"], what="records")
    in_use = f"status-topic-{cluster.data}:connector-src"
    wait_until(lambda: in_use in cluster.newest(cluster.topics.status), what="the topic in use")
    running.stop()
    assert cluster.status(TASK)["state"] == "UNASSIGNED"


def test_a_refused_login_fails_the_task(
    guarded_cluster: Any,
    guarded: GuardedBroker,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connect_runtime.tasks.source.transactions._START_LIMIT_S", 5.0)
    cluster = guarded_cluster
    wrong = guarded.client("reader", "not-the-password")
    cluster.assign(TASK, 1)
    config = {"name": "src", "task.class": FILE_TASK, "file": "/dev/null", "topic": "any"}
    own = {f"producer.override.{key}": value for key, value in wrong.items()}
    outcome = cluster.run(cluster.launch(TASK, config | own)).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    assert "Kafka refuses the login" in outcome.trace
    assert "not-the-password" not in outcome.trace
    assert cluster.status(TASK)["state"] == "FAILED"
