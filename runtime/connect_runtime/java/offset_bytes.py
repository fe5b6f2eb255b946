"""The bytes of source offsets as Java writes them: keys and values of records, and Apache's file.

Connect compares offset keys byte by byte, and its own path through the REST API ends in a
java.util.HashMap, so a partition's fields come in that map's order. Written as Jackson writes JSON.

FileOffsetBackingStore writes a serialized `HashMap<byte[], byte[]>`. The stream is the one of the
Java Object Serialization Specification, chapter 6; HashMap's own part is the same in every JDK
since 1.2. The reader accepts only this grammar, creates no objects by name, and reads no more than
its bytes. Pure.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final, TypeVar

from connect_runtime.java.jackson import json_scalar
from connect_specs.desired import JsonScalar

V = TypeVar("V")

# HashMap turns a bucket of this many into a tree, but doubles the table first while it is small
_TREEIFY_BUCKET = 8
_TREEIFY_CAPACITY = 64


def java_hash(text: str) -> int:
    """Returns `String.hashCode()`: 32 bits with sign, over UTF-16 code units."""
    units = text.encode("utf-16-le", "surrogatepass")
    result = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def in_hash_map_order(mapping: Mapping[str, V]) -> dict[str, V]:
    """Returns the entries in the order of a java.util.HashMap that got them in this order.

    Exact up to eight keys in one of 64 or more buckets, where Java starts to build trees.
    """
    capacity = 16
    buckets: dict[int, list[tuple[str, int]]] = {}
    for size, key in enumerate(mapping, start=1):
        code = java_hash(key) & 0xFFFFFFFF
        spread = code ^ (code >> 16)
        bucket = buckets.setdefault(spread & (capacity - 1), [])
        bucket.append((key, spread))
        if len(bucket) > _TREEIFY_BUCKET and capacity < _TREEIFY_CAPACITY:
            capacity *= 2
            buckets = _rehashed(buckets, capacity)
        if size > capacity * 3 // 4:
            capacity *= 2
            buckets = _rehashed(buckets, capacity)
    return {key: mapping[key] for index in sorted(buckets) for key, _ in buckets[index]}


def _rehashed(
    buckets: Mapping[int, list[tuple[str, int]]], capacity: int
) -> dict[int, list[tuple[str, int]]]:
    rehashed: dict[int, list[tuple[str, int]]] = {}
    for bucket in buckets.values():
        for key, spread in bucket:
            rehashed.setdefault(spread & (capacity - 1), []).append((key, spread))
    return rehashed


def offset_key_bytes(connector: str, partition: Mapping[str, JsonScalar | bytes] | None) -> bytes:
    """Returns the key of a source offset record: `["name",{partition}]`."""
    return f"[{_json_scalar(connector)},{_json_map(partition)}]".encode()


def offset_value_bytes(offset: Mapping[str, JsonScalar | bytes] | None) -> bytes | None:
    """Returns the value of a source offset record; None is a tombstone."""
    return None if offset is None else _json_map(offset).encode()


def _json_map(mapping: Mapping[str, JsonScalar | bytes] | None) -> str:
    if mapping is None:
        return "null"
    entries = in_hash_map_order(mapping).items()
    return "{" + ",".join(f"{_json_scalar(k)}:{_json_scalar(v)}" for k, v in entries) + "}"


def _json_scalar(value: JsonScalar | bytes) -> str:
    if isinstance(value, str):
        value.encode()  # raises for half of a surrogate pair: no reader would find such an offset
    text = json_scalar(value)
    assert text is not None, "a scalar"
    return text


_MAGIC: Final = b"\xac\xed\x00\x05"
_NULL: Final = 0x70
_REFERENCE: Final = 0x71
_CLASS: Final = 0x72
_OBJECT: Final = b"\x73"
_ARRAY: Final = 0x75
_END: Final = b"\x78"
_NO_SUPERCLASS: Final = b"\x70"
_FIRST_HANDLE: Final = 0x7E0000

_MAP_CLASS: Final = (
    bytes((_CLASS,))
    + b"\x00\x11java.util.HashMap"
    + b"\x05\x07\xda\xc1\xc3\x16\x60\xd1"  # serialVersionUID
    + b"\x03"  # serializable, and writes more than its fields
    + b"\x00\x02F\x00\x0aloadFactorI\x00\x09threshold"
    + _END
    + _NO_SUPERCLASS
)
_BYTES_CLASS: Final = (
    bytes((_CLASS,))
    + b"\x00\x02[B"
    + b"\xac\xf3\x17\xf8\x06\x08\x54\xe0"
    + b"\x02"  # serializable
    + b"\x00\x00"
    + _END
    + _NO_SUPERCLASS
)
# The stream numbers what it holds: the map's class and the map come before the class of byte arrays
_BYTES_CLASS_HANDLE: Final = _FIRST_HANDLE + 2
_BLOCK: Final = b"\x77\x08"  # the map's capacity and size

_LOAD_FACTOR: Final = 0.75
_SMALLEST_TABLE: Final = 16

Entries = Mapping[bytes | None, bytes | None]


class NotAMap(ValueError):
    """Raised for bytes that Connect does not write. Its text names an offset, never a value."""


def encode_map(entries: Entries) -> bytes:
    """Returns the stream that Java would write for a HashMap filled with these entries."""
    capacity = _SMALLEST_TABLE
    while len(entries) > capacity * _LOAD_FACTOR:
        capacity *= 2
    threshold = int(capacity * _LOAD_FACTOR) if entries else 0
    stream = [
        _MAGIC,
        _OBJECT,
        _MAP_CLASS,
        struct.pack(">fi", _LOAD_FACTOR, threshold),
        _BLOCK,
        struct.pack(">ii", capacity, len(entries)),
    ]
    described = False
    for key, value in entries.items():
        for content in (key, value):
            if content is None:
                stream.append(bytes((_NULL,)))
                continue
            reference = struct.pack(">BI", _REFERENCE, _BYTES_CLASS_HANDLE)
            stream += (
                bytes((_ARRAY,)),
                reference if described else _BYTES_CLASS,
                struct.pack(">i", len(content)),
                content,
            )
            described = True
    stream.append(_END)
    return b"".join(stream)


def decode_map(data: bytes) -> dict[bytes | None, bytes | None]:
    """Returns the entries in the order of the stream. Raises NotAMap for anything else."""
    return _StreamReader(data).read()


class _StreamReader:
    """Reads one stream from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._arrays: dict[int, bytes] = {}
        self._next_handle = _BYTES_CLASS_HANDLE
        self._described = False

    def read(self) -> dict[bytes | None, bytes | None]:
        self._expect(_MAGIC, "a Java serialization stream")
        self._expect(_OBJECT + _MAP_CLASS, "a java.util.HashMap")
        load_factor, threshold = struct.unpack(">fi", self._take(8))
        if not (math.isfinite(load_factor) and load_factor > 0 and threshold >= 0):
            raise self._wrong("fields of a HashMap")
        self._expect(_BLOCK, "the size of a HashMap")
        capacity, size = struct.unpack(">ii", self._take(8))
        if capacity < 0 or size < 0:
            raise self._wrong("the size of a HashMap")
        entries: dict[bytes | None, bytes | None] = {}
        for _ in range(size):
            key, value = self._content(), self._content()
            if key in entries:
                raise self._wrong("a key that is there once")
            entries[key] = value
        self._expect(_END, "the end of a HashMap")
        if self._at != len(self._data):
            raise self._wrong("the end of the file")
        return entries

    def _content(self) -> bytes | None:
        """Returns one byte array, or null."""
        kind = self._take(1)[0]
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self._referred()
        if kind != _ARRAY:
            raise self._wrong("an array of bytes")
        self._class_of_bytes()
        handle = self._next_handle
        self._next_handle += 1
        (length,) = struct.unpack(">i", self._take(4))
        if length < 0:
            raise self._wrong("the length of an array")
        content = self._arrays[handle] = self._take(length)
        return content

    def _referred(self) -> bytes:
        (handle,) = struct.unpack(">I", self._take(4))
        content = self._arrays.get(handle)
        if content is None:
            raise self._wrong("a reference to an array of bytes")
        return content

    def _class_of_bytes(self) -> None:
        if not self._described:
            self._expect(_BYTES_CLASS, "the class of byte arrays")
            self._described = True
            self._next_handle += 1
            return
        reference = struct.pack(">BI", _REFERENCE, _BYTES_CLASS_HANDLE)
        self._expect(reference, "a reference to the class of byte arrays")

    def _expect(self, expected: bytes, name: str) -> None:
        actual = self._data[self._at : self._at + len(expected)]
        if actual != expected:
            if expected.startswith(actual):
                raise self._truncated()
            raise self._wrong(name)
        self._at += len(expected)

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise self._truncated()
        content = self._data[self._at : end]
        self._at = end
        return content

    def _truncated(self) -> NotAMap:
        return NotAMap(f"it ends at byte {len(self._data)}, in the middle of its content")

    def _wrong(self, name: str) -> NotAMap:
        return NotAMap(f"before byte {self._at + 1}, it is not {name}")
