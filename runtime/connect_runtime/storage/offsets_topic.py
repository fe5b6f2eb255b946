"""Which source offsets does the offsets topic hold, and which records change them?

Connect's format: key `["connector",{partition}]`, value the offset, null for none. Connect compares
keys byte by byte, so a partition that has a record is written again under that record's own bytes,
and a new one under the bytes that Connect would make. No I/O; values never reach the log.
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
from connect_specs.offsets import canonical_partition

_log = logging.getLogger(__name__)

_LONG = range(-(1 << 63), 1 << 63)


def reduce(snapshot: OffsetSnapshot, record: LogRecord) -> OffsetSnapshot:
    """The snapshot after one more record."""
    return reduce_all(snapshot, (record,))


def reduce_all(snapshot: OffsetSnapshot, records: Iterable[LogRecord]) -> OffsetSnapshot:
    """The snapshot after `records`. Malformed ones are logged and change nothing.

    A connector's offsets are in the order in which they were written last.
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
    """The offset of a partition, in whichever order its fields were written.

    Where records exist under several key bytes, the one under Connect's own counts, as it does
    for Apache's workers; else the newest.
    """
    held = snapshot.connectors.get(connector, {})
    own = held.get(offset_key_bytes(connector, partition))
    if own is not None:
        return own.offset
    sought = canonical_source_partition(partition)
    for found in reversed(list(held.values())):
        if canonical_partition(found.partition) == sought:
            return found.offset
    return None


def offset_records(
    topic: str,
    connector: str,
    entries: Iterable[tuple[Mapping[str, JsonScalar | bytes], Mapping[str, Any] | None]],
    snapshot: OffsetSnapshot,
) -> tuple[NewRecord, ...]:
    """Sets the offset of each partition, or removes it where it is None.

    Written under every key that holds the partition now, so that no reader finds an older one.
    Raises Failed with Connect's text for maps that it could not hold.
    """
    keys = partition_keys(snapshot, connector)
    records = []
    for partition, offset in entries:
        check_map(partition)
        check_map(offset)
        value = offset_value_bytes(offset)
        own = (offset_key_bytes(connector, partition),)
        for key in keys.get(canonical_source_partition(partition), own):
            records.append(NewRecord(topic, key, value))
    return tuple(records)


def partition_keys(snapshot: OffsetSnapshot, connector: str) -> dict[str, tuple[bytes, ...]]:
    """The keys under which each partition is held, by `canonical_partition`."""
    keys: dict[str, tuple[bytes, ...]] = {}
    for found in snapshot.connectors.get(connector, {}).values():
        canonical = canonical_partition(found.partition)
        keys[canonical] = (*keys.get(canonical, ()), found.key)
    return keys


def subject(key: bytes | None) -> tuple[str, Partition] | None:
    """The connector and the partition that a record is about; None for what Connect never wrote."""
    try:
        return _decode_key(key)
    except _Malformed:
        return None


def check_map(value: object) -> None:
    """Raises Failed with Connect's text unless `value` is None or a flat map that it can hold."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise _wrong_format("Offsets must be specified as a Map")
    for field, content in value.items():
        if not isinstance(field, str):
            raise _wrong_format("Offsets may only use String keys")
        kind = _unfit_kind(content)
        if kind is not None:
            raise _wrong_format(
                "Offsets may only contain primitive types as values, "
                f"but field {field} contains {kind}"
            )


class _Malformed(Exception):
    """Why a record is ignored. Never holds a value."""


def _wrong_format(text: str) -> Failed:
    return Failed(Diagnostic("offsets.format", text))


def _unfit_kind(content: object) -> str | None:
    if isinstance(content, int) and not isinstance(content, bool) and content not in _LONG:
        return "java.math.BigInteger"
    if content is None or isinstance(content, (str, int, float, bytes)):
        return None
    if isinstance(content, Mapping):
        return "MAP"
    if isinstance(content, (list, tuple)):
        return "ARRAY"
    return type(content).__name__


def canonical_source_partition(partition: Mapping[str, JsonScalar | bytes]) -> str:
    """One text for equal partitions. Bytes come back from the topic as base64 text, so that is
    what they compare as."""
    return canonical_partition(
        {
            field: base64.b64encode(content).decode() if isinstance(content, bytes) else content
            for field, content in partition.items()
        }
    )


def _decode_key(key: bytes | None) -> tuple[str, Partition] | None:
    """The connector and partition that a key names; None where Connect writes no partition."""
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
