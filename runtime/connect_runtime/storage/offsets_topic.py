"""Encodes and decodes the source offsets in the offsets topic.

Connect's format: key `["connector",{partition}]`, value the offset, null for none. Connect compares
keys byte by byte, so a partition that has a record is written again under that record's own bytes,
and a new one under the bytes that Connect would make. No I/O; values are never logged.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.snapshots import OffsetSnapshot, SourceOffset
from connect_specs.desired import JsonScalar, Offset, Partition
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.java_map import offset_key_bytes, offset_value_bytes
from connect_specs.partitions import PartitionKey, partition_key

_log = logging.getLogger(__name__)

_LONG = range(-(1 << 63), 1 << 63)


def reduce(snapshot: OffsetSnapshot, record: LogRecord) -> OffsetSnapshot:
    """Returns the snapshot after one more record."""
    return reduce_all(snapshot, (record,))


def reduce_all(snapshot: OffsetSnapshot, records: Iterable[LogRecord]) -> OffsetSnapshot:
    """Returns the snapshot after `records`. Malformed ones are logged and change nothing.

    A connector's offsets are in the order of their last writes.
    """
    connectors = dict(snapshot.connectors)
    copied: dict[str, dict[bytes, SourceOffset]] = {}
    for record in records:
        try:
            named = _decode_key(record.key)
            offset = None if record.value is None else _json_object(record.value)
        except _Malformed as reason:
            _log.warning(
                "Offsets topic %s-%d, offset %d is ignored: %s",
                record.topic,
                record.partition,
                record.offset,
                reason,
            )
            continue
        if named is None or record.key is None:
            continue
        connector, partition = named
        offsets = copied.get(connector)
        if offsets is None:
            offsets = copied[connector] = dict(connectors.get(connector, {}))
        offsets.pop(record.key, None)
        if offset is not None:
            offsets[record.key] = SourceOffset(partition, offset, record.key)
    for connector, offsets in copied.items():
        if offsets:
            connectors[connector] = offsets
        else:
            connectors.pop(connector, None)
    return OffsetSnapshot(connectors=connectors)


def offset_of(
    snapshot: OffsetSnapshot, connector: str, partition: Mapping[str, JsonScalar | bytes]
) -> Offset | None:
    """Returns the offset of a partition, whatever the order of its fields.

    If records exist under several key bytes, the one under Connect's own counts, as it does for
    Apache's workers; else the newest. Raises Failed with Connect's text for a map that it could not
    hold.
    """
    check_map(partition)
    held = snapshot.connectors.get(connector, {})
    own = held.get(offset_key_bytes(connector, partition))
    if own is not None:
        return own.offset
    sought = source_partition_key(partition)
    for found in reversed(list(held.values())):
        if partition_key(found.partition) == sought:
            return found.offset
    return None


def offset_records(
    topic: str,
    connector: str,
    entries: Iterable[tuple[Mapping[str, JsonScalar | bytes], Mapping[str, Any] | None]],
    snapshot: OffsetSnapshot,
) -> tuple[NewRecord, ...]:
    """Sets the offset of each partition, or removes it if it is None.

    Written under every key that holds the partition now, so that no reader finds an older one.
    Raises Failed with Connect's text for maps that it could not hold, unless one is there and is
    to be removed.
    """
    keys = partition_keys(snapshot, connector)
    records = []
    for partition, offset in entries:
        held = keys.get(source_partition_key(partition), ())
        if offset is not None or not held:
            check_map(partition)
            check_map(offset)
        value = offset_value_bytes(offset)
        for key in held or (offset_key_bytes(connector, partition),):
            records.append(NewRecord(topic, key, value))
    return tuple(records)


def partition_keys(
    snapshot: OffsetSnapshot, connector: str
) -> dict[PartitionKey, tuple[bytes, ...]]:
    """Returns the record keys under which each partition is stored."""
    keys: dict[PartitionKey, tuple[bytes, ...]] = {}
    for found in snapshot.connectors.get(connector, {}).values():
        partition = partition_key(found.partition)
        keys[partition] = (*keys.get(partition, ()), found.key)
    return keys


def subject(key: bytes | None) -> tuple[str, Partition] | None:
    """Returns a record's connector and partition; None for records that Connect never wrote."""
    try:
        return _decode_key(key)
    except _Malformed:
        return None


def changed_connector(record: LogRecord) -> str | None:
    """Returns the connector whose offsets a record changes; None if `reduce` ignores it."""
    try:
        named = _decode_key(record.key)
        if record.value is not None:
            _json_object(record.value)
    except _Malformed:
        return None
    return None if named is None else named[0]


def check_map(value: object) -> None:
    """Raises Failed with Connect's text unless `value` is None or a flat map that it can hold."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise _wrong_format("Offsets must be specified as a Map")
    for field, content in value.items():
        if not isinstance(field, str):
            raise _wrong_format("Offsets may only use String keys")
        kind = _unsupported_type(content)
        if kind is not None:
            raise _wrong_format(
                "Offsets may only contain primitive types as values, "
                f"but field {field} contains {kind}"
            )


class _Malformed(Exception):
    """Why a record is ignored. Never holds a value."""


def _wrong_format(text: str) -> Failed:
    return Failed(Diagnostic("offsets.format", text))


def _unsupported_type(content: object) -> str | None:
    if isinstance(content, int) and not isinstance(content, bool) and content not in _LONG:
        return "class java.math.BigInteger"
    if content is None or isinstance(content, (str, int, float, bytes)):
        return None
    if isinstance(content, Mapping):
        return "MAP"
    if isinstance(content, (list, tuple)):
        return "ARRAY"
    return type(content).__name__


def source_partition_key(partition: Mapping[str, JsonScalar | bytes]) -> PartitionKey:
    """Returns the key that equal partitions share. Bytes come back from the topic as base64 text,
    so they compare as that."""
    return partition_key(
        {
            field: base64.b64encode(content).decode() if isinstance(content, bytes) else content
            for field, content in partition.items()
        }
    )


def _decode_key(key: bytes | None) -> tuple[str, Partition] | None:
    """Returns a key's connector and partition; None where Connect writes no partition."""
    if key is None:
        raise _Malformed("it has no key")
    try:
        parts = orjson.loads(key)
    except orjson.JSONDecodeError:
        # from None: the error's `doc` holds the key
        raise _Malformed("its key is not JSON") from None
    if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[0], str):
        raise _Malformed("its key is not an array of a connector and a partition")
    if parts[1] is None:
        return None
    if not isinstance(parts[1], dict):
        raise _Malformed("its key's partition is not a JSON object")
    return parts[0], parts[1]


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise _Malformed("its value is not JSON") from None
    if not isinstance(found, dict):
        raise _Malformed("its value is not a JSON object")
    return found
