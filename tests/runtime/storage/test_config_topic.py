"""The config topic: Connect's records, byte by byte, and what folding them gives."""

import logging
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.storage import config_topic
from connect_runtime.storage.config_topic import reduce_all
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    RestartRequest,
    TaskId,
)
from connect_specs.desired import TargetState

A_CONFIG = b'{"properties":{"a":"1"}}'
STOPPED = b'{"state":"PAUSED","state.v2":"STOPPED"}'


def record(offset: int, key: str | bytes | None, value: str | bytes | None) -> LogRecord:
    return LogRecord(
        topic="configs",
        partition=0,
        offset=offset,
        timestamp_ms=1000 + offset,
        key=key.encode() if isinstance(key, str) else key,
        value=value.encode() if isinstance(value, str) else value,
    )


def fold(*records: tuple[str, str | bytes | None]) -> ConfigSnapshot:
    numbered = (record(offset, key, value) for offset, (key, value) in enumerate(records))
    return reduce_all(ConfigSnapshot(), numbered)


def config(name: str = "c") -> tuple[str, bytes]:
    return (f"connector-{name}", A_CONFIG)


def task(number: int, name: str = "c", value: str = "v") -> tuple[str, str]:
    return (f"task-{name}-{number}", f'{{"properties":{{"t":"{value}"}}}}')


def commit(count: object, name: str = "c") -> tuple[str, str]:
    return (f"commit-{name}", f'{{"tasks":{count}}}')


# As a 4.1.0 worker with exactly-once sources wrote it; transaction markers take the other offsets.
LIVE_DUMP = [
    (
        0,
        "session-key",
        '{"key":"a2V5","algorithm":"HmacSHA256","creation-timestamp":1795261975462}',
    ),
    (2, "target-state-fs", STOPPED),
    (
        3,
        "connector-fs",
        '{"properties":{"connector.class":"FileStreamSource","tasks.max":"1","file":"in.txt",'
        '"topic":"t1","name":"fs"}}',
    ),
    (5, "target-state-fs", '{"state":"STARTED","state.v2":"STARTED"}'),
    (
        6,
        "task-fs-0",
        '{"properties":{"connector.class":"FileStreamSource","file":"in.txt",'
        '"task.class":"org.apache.kafka.connect.file.FileStreamSourceTask","tasks.max":"1",'
        '"name":"fs","topic":"t1"}}',
    ),
    (8, "commit-fs", '{"tasks":1}'),
    (10, "tasks-fencing-fs", '{"task-count":1}'),
    (12, "target-state-fs", '{"state":"PAUSED","state.v2":"PAUSED"}'),
    (14, "commit-fs", '{"tasks":0}'),
    (16, "target-state-fs", STOPPED),
    (20, "tasks-fencing-fs", '{"task-count":0}'),
    (22, "restart-connector-fs", '{"include-tasks":true,"only-failed":false}'),
    (30, "connector-fs2", None),
    (31, "target-state-fs2", None),
    (33, "logger-cluster-x.y", '{"level":"INFO"}'),
]
FS = ConnectorState(
    name="fs",
    config={
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": "in.txt",
        "topic": "t1",
        "name": "fs",
    },
    config_timestamp_ms=1003,
)
FS_TASK = {**FS.config, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}


