"""Encodes source offset keys and values as the bytes that Connect writes.

Connect compares offset keys byte by byte, and its own path through the REST API ends in a
java.util.HashMap, so a partition's fields come in that map's order. Written as Jackson writes JSON.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import TypeVar

from connect_runtime.java.jackson import json_string
from connect_runtime.java.text import java_double
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
    return f"[{_json_text(connector)},{_json_map(partition)}]".encode()


def offset_value_bytes(offset: Mapping[str, JsonScalar | bytes] | None) -> bytes | None:
    """Returns the value of a source offset record; None is a tombstone."""
    return None if offset is None else _json_map(offset).encode()


def _json_map(mapping: Mapping[str, JsonScalar | bytes] | None) -> str:
    if mapping is None:
        return "null"
    entries = in_hash_map_order(mapping).items()
    return "{" + ",".join(f"{_json_text(k)}:{_json_value(v)}" for k, v in entries) + "}"


def _json_value(value: JsonScalar | bytes) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # Jackson quotes numbers that JSON cannot write
        return java_double(value) if math.isfinite(value) else f'"{java_double(value)}"'
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode("ascii")}"'
    return _json_text(value)


def _json_text(text: str) -> str:
    text.encode()  # raises for half of a surrogate pair: no reader would find such an offset
    return json_string(text)
