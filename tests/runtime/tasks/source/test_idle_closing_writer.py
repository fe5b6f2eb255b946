"""A source that is silent for long has no producer; it gets one as an attempt does at its start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.agent.assignment_tail import AssignmentTail
from connect_runtime.api import SourceRecord, SourceTask
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.control.assignments import DesiredTaskState
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.source import writer as source_writer
from connect_runtime.tasks.source.writer import IdleClosingWriter, Messages, TaskSuperseded
from support.wait import wait_until

TASK = TaskId("src", 0)
FILE_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"
NOTHING_SENT = Messages([], 0, False, False, lambda: iter(()))


class ModelWriter:
    atomic, expires_s, opened_at, bytes = True, 60.0, 1.0, 7

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened
        self.happened.append("made")
        self.open = False

    def send(self, topic: str, messages: Messages, partition: int | None) -> None:
        self.happened.append("sent")
        self.open = True

    def commit(self, offsets: Sequence[NewRecord], limit_s: float | None = None) -> bool:
        self.open = False
        return True

    def serve(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        self.happened.append("closed")


class Rest:
    """A resting writer whose answers of the assignments topic are scripted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: DesiredTaskState) -> None:
        self.happened: list[str] = []
        self.answers = list(answers)
        monkeypatch.setattr(source_writer, "_IDLE_S", -1.0)
        self.writer = IdleClosingWriter(
            lambda: ModelWriter(self.happened), self._newest, TaskMetrics()
        )

    def _newest(self) -> DesiredTaskState:
        self.happened.append("asked")
        return self.answers.pop(0)

    def send(self) -> None:
        self.writer.send("t", NOTHING_SENT, None)


def test_a_new_producer_is_made_between_two_looks_at_the_assignments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rest = Rest(monkeypatch, DesiredTaskState.RUN, DesiredTaskState.RUN)
    rest.send()
    rest.writer.serve()
    assert rest.happened == ["made", "sent"]  # what is open is not closed
    rest.writer.commit([])
    rest.writer.serve()
    rest.writer.serve()
    assert rest.happened == ["made", "sent", "closed"]
    assert (rest.writer.open, rest.writer.bytes, rest.writer.opened_at) == (False, 0, 0.0)
    rest.send()
    assert rest.happened[3:] == ["asked", "made", "asked", "sent"]
    assert rest.writer.open


@pytest.mark.parametrize("wanted", [DesiredTaskState.STOP, DesiredTaskState.SUPERSEDED])
def test_an_attempt_that_is_over_makes_no_producer(
    monkeypatch: pytest.MonkeyPatch, wanted: DesiredTaskState
) -> None:
    rest = Rest(monkeypatch, wanted)
    rest.writer.serve()
    with pytest.raises(TaskSuperseded):
        rest.send()
    assert rest.happened == ["made", "closed", "asked"]


@pytest.mark.parametrize("wanted", [DesiredTaskState.STOP, DesiredTaskState.SUPERSEDED])
def test_an_attempt_that_is_over_meanwhile_sends_nothing(
    monkeypatch: pytest.MonkeyPatch, wanted: DesiredTaskState
) -> None:
    """Nor does it commit offsets at its end: the leader may have altered them meanwhile."""
    rest = Rest(monkeypatch, DesiredTaskState.RUN, wanted, wanted)
    rest.writer.serve()
    with pytest.raises(TaskSuperseded) as raised:
        rest.send()
    assert raised.value.end is wanted.end
    with pytest.raises(TaskSuperseded):
        rest.writer.commit([NewRecord("offsets", b"k", b"v")])
    assert rest.happened[2:] == ["asked", "made", "asked", "closed", "asked"]


def _resting(
    cluster: Any, topic: Callable[[int], str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """A source of one line, from the moment on at which it has no producer."""
    rested: list[None] = []
    monkeypatch.setattr(source_writer, "_IDLE_S", 0.3)
    monkeypatch.setattr(source_writer, "_return_memory", lambda: rested.append(None))
    file.write_text("one\n")
    config = {"name": "src", "task.class": FILE_TASK, "file": str(file), "topic": topic(1)}
    cluster.assign(TASK, 1)
    running = cluster.run(cluster.launch(TASK, config))
    wait_until(lambda: cluster.values() == ["one"] and rested, what="no producer")
    return running


def test_records_after_a_rest_arrive_once(
    cluster: Any, topic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "in.txt"
    running = _resting(cluster, topic, file, monkeypatch)
    with file.open("a") as more:
        more.write("two\n")
    wait_until(lambda: cluster.values() == ["one", "two"], what="the second line")
    running.stop()
    assert cluster.values() == ["one", "two"]
    (offset,) = cluster.newest(cluster.topics.offsets).values()
    assert offset == {"position": 8}


@pytest.mark.parametrize(
    ("attempt", "ended"), [(2, AttemptEnd.SUPERSEDED), (None, AttemptEnd.STOPPED)]
)
def test_a_rest_does_not_outlast_the_attempt(
    cluster: Any,
    topic: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    attempt: int | None,
    ended: AttemptEnd,
) -> None:
    """What the leader wants by now does not reach it in another way: its agent is slow."""
    monkeypatch.setattr(AssignmentTail, "_pass_on", lambda self, record: None)
    file = tmp_path / "in.txt"
    running = _resting(cluster, topic, file, monkeypatch)
    cluster.assign(TASK, attempt)
    with file.open("a") as more:
        more.write("two\n")
    assert running.outcome().ended is ended
    assert cluster.values() == ["one"]


class MovingTask(SourceTask):
    """Sends one record, and moves its offset from it once `moves` is set (KIP-910)."""

    moves = False
    empty_polls = 0

    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self.topic: str | None = props["topic"]

    def stop(self) -> None: ...

    def poll(self) -> Sequence[SourceRecord]:
        topic, self.topic = self.topic, None
        if topic is not None:
            return [SourceRecord({"p": 1}, {"n": 1}, topic, "one")]
        MovingTask.empty_polls += 1
        return ()

    def update_offsets(self, offsets: Any) -> Any:
        return [({"p": 1}, {"n": 2})] if MovingTask.moves else ()


def test_offsets_that_move_without_records_are_committed_at_a_stop(
    cluster: Any, topic: Any, install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_writer, "_IDLE_S", -1.0)
    config = {"name": "src", "task.class": install(MovingTask), "topic": topic(1)}
    cluster.assign(TASK, 1)
    running = cluster.run(cluster.launch(TASK, config))
    wait_until(lambda: MovingTask.empty_polls > 2, what="polls after the commit")
    assert cluster.values() == ["one"]
    monkeypatch.setattr(MovingTask, "moves", True)
    running.stop()
    assert [*cluster.newest(cluster.topics.offsets).values()] == [{"n": 2}]