@pytest.mark.parametrize(
    ("through", "expected"),
    [
        (3, replace(FS, target=TargetState.STOPPED, target_given=True, target_timestamp_ms=1002)),
        (5, replace(FS, target_given=True, target_timestamp_ms=1005)),
        (6, replace(FS, target_given=True, target_timestamp_ms=1005)),
        (
            8,
            replace(
                FS,
                target_given=True,
                target_timestamp_ms=1005,
                task_configs=(FS_TASK,),
                task_count=1,
                generation=0,
                tasks_ever=1,
                applied_config=FS.config,
                pending_fencing=True,
            ),
        ),
        (
            12,
            replace(
                FS,
                target=TargetState.PAUSED,
                target_given=True,
                target_timestamp_ms=1012,
                task_configs=(FS_TASK,),
                task_count=1,
                generation=0,
                tasks_ever=1,
                applied_config=FS.config,
                task_count_record=1,
            ),
        ),
        (
            33,
            replace(
                FS,
                target=TargetState.STOPPED,
                target_given=True,
                target_timestamp_ms=1016,
                generation=1,
                tasks_ever=1,
                applied_config=FS.config,
                task_count_record=0,
            ),
        ),
    ],
)
def test_the_live_dump(through: int, expected: ConnectorState) -> None:
    snapshot = reduce_all(
        ConfigSnapshot(), (record(*entry) for entry in LIVE_DUMP if entry[0] <= through)
    )
    assert snapshot.connectors == {"fs": expected}
    assert snapshot.offset == through + 1
    if through == 33:
        assert snapshot.orphans == {}
        assert snapshot.restarts == (RestartRequest("fs", True, False, 22),)


def test_the_live_dump_holds_nothing_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    reduce_all(ConfigSnapshot(), (record(*entry) for entry in LIVE_DUMP))
    assert caplog.records == []


def test_written_records_are_connects_bytes() -> None:
    written = [
        config_topic.target_state_record("t", "fs", TargetState.STOPPED),
        config_topic.target_state_record("t", "fs", TargetState.RUNNING),
        config_topic.connector_record("t", "ä/b c", {"z": "ü", "a": "1"}),
        *config_topic.task_config_records("t", "a-b", [{"k": "v"}, {}]),
        config_topic.commit_record("t", "fs", 2),
        config_topic.fencing_record("t", "fs", 0),
        config_topic.restart_record("t", "fs", include_tasks=True, only_failed=False),
        *config_topic.removal_records("t", "fs"),
    ]
    assert [(new.key.decode(), new.value and new.value.decode()) for new in written] == [
        ("target-state-fs", '{"state":"PAUSED","state.v2":"STOPPED"}'),
        ("target-state-fs", '{"state":"STARTED","state.v2":"STARTED"}'),
        ("connector-ä/b c", '{"properties":{"z":"ü","a":"1"}}'),
        ("task-a-b-0", '{"properties":{"k":"v"}}'),
        ("task-a-b-1", '{"properties":{}}'),
        ("commit-fs", '{"tasks":2}'),
        ("tasks-fencing-fs", '{"task-count":0}'),
        ("restart-connector-fs", '{"include-tasks":true,"only-failed":false}'),
        ("connector-fs", None),
        ("target-state-fs", None),
    ]


def test_task_configs_wait_for_their_commit() -> None:
    snapshot = fold(config(), task(0), task(1))
    assert snapshot.connectors["c"].task_configs == ()
    assert snapshot.deferred == {"c": {0: {"t": "v"}, 1: {"t": "v"}}}
    assert fold(config(), task(0), task(1), commit(2)).connectors["c"].task_configs == (
        {"t": "v"},
        {"t": "v"},
    )


def test_a_commit_needs_every_task_since_the_last_one() -> None:
    state = fold(config(), task(0), task(1), commit(2), task(0, value="new"), commit(2))
    found = state.connectors["c"]
    assert found.inconsistent
    assert (found.task_configs, found.task_count, found.generation) == ((), 2, 0)
    assert state.deferred == {"c": {}}


def test_a_complete_set_ends_inconsistency() -> None:
    found = fold(config(), commit(1), task(0), commit(1)).connectors["c"]
    assert not found.inconsistent
    assert found.task_configs == ({"t": "v"},)
    assert found.generation == 0


def test_more_task_records_than_the_commit_says_is_what_compaction_leaves() -> None:
    found = fold(config(), task(1), task(0), commit(1)).connectors["c"]
    assert (found.task_configs, found.task_count, found.inconsistent) == (({"t": "v"},), 1, False)


