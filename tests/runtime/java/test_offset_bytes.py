"""Source offsets as the bytes that Java writes: keys and values of records, and Apache's file."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.java.offset_bytes import (
    NotAMap,
    decode_map,
    encode_map,
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


DATA = Path(__file__).parent / "data"
BY_JAVA = (DATA / "hash-map.ser").read_bytes()
TWO = (DATA / "hash-map-of-two.ser").read_bytes()

CONTENT = st.none() | st.binary(max_size=40)


def test_a_map_of_a_jdk_is_read() -> None:
    numbered = {f"k{at}".encode(): None if at % 3 == 2 else f"v{at}".encode() for at in range(12)}
    assert decode_map(BY_JAVA) == numbered | {b"s1": b"shared", b"s2": b"shared", None: b""}


def test_the_bytes_are_those_of_a_jdk() -> None:
    assert encode_map({b"k0": b"v0", b"k1": b"v1"}) == TWO


@pytest.mark.parametrize(
    ("entries", "threshold", "capacity"),
    [(0, 0, 16), (1, 12, 16), (12, 12, 16), (13, 24, 32), (25, 48, 64)],
)
def test_the_table_grows_as_in_java(entries: int, threshold: int, capacity: int) -> None:
    """HashMap doubles its table once more than three quarters are taken."""
    data = encode_map({bytes((at,)): b"" for at in range(entries)})
    at = data.index(b"xp?@\x00\x00") + 6
    fields = data[at : at + 4], data[at + 6 : at + 10], data[at + 10 : at + 14]
    assert [int.from_bytes(field, "big") for field in fields] == [threshold, capacity, entries]


@given(st.dictionaries(CONTENT, CONTENT, max_size=30))
def test_what_was_written_is_read(entries: dict[bytes | None, bytes | None]) -> None:
    read = decode_map(encode_map(entries))
    assert list(read.items()) == list(entries.items())


@pytest.mark.parametrize("whole", [BY_JAVA, TWO])
def test_a_truncated_stream_is_refused_wherever_it_ends(whole: bytes) -> None:
    for end in range(len(whole)):
        with pytest.raises(NotAMap, match="it ends at byte"):
            decode_map(whole[:end])


@given(st.integers(0, len(TWO) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_changes_content_alone(at: int, by: int) -> None:
    changed = bytearray(TWO)
    changed[at] ^= by
    try:
        found = decode_map(bytes(changed))
    except NotAMap:
        return
    # capacity and the fields of the table say nothing about the entries
    assert len(found) == 2
    assert sum(len(key or b"") + len(value or b"") for key, value in found.items()) == 8


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(NotAMap):
        decode_map(data)
    with pytest.raises(NotAMap):
        decode_map(TWO + data + b"x")


def _replaced(old: bytes, new: bytes) -> bytes:
    assert TWO.count(old) >= 1
    return TWO.replace(old, new, 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PK\x03\x04", "a Java serialization stream"),
        (_replaced(b"HashMap", b"TreeMap"), "a java.util.HashMap"),
        (_replaced(b"[B", b"[I"), "the class of byte arrays"),
        (_replaced(b"?@\x00\x00", b"\x7f\xc0\x00\x00"), "fields of a HashMap"),
        (_replaced(b"\x00\x00\x00\x02ur", b"\x7f\xff\xff\xffur"), "an array of bytes"),
        (_replaced(b"\x00\x00\x00\x02ur", b"\xff\xff\xff\xffur"), "the size of a HashMap"),
        (_replaced(b"\x02k0", b"\xffk0"), "it ends at byte"),
        (_replaced(b"\x00\x00\x00\x02k0", b"\x80\x00\x00\x02k0"), "the length of an array"),
        (_replaced(b"k1", b"k0"), "a key that is there once"),
        (_replaced(b"uq\x00~\x00\x02\x00\x00\x00\x02v1", b"t\x00\x02v1"), "an array of bytes"),
        (_replaced(b"uq\x00~\x00\x02\x00\x00\x00\x02v1", b"q\x00~\x00\x09"), "a reference to an"),
        (_replaced(b"uq\x00~\x00\x02\x00\x00\x00\x02v1", b"q\x00~\x00\x01"), "a reference to an"),
    ],
)
def test_other_content_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(NotAMap, match=reason):
        decode_map(data)
