"""A source's own offsets topic over the worker's (KIP-618, smooth migration)."""

from __future__ import annotations

from typing import Any

from connect_runtime.storage.layered_offsets import LayeredOffsets, OffsetWrites
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.offsets_topic import offset_of, reduce_all
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.java_map import offset_key_bytes, offset_value_bytes


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
