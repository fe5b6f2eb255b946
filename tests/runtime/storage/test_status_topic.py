"""The status topic: Connect's records, byte by byte, the reader's rule and the writer's."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.storage import status_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import State, Status, StatusSnapshot, TaskId
from connect_runtime.storage.status_topic import reduce_all

W1 = "127.0.0.1:28183"
W2 = "127.0.0.1:28184"


def record(offset: int, key: str | None, value: bytes | None) -> LogRecord:
    return LogRecord("statuses", 0, offset, 0, None if key is None else key.encode(), value)


def fold(*records: tuple[str | None, bytes | None]) -> StatusSnapshot:
    return reduce_all(
        StatusSnapshot(), (record(at, key, value) for at, (key, value) in enumerate(records))
    )


def task_value(state: State, generation: int, worker: str = W1) -> bytes:
    written = status_topic.task_record("t", TaskId("c", 0), Status(state, worker, generation)).value
    assert written is not None
    return written


def test_written_records_are_connects_bytes() -> None:
    written = [
        status_topic.connector_record("t", "fs", Status(State.RUNNING, W1, 2, version="4.1.0")),
        status_topic.task_record("t", TaskId("a-b", 3), Status(State.FAILED, W1, 2, trace="x\ny")),
        status_topic.topic_in_use_record("t", "t1", "fs", task=0, discovered_ms=1795262499901),
        status_topic.connector_record("t", "fs", None),
        status_topic.task_record("t", TaskId("fs", 0), None),
        status_topic.topic_unused_record("t", "t1", "fs"),
    ]
    assert [(new.key.decode(), new.value and new.value.decode()) for new in written] == [
        (
            "status-connector-fs",
            '{"state":"RUNNING","trace":null,"worker_id":"127.0.0.1:28183","generation":2,'
            '"version":"4.1.0"}',
        ),
        (
            "status-task-a-b-3",
            '{"state":"FAILED","trace":"x\\ny","worker_id":"127.0.0.1:28183","generation":2,'
            '"version":null}',
        ),
        (
            "status-topic-t1:connector-fs",
            '{"topic":{"name":"t1","connector":"fs","task":0,"discoverTimestamp":1795262499901}}',
        ),
        ("status-connector-fs", None),
        ("status-task-fs-0", None),
        ("status-topic-t1:connector-fs", None),
    ]


def test_what_is_written_is_read_back() -> None:
    status = Status(State.FAILED, W1, 7, trace="Traceback", version="1.0")
    snapshot = fold(
        *(
            (new.key.decode(), new.value)
            for new in (
                status_topic.connector_record("t", "a-b", status),
                status_topic.task_record("t", TaskId("a-b", 1), status),
                status_topic.topic_in_use_record("t", "t1", "a:b", task=1, discovered_ms=1),
            )
        )
    )
    assert snapshot == StatusSnapshot(
        connectors={"a-b": status},
        tasks={TaskId("a-b", 1): status},
        topics={"a:b": frozenset({"t1"})},
    )


def test_records_of_older_workers_lack_fields() -> None:
    found = fold(("status-connector-c", b'{"state":"PAUSED","worker_id":"w","generation":0}'))
    assert found.connectors["c"] == Status(State.PAUSED, "w", 0)


def test_tombstones_remove() -> None:
    key = "status-topic-t1:connector-c"
    assert (
        fold(
            ("status-connector-c", task_value(State.RUNNING, 1)),
            ("status-task-c-0", task_value(State.RUNNING, 1)),
            (key, b'{"topic":{"name":"t1","connector":"c","task":0,"discoverTimestamp":1}}'),
            ("status-connector-c", None),
            ("status-task-c-0", None),
            (key, None),
        )
        == StatusSnapshot()
    )


@pytest.mark.parametrize(
    ("known", "incoming", "kept"),
    [
        ((State.RUNNING, 3), (State.UNASSIGNED, 3), State.RUNNING),
        ((State.RUNNING, 3), (State.UNASSIGNED, 2), State.RUNNING),
        ((State.RUNNING, 3), (State.UNASSIGNED, 4), State.UNASSIGNED),
        ((State.PAUSED, 3), (State.UNASSIGNED, 3), State.UNASSIGNED),
        ((State.RUNNING, 3), (State.FAILED, 2), State.FAILED),
    ],
)
def test_a_late_unassigned_does_not_hide_a_running_task(
    known: tuple[State, int], incoming: tuple[State, int], kept: State
) -> None:
    found = fold(
        ("status-task-c-0", task_value(*known)),
        ("status-task-c-0", task_value(*incoming, worker=W2)),
    )
    assert found.tasks[TaskId("c", 0)].state is kept


def of_attempt(state: State, attempt: int | None, generation: int = 1) -> tuple[str, bytes | None]:
    status = Status(state, W1, generation, attempt=attempt)
    return "status-task-c-0", status_topic.task_record("t", TaskId("c", 0), status).value


def test_a_late_attempt_hides_nothing_and_is_to_be_overwritten() -> None:
    found = fold(of_attempt(State.RUNNING, 7), of_attempt(State.FAILED, 6))
    assert found.tasks[TaskId("c", 0)] == Status(State.RUNNING, W1, 1, attempt=7)
    assert found.outdated == {TaskId("c", 0)}


@pytest.mark.parametrize("next_record", [of_attempt(State.RUNNING, 7), ("status-task-c-0", None)])
def test_what_overwrites_a_late_attempt_settles_it(next_record: tuple[str, bytes | None]) -> None:
    late = (of_attempt(State.RUNNING, 7), of_attempt(State.FAILED, 6))
    assert fold(*late, next_record).outdated == frozenset()


def test_what_the_leader_repeats_does_not_hide_what_the_attempt_said_meanwhile() -> None:
    running = Status(State.RUNNING, W1, 1, attempt=7)
    again = status_topic.task_record("t", TaskId("c", 0), running, again=True).value
    said = (of_attempt(State.RUNNING, 7), of_attempt(State.FAILED, 6), of_attempt(State.PAUSED, 7))
    found = fold(*said, ("status-task-c-0", again))
    assert found.tasks[TaskId("c", 0)].state is State.PAUSED
    assert found.outdated == {TaskId("c", 0)}
    assert fold(("status-task-c-0", again)).tasks[TaskId("c", 0)] == running


def test_a_trace_that_the_leader_adds_hides_no_other_state() -> None:
    noted = Status(State.RUNNING, W1, 1, "Not confirmed", attempt=7)
    again = status_topic.task_record("t", TaskId("c", 0), noted, again=True).value
    added = fold(of_attempt(State.RUNNING, 7), ("status-task-c-0", again))
    assert (added.tasks[TaskId("c", 0)], added.outdated) == (noted, frozenset())
    overtaken = fold(of_attempt(State.UNASSIGNED, 7), ("status-task-c-0", again))
    assert overtaken.tasks[TaskId("c", 0)].state is State.UNASSIGNED
    assert overtaken.outdated == {TaskId("c", 0)}


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_an_attempt_that_was_running_may_say_that_it_has_ended(generation: int) -> None:
    found = fold(of_attempt(State.RUNNING, 7, 1), of_attempt(State.UNASSIGNED, 7, generation))
    assert found.tasks[TaskId("c", 0)].state is State.UNASSIGNED


def test_the_next_attempt_may_say_unassigned() -> None:
    found = fold(of_attempt(State.RUNNING, 6, 2), of_attempt(State.UNASSIGNED, 7, 1))
    assert found.tasks[TaskId("c", 0)].state is State.UNASSIGNED


def test_that_a_task_has_polled_is_kept() -> None:
    polled = Status(State.RUNNING, W1, 1, attempt=7, polled=True)
    key = "status-task-c-0"
    assert b'"attempt":7,"polled":true' in (
        status_topic.task_record("s", TaskId("c", 0), polled).value or b""
    )
    found = fold((key, status_topic.task_record("s", TaskId("c", 0), polled).value))
    assert found.tasks[TaskId("c", 0)] == polled
    assert fold(of_attempt(State.RUNNING, 7)).tasks[TaskId("c", 0)].polled is False


def test_records_without_an_attempt_are_believed() -> None:
    found = fold(of_attempt(State.RUNNING, 7), of_attempt(State.FAILED, None))
    assert found.tasks[TaskId("c", 0)].state is State.FAILED


def test_the_newest_generation() -> None:
    assert status_topic.newest_generation(StatusSnapshot()) == -1
    snapshot = fold(
        ("status-connector-c", task_value(State.RUNNING, 4)),
        ("status-task-c-0", task_value(State.RUNNING, 6)),
    )
    assert status_topic.newest_generation(snapshot) == 6


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        ("status", b"{}"),
        ("status-connector-c", b"hunter2"),
        ("status-connector-c", b'{"state":"hunter2","generation":1}'),
        ("status-connector-c", b'{"state":["hunter2"],"generation":1}'),
        ("status-connector-c", b'{"state":"RUNNING","generation":"hunter2"}'),
        ("status-connector-c", b'{"state":"DESTROYED","generation":1}'),
        ("status-task-c", b'{"state":"RUNNING","generation":1}'),
        ("status-task-c-0", b"[]"),
        ("status-topic-t", b'{"topic":{}}'),
        ("status-topic-:connector-c", b'{"topic":{}}'),
        ("status-topic-t:connector-", b'{"topic":{}}'),
        ("status-topic-t:connector-c", b'{"topic":"hunter2"}'),
    ],
)
def test_a_malformed_record_changes_nothing_and_is_named_without_its_value(
    key: str | None, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = fold(("status-connector-c", task_value(State.RUNNING, 1)))
    with caplog.at_level(logging.WARNING):
        assert reduce_all(before, (record(9, key, value),)) == before
    assert len(caplog.records) == 1
    assert "hunter2" not in caplog.text


STATES = st.sampled_from([State.RUNNING, State.UNASSIGNED, State.FAILED])
ENTRIES = st.tuples(
    st.sampled_from(["status-connector-c", "status-task-c-0", "status-topic-t:connector-c", "x"]),
    st.none() | st.builds(task_value, STATES, st.integers(0, 3)) | st.just(b'{"topic":{}}'),
)


@given(st.lists(ENTRIES, max_size=30), st.integers(min_value=0, max_value=30))
def test_splitting_the_records_anywhere_gives_the_same_fold(
    entries: list[tuple[str, bytes | None]], at: int
) -> None:
    records = [record(offset, key, value) for offset, (key, value) in enumerate(entries)]
    whole = reduce_all(StatusSnapshot(), records)
    assert reduce_all(reduce_all(StatusSnapshot(), records[:at]), records[at:]) == whole