@pytest.mark.parametrize(
    ("before", "generation"), [([], -1), ([task(0), commit(1)], 1), ([task(0)], 0)]
)
def test_an_empty_set_counts_as_a_generation_once_there_was_a_task(
    before: list[tuple[str, str]], generation: int
) -> None:
    assert fold(config(), *before, commit(0)).connectors["c"].generation == generation


def test_the_applied_config_is_the_one_at_the_commit() -> None:
    state = fold(config(), task(0), commit(1), ("connector-c", '{"properties":{"a":"2"}}'))
    assert state.connectors["c"].applied_config == {"a": "1"}
    assert state.connectors["c"].config == {"a": "2"}


def test_a_commit_without_a_connector_revives_nothing() -> None:
    state = fold(task(0), commit(1), config())
    assert state.connectors["c"] == ConnectorState("c", {"a": "1"}, config_timestamp_ms=1002)
    assert state.deferred == {}


def test_removal_forgets_all_but_fencing_generation_and_target() -> None:
    running = [config(), ("target-state-c", STOPPED), task(0), commit(1)]
    fenced = [("tasks-fencing-c", '{"task-count":1}'), commit(0)]
    state = fold(*running, *fenced, ("connector-c", None))
    assert state.connectors == {}
    assert state.deferred == {}
    assert state.orphans["c"] == ConnectorState(
        "c",
        config={},
        target=TargetState.STOPPED,
        target_given=True,
        target_timestamp_ms=1001,
        generation=1,
        task_count_record=1,
        pending_fencing=True,
    )
    again = fold(*running, *fenced, ("connector-c", None), ("target-state-c", None), config())
    found = again.connectors["c"]
    assert (found.target, found.target_given) == (TargetState.RUNNING, False)
    assert (found.task_count_record, found.pending_fencing, found.generation) == (1, True, 1)
    assert again.orphans == {}


