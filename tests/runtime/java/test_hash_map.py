"""The bytes of offset keys, compared with those of Connect's own JsonConverter."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.java.offset_bytes import (
    in_hash_map_order,
    java_hash,
    offset_key_bytes,
    offset_value_bytes,
)
from support.jvm import running_jvm

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
MAPS = st.dictionaries(st.text(), SCALARS, max_size=15)
# as connectors have them
PARTITIONS = [
    ["topic", "partition", "cluster"],
    ["group", "topic", "partition"],
    ["db", "schema", "table", "shard"],
    ["protocol", "table"],
    ["server", "database"],
    ["kafka_topic", "kafka_partition"],
    ["BB", "Aa"],
    ["Aa", "BB"],
]


@given(MAPS)
def test_hash_map_order_loses_nothing_and_is_stable(partition: dict[str, Any]) -> None:
    ordered = in_hash_map_order(partition)
    assert ordered == partition
    assert list(in_hash_map_order(ordered)) == list(ordered)


@given(MAPS, st.text())
def test_an_offset_key_is_json_that_says_the_same(partition: dict[str, Any], name: str) -> None:
    text = offset_key_bytes(name, partition).decode()
    assert json.loads(text) == [name, partition]


DOUBLES = (
    0.0, 1.0, 100.0, -0.5, 0.001, 0.00099, 123456.789, 9999999.0, 1e7, 12345678.5, 1e21, 1.5e300,
    2.5e-300, 5e-324,
)  # fmt: skip


@pytest.mark.parametrize(
    ("partition", "key"),
    [
        (None, b'["c",null]'),
        ({"f": b"\x00\xff"}, b'["c",{"f":"AP8="}]'),
        ({"f": float("inf")}, b'["c",{"f":"Infinity"}]'),
        ({"f": float("nan")}, b'["c",{"f":"NaN"}]'),
        ({"f": -0.0}, b'["c",{"f":-0.0}]'),
    ],
)
def test_keys_that_connect_does_not_read_from_json(
    partition: dict[str, Any] | None, key: bytes
) -> None:
    assert offset_key_bytes("c", partition) == key


def test_a_tombstone_has_no_value() -> None:
    assert offset_value_bytes(None) is None
    assert offset_value_bytes({}) == b"{}"


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    with running_jvm() as jvm:
        yield jvm


def colliding(count: int) -> list[str]:
    """Keys with one hash code."""
    return ["".join(parts) for parts in product(("Aa", "BB"), repeat=4)][:count]


def same_bucket(count: int) -> list[str]:
    """Keys with different hash codes that share a bucket of 16 and of 32, but not of 64."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        code = java_hash(f"k{number}") & 0xFFFFFFFF
        if (code ^ code >> 16) & 31 == 5:
            found.append(f"k{number}")
        number += 1
    return found


def key_samples() -> list[list[str]]:
    """Key lists around each doubling of the table, with collisions, each in two orders."""
    chosen = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz_.-ABCé😀"
    samples = list(PARTITIONS)
    for size in (1, 5, 12, 13, 14, 24, 25, 26, 48, 49, 50, 100):
        words = {"".join(chosen.choices(letters, k=chosen.randint(1, 9))) for _ in range(size * 3)}
        samples.append(sorted(words)[:size])
    # the ninth key of a bucket doubles a table that is small
    samples += [colliding(count) for count in (2, 7, 8)]
    samples += [same_bucket(count) for count in (8, 9, 10, 11, 12, 13)]
    samples += [[*colliding(8), *same_bucket(10)]]
    return samples + [chosen.sample(keys, len(keys)) for keys in samples]


def through_connect(java: Any, converter: Any, value: object) -> Any:
    """A JSON object as Connect has it after reading it."""
    text = json.dumps(value, ensure_ascii=False).encode()
    return converter.toConnectData("", bytearray(text)).value()


def test_keys_and_values_against_connect(java: Any) -> None:
    converter = java.org.apache.kafka.connect.json.JsonConverter()
    converter.configure({"schemas.enable": "false"}, True)
    partitions: list[dict[str, Any]] = [
        {key: index for index, key in enumerate(keys)} for keys in key_samples()
    ]
    partitions.append({chr(code): chr(code) for code in (*range(0x20), 0x7F, 0x80, 0x2028, 0xFFFF)})
    partitions.append(
        {"s": '"\\/\b\f\n\r\t\x7f', "t": True, "n": None, "i": -(2**63), "text": "é😀"}
    )
    partitions.append({f"d{index}": value for index, value in enumerate(DOUBLES)})
    for partition in partitions:
        read = through_connect(java, converter, partition)
        name = 'a "b"/é'
        key = java.java.util.ArrayList()
        key.add(name)
        key.add(read)
        written = bytes(converter.fromConnectData("", None, key))
        assert offset_key_bytes(name, partition) == written
        assert offset_value_bytes(partition) == bytes(converter.fromConnectData("", None, read))


def test_hash_against_java(java: Any) -> None:
    for text in ("", "a", "Aa", "BB", "é", "😀", "\uffff", "polygenelubricants", "x" * 1000):
        assert java_hash(text) == java.java.util.Objects.hashCode(text)
