"""Java's serialized maps of byte arrays: what a JDK wrote is read, and nothing else is.

`data/hash-map.ser` and `data/hash-map-of-two.ser` were written by ObjectOutputStream of JDK 17. The
first has null values, a null key, and one array that two keys share.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.java.offset_bytes import NotAMap, decode_map, encode_map

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
