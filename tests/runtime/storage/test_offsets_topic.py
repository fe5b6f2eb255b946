"""Offsets topics: key bytes are made as Connect makes them; a connector's own topic comes first."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.java.offset_bytes import offset_key_bytes, offset_value_bytes
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.offsets_topic import (
    LayeredOffsets,
    OffsetWrites,
    check_map,
    offset_of,
    offset_records,
    reduce_all,
)
from connect_runtime.storage.snapshots import OffsetSnapshot, SourceOffset
from connect_specs.diagnostics import Failed

FILE = b'["fs",{"filename":"in.txt"}]'
# Connect itself would write cluster, partition, topic.
FOREIGN = b'["mm",{"topic":"t","partition":0,"cluster":"a"}]'
OWN = b'["mm",{"cluster":"a","partition":0,"topic":"t"}]'
MIRROR = {"cluster": "a", "partition": 0, "topic": "t"}


def record(offset: int, key: bytes | None, value: bytes | None) -> LogRecord:
    return LogRecord("offsets", 0, offset, 0, key, value)


def fold(*records: tuple[bytes | None, bytes | None]) -> OffsetSnapshot:
    return reduce_all(OffsetSnapshot(), (record(at, *each) for at, each in enumerate(records)))


def test_the_newest_offset_of_each_key_counts() -> None:
    assert fold((FILE, b'{"position":6}'), (FILE, b'{"position":9}')) == OffsetSnapshot(
        {"fs": {FILE: SourceOffset({"filename": "in.txt"}, {"position": 9}, FILE)}}
    )


def test_a_tombstone_removes() -> None:
    assert fold((FILE, b'{"position":6}'), (FILE, None)) == OffsetSnapshot()


def test_a_null_partition_is_passed_over_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    assert fold((b'["fs",null]', None), (b'["fs",null]', b"{}")) == OffsetSnapshot()
    assert caplog.records == []


def test_a_new_partition_gets_connects_own_key_bytes() -> None:
    snapshot = OffsetSnapshot()
    reordered = {"topic": "t", "partition": 0, "cluster": "a"}
    assert offset_records("o", "mm", [(reordered, {"offset": 5})], snapshot) == (
        NewRecord("o", OWN, b'{"offset":5}'),
    )


def test_a_partition_that_has_a_record_keeps_its_key_bytes() -> None:
    snapshot = fold((FOREIGN, b'{"offset":1}'))
    assert offset_records("o", "mm", [(MIRROR, {"offset": 5}), (MIRROR, None)], snapshot) == (
        NewRecord("o", FOREIGN, b'{"offset":5}'),
        NewRecord("o", FOREIGN, None),
    )


def test_a_partition_under_two_keys_is_written_under_both() -> None:
    snapshot = fold((OWN, b'{"offset":1}'), (FOREIGN, b'{"offset":2}'))
    written = offset_records("o", "mm", [(MIRROR, None)], snapshot)
    assert {new.key for new in written} == {OWN, FOREIGN}


def test_one_number_is_not_another_kind_of_number() -> None:
    snapshot = fold((b'["c",{"n":1}]', b'{"o":1}'))
    (new,) = offset_records("o", "c", [({"n": 1.0}, {"o": 2})], snapshot)
    assert new.key == b'["c",{"n":1.0}]'
    (new,) = offset_records("o", "c", [({"n": True}, {"o": 2})], snapshot)
    assert new.key == b'["c",{"n":true}]'


def test_bytes_compare_as_the_base64_text_that_they_come_back_as() -> None:
    (new,) = offset_records("o", "c", [({"b": b"\x01"}, {"o": b"\x02"})], OffsetSnapshot())
    assert (new.key, new.value) == (b'["c",{"b":"AQ=="}]', b'{"o":"Ag=="}')
    spaced = b'["c", {"b":"AQ=="}]'
    (new,) = offset_records("o", "c", [({"b": b"\x01"}, None)], fold((spaced, b'{"o":1}')))
    assert new.key == spaced


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((), None),
        (((FOREIGN, b'{"o":1}'),), {"o": 1}),
        (((OWN, b'{"o":1}'), (FOREIGN, b'{"o":2}')), {"o": 1}),
        (((OWN, b'{"o":1}'), (FOREIGN, b'{"o":2}'), (OWN, None)), {"o": 2}),
    ],
)
def test_the_offset_of_a_partition(
    records: tuple[tuple[bytes, bytes | None], ...], expected: dict[str, int] | None
) -> None:
    assert offset_of(fold(*records), "mm", MIRROR) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["a"], "Offsets must be specified as a Map"),
        ({1: "a"}, "Offsets may only use String keys"),
        (
            {"f": [1]},
            "Offsets may only contain primitive types as values, but field f contains ARRAY",
        ),
        (
            {"f": {"a": 1}},
            "Offsets may only contain primitive types as values, but field f contains MAP",
        ),
        (
            {"f": 1 << 63},
            "Offsets may only contain primitive types as values, "
            "but field f contains class java.math.BigInteger",
        ),
    ],
)
def test_maps_that_connect_refuses(value: object, text: str) -> None:
    with pytest.raises(Failed) as caught:
        check_map(value)
    assert str(caught.value) == text


def test_maps_that_connect_takes() -> None:
    check_map(None)
    check_map({"a": None, "b": 1, "c": 1.5, "d": True, "e": "x", "f": b"x", "g": -(1 << 63)})


def test_what_connect_could_not_have_written_is_asked_for_in_vain_and_can_be_removed() -> None:
    nested = {"file": {"name": "a"}}
    key = b'["c",{"file":{"name":"a"}}]'
    snapshot = fold((key, b'{"position":{"at":6}}'))
    with pytest.raises(Failed, match="field file contains MAP"):
        offset_of(snapshot, "c", nested)  # type: ignore[arg-type]
    with pytest.raises(Failed, match="field file contains MAP"):
        offset_records("o", "c", [(nested, {"position": 1})], snapshot)  # type: ignore[list-item]
    found = [each.partition for each in snapshot.connectors["c"].values()]
    assert offset_records("o", "c", [(each, None) for each in found], snapshot) == (
        NewRecord("o", key, None),
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"hunter2", b"{}"),
        (b'{"a":1}', b"{}"),
        (b'["c"]', b"{}"),
        (b'["c",{},1]', b"{}"),
        (b'[1,{"a":"hunter2"}]', b"{}"),
        (b'["c","hunter2"]', b"{}"),
        (FILE, b"hunter2"),
        (FILE, b'["hunter2"]'),
    ],
)
def test_a_malformed_record_changes_nothing_and_is_named_without_its_content(
    key: bytes | None, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = fold((FILE, b'{"position":6}'))
    with caplog.at_level(logging.WARNING):
        assert reduce_all(before, (record(9, key, value),)) == before
    assert len(caplog.records) == 1
    assert "hunter2" not in caplog.text


ENTRIES = st.tuples(
    st.sampled_from([FILE, OWN, FOREIGN, b"x"]), st.sampled_from([None, b'{"o":1}', b'{"o":2}'])
)


@given(st.lists(ENTRIES, max_size=30), st.integers(min_value=0, max_value=30))
def test_splitting_the_records_anywhere_gives_the_same_fold(
    entries: list[tuple[bytes, bytes | None]], at: int
) -> None:
    records = [record(offset, *each) for offset, each in enumerate(entries)]
    whole = reduce_all(OffsetSnapshot(), records)
    assert reduce_all(reduce_all(OffsetSnapshot(), records[:at]), records[at:]) == whole


def key(partition: dict[str, Any]) -> bytes:
    return offset_key_bytes("reddit", partition)


def snapshot(*entries: tuple[bytes, int | None]) -> OffsetSnapshot:
    """As folded from a topic: keys and timestamps."""
    records = [
        LogRecord("t", 0, at, 0, k, offset_value_bytes(None if v is None else {"timestamp": v}))
        for at, (k, v) in enumerate(entries)
    ]
    return reduce_all(OffsetSnapshot(), records)


def sub(name: str) -> dict[str, Any]:
    return {"subreddit": name}


KAFKA, CATS, CHEESE = sub("apachekafka"), sub("CatsStandingUp"), sub("grilledcheese")
EXAMPLE = LayeredOffsets(
    "reddit",
    "own",
    snapshot((key(CATS), 2169), (key(CHEESE), 489)),
    "workers",
    snapshot((key(KAFKA), 4761), (key(CATS), 2112)),
)


def test_the_example_of_the_kip() -> None:
    shown = {
        str(each.partition["subreddit"]): each.offset["timestamp"]
        for each in EXAMPLE.merged.connectors["reddit"].values()
    }
    assert shown == {"apachekafka": 4761, "CatsStandingUp": 2169, "grilledcheese": 489}


def test_a_partition_in_another_order_of_fields_is_the_same() -> None:
    fields = {"table": "t", "schema": "s"}
    foreign = b'["reddit",{"table":"t","schema":"s"}]'
    assert foreign != key(fields)
    layers = LayeredOffsets(
        "reddit", "own", snapshot((foreign, 2)), "workers", snapshot((key(fields), 1))
    )
    assert offset_of(layers.merged, "reddit", fields) == {"timestamp": 2}
    assert len(layers.merged.connectors["reddit"]) == 1


def test_other_connectors_are_not_shown() -> None:
    other = offset_key_bytes("other", CATS)
    layers = LayeredOffsets("reddit", "own", snapshot((other, 1)), "workers", snapshot((other, 2)))
    assert layers.merged == OffsetSnapshot()


def test_a_removal_needs_a_tombstone_in_both() -> None:
    wanted = [(each, None) for each in (KAFKA, CATS, CHEESE)]
    keys = [key(each) for each in (KAFKA, CATS, CHEESE)]
    assert EXAMPLE.writes(wanted) == OffsetWrites(
        removed=tuple(NewRecord("workers", each, None) for each in keys),
        own=tuple(NewRecord("own", each, None) for each in keys),
        copies=(),
    )


def test_an_offset_is_copied_to_the_workers_topic() -> None:
    value = b'{"timestamp":1}'
    assert EXAMPLE.writes([(CATS, {"timestamp": 1}), (KAFKA, None)]) == OffsetWrites(
        removed=(NewRecord("workers", key(KAFKA), None),),
        own=(NewRecord("own", key(CATS), value), NewRecord("own", key(KAFKA), None)),
        copies=(NewRecord("workers", key(CATS), value),),
    )


def test_each_layer_keeps_its_key_bytes() -> None:
    fields = {"table": "t", "schema": "s"}
    foreign = b'["reddit",{"table":"t","schema":"s"}]'
    below = LayeredOffsets("reddit", "own", snapshot(), "workers", snapshot((foreign, 1)))
    # what Apache's workers look up in the worker's topic is found in the connector's, too
    writes = below.writes([(fields, {"timestamp": 2})])
    assert [record.key for record in (*writes.own, *writes.copies)] == [foreign, foreign]


def test_without_a_topic_of_its_own_there_is_one_layer() -> None:
    single = LayeredOffsets("reddit", "workers", snapshot((key(CATS), 1)))
    assert single.merged is single.own
    assert single.writes([(CATS, None)]) == OffsetWrites(
        (), (NewRecord("workers", key(CATS), None),), ()
    )