def test_removing_a_target_state_means_running() -> None:
    found = fold(config(), ("target-state-c", STOPPED), ("target-state-c", None)).connectors["c"]
    assert (found.target, found.target_given) == (TargetState.RUNNING, False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('{"state":"PAUSED","state.v2":"STOPPED"}', TargetState.STOPPED),
        ('{"state":"PAUSED","state.v2":null}', TargetState.PAUSED),
        ('{"state":"PAUSED","state.v2":7}', TargetState.PAUSED),
        ('{"state":"STARTED"}', TargetState.RUNNING),
        ('{"state":"PAUSED","state.v2":"MELTED"}', TargetState.STOPPED),
        ('{"state":"paused"}', TargetState.STOPPED),
        ('{"state":1}', TargetState.STOPPED),
        ("[]", TargetState.STOPPED),
        ("{", TargetState.STOPPED),
    ],
)
def test_target_states_read_with_stopped_before_them(value: str, expected: TargetState) -> None:
    state = fold(config(), ("target-state-c", STOPPED), ("target-state-c", value))
    assert state.connectors["c"].target is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c-0", TaskId("c", 0)),
        ("a-b-12", TaskId("a-b", 12)),
        ("fs/slash and space-0", TaskId("fs/slash and space", 0)),
        ("a--1", TaskId("a-", 1)),
        ("c-x", None),
        ("c-", None),
        ("c", None),
        ("7", None),
        ("c-²", None),
    ],
)
def test_task_keys(text: str, expected: TaskId | None) -> None:
    assert config_topic.task_id(text) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        ("", b"{}"),
        ("connectors", b"{}"),
        (b"\xff\xfe", b"{}"),
        ("connector-c", b"hunter2"),
        ("connector-c", b'["hunter2"]'),
        ("connector-c", b'{"properties":"hunter2"}'),
        ("connector-c", b'{"properties":{"password":{"x":"hunter2"}}}'),
        ("task-c-0", None),
        ("task-c-hunter", A_CONFIG),
        ("task-c-0", b'{"props":"hunter2"}'),
        ("commit-c", None),
        ("commit-c", b'{"tasks":"hunter2"}'),
        ("commit-c", b'{"tasks":true}'),
        ("commit-c", b'{"tasks":1.5}'),
        ("tasks-fencing-c", b'{"task-count":null}'),
        ("tasks-fencing-c", None),
        ("restart-connector-c", b'"hunter2"'),
        ("restart-connector-c", None),
    ],
)
def test_a_malformed_record_moves_the_offset_only_and_is_named_once_without_its_value(
    key: str | bytes | None, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    before = fold(config(), task(0), commit(1))
    with caplog.at_level(logging.WARNING):
        after = reduce_all(before, (record(9, key, value),))
    assert after == replace(before, offset=10)
    assert len(caplog.records) == 1
    assert "hunter2" not in caplog.text
    assert "offset 9" in caplog.text


def test_null_config_values_count_as_none() -> None:
    state = fold(("connector-c", '{"properties":{"a":null,"b":"1"}}'))
    assert state.connectors["c"].config == {"b": "1"}


def test_a_text_with_half_of_a_surrogate_pair_is_null() -> None:
    """As an Apache worker of 4.1 stores it. The connector is there, and a null keeps it from
    starting; a task's config is ignored, so that no task runs without the value."""
    odd = rb'{"properties":{"a":"x\uD800y","b":"\uDC00","c":"\uD83D\uDE00","d\uD800":"\\uD800"}}'
    state = fold(("connector-c", odd), ("task-c-0", odd), commit(1), config("d"))
    found = state.connectors["c"]
    assert found.config == {"c": "\U0001f600", "d?": "\\uD800"}
    assert found.null_keys == ("a", "b")
    assert (found.task_configs, found.inconsistent) == ((), True)
    assert state.connectors["d"].config == {"a": "1"}


@pytest.mark.parametrize(
    "value",
    [
        rb'{"a":"\uD800"',
        rb'["\ud800", ' + b"[" * 100_000,
        rb'{"properties":{"a":"\uD800"},"b":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
)
def test_half_of_a_surrogate_pair_makes_nothing_json(value: bytes) -> None:
    before = sys.getrecursionlimit()  # tasks have a higher one
    sys.setrecursionlimit(1000)
    try:
        assert fold(("connector-c", value), config("d")).connectors.keys() == {"d"}
    finally:
        sys.setrecursionlimit(before)


def test_restart_flags_default_to_false() -> None:
    state = fold(config(), ("restart-connector-c", '{"include-tasks":"yes"}'))
    assert state.restarts == (RestartRequest("c", False, False, 1),)


NAMES = st.sampled_from(["c", "a-b"])
VALUES = st.sampled_from(
    [None, A_CONFIG, STOPPED, b'{"tasks":0}', b'{"tasks":2}', b'{"task-count":1}', b"{", b"[]"]
)
KEYS = st.builds(
    str.format,
    st.sampled_from(
        [
            "connector-{}",
            "target-state-{}",
            "task-{}-0",
            "task-{}-1",
            "commit-{}",
            "tasks-fencing-{}",
            "restart-connector-{}",
        ]
    ),
    NAMES,
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=40), st.integers(min_value=0, max_value=40))
def test_splitting_the_records_anywhere_gives_the_same_fold(
    entries: list[tuple[str, bytes | None]], at: int
) -> None:
    records = [record(offset, key, value) for offset, (key, value) in enumerate(entries)]
    whole = reduce_all(ConfigSnapshot(), records)
    assert reduce_all(reduce_all(ConfigSnapshot(), records[:at]), records[at:]) == whole
    one_by_one = ConfigSnapshot()
    for each in records:
        one_by_one = reduce_all(one_by_one, (each,))
    assert one_by_one == whole


@given(st.lists(st.tuples(KEYS, VALUES), max_size=20), KEYS, VALUES)
def test_a_fold_leaves_the_snapshot_before_it_as_it_was(
    entries: list[tuple[str, bytes | None]], key: str, value: bytes | None
) -> None:
    records = [record(offset, *entry) for offset, entry in enumerate(entries)]
    before, same = (reduce_all(ConfigSnapshot(), records) for _ in range(2))
    reduce_all(before, (record(len(records), key, value),))
    assert before == same
