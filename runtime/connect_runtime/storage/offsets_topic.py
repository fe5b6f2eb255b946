"""Encodes and decodes the source offsets in the offsets topic, the worker's and a connector's own.

Connect's format: key `["connector",{partition}]`, value the offset, null for none. Connect compares
keys byte by byte, so a partition that has a record is written again under that record's own bytes,
and a new one under the bytes that Connect would make. No I/O; values are never logged.

An offset in the connector's own topic wins; a partition that it lacks is looked up in the worker's
(KIP-618, smooth migration). So a removal needs a tombstone in both.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from connect_runtime.java.offset_bytes import offset_key_bytes, offset_value_bytes
from connect_runtime.storage.log import LogRecord, MalformedRecord, NewRecord, json_object
from connect_runtime.storage.snapshots import OffsetSnapshot, SourceOffset
from connect_specs.desired import JsonScalar, Offset, Partition, PartitionKey, partition_key
from connect_specs.diagnostics import Diagnostic, Failed

_log = logging.getLogger(__name__)

_LONG = range(-(1 << 63), 1 << 63)
Entries = Iterable[tuple[Mapping[str, JsonScalar | bytes], Mapping[str, Any] | None]]


def reduce_all(snapshot: OffsetSnapshot, records: Iterable[LogRecord]) -> OffsetSnapshot:
    """Returns the snapshot after `records`. Malformed ones are logged and change nothing.

    A connector's offsets are in the order of their last writes.
    """
    connectors = dict(snapshot.connectors)
    copied: dict[str, dict[bytes, SourceOffset]] = {}
    for record in records:
        try:
            subject_of_record = _decode_key(record.key)
            offset = None if record.value is None else json_object(record.value)
        except MalformedRecord as reason:
            _log.warning(
                "Offsets topic %s-%d, offset %d is ignored: %s",
                record.topic,
                record.partition,
                record.offset,
                reason,
            )
            continue
        if subject_of_record is None or record.key is None:
            continue
        connector, partition = subject_of_record
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
    """Returns the offset of a partition; the order of its fields does not matter.

    If records exist under several key bytes, the one under Connect's own counts, as it does for
    Apache's workers; else the newest. Raises Failed with Connect's text for a map that it could not
    hold.
    """
    check_map(partition)
    stored = snapshot.connectors.get(connector, {})
    own = stored.get(offset_key_bytes(connector, partition))
    if own is not None:
        return own.offset
    sought = source_partition_key(partition)
    for source_offset in reversed(list(stored.values())):
        if partition_key(source_offset.partition) == sought:
            return source_offset.offset
    return None


def offset_records(
    topic: str,
    connector: str,
    entries: Entries,
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
        stored_keys = keys.get(source_partition_key(partition), ())
        if offset is not None or not stored_keys:
            check_map(partition)
            check_map(offset)
        value = offset_value_bytes(offset)
        for key in stored_keys or (offset_key_bytes(connector, partition),):
            records.append(NewRecord(topic, key, value))
    return tuple(records)


def partition_keys(
    snapshot: OffsetSnapshot, connector: str
) -> dict[PartitionKey, tuple[bytes, ...]]:
    """Returns the record keys under which each partition is stored."""
    keys: dict[PartitionKey, tuple[bytes, ...]] = {}
    for source_offset in snapshot.connectors.get(connector, {}).values():
        partition = partition_key(source_offset.partition)
        keys[partition] = (*keys.get(partition, ()), source_offset.key)
    return keys


def subject(key: bytes | None) -> tuple[str, Partition] | None:
    """Returns a record's connector and partition; None for records that Connect never wrote."""
    try:
        return _decode_key(key)
    except MalformedRecord:
        return None


def changed_connector(record: LogRecord) -> str | None:
    """Returns the connector whose offsets a record changes; None if `reduce_all` ignores it."""
    try:
        subject_of_record = _decode_key(record.key)
        if record.value is not None:
            json_object(record.value)
    except MalformedRecord:
        return None
    return None if subject_of_record is None else subject_of_record[0]


def check_map(value: object) -> None:
    """Raises Failed with Connect's text unless `value` is None or a flat map that it can hold."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise _wrong_format("Offsets must be specified as a Map")
    for name, content in value.items():
        if not isinstance(name, str):
            raise _wrong_format("Offsets may only use String keys")
        kind = _unsupported_type(content)
        if kind is not None:
            raise _wrong_format(
                "Offsets may only contain primitive types as values, "
                f"but field {name} contains {kind}"
            )


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
        raise MalformedRecord("it has no key")
    try:
        content = orjson.loads(key)
    except orjson.JSONDecodeError:
        # from None: the error's `doc` holds the key
        raise MalformedRecord("its key is not JSON") from None
    if not isinstance(content, list) or len(content) != 2 or not isinstance(content[0], str):
        raise MalformedRecord("its key is not an array of a connector and a partition")
    if content[1] is None:
        return None
    if not isinstance(content[1], dict):
        raise MalformedRecord("its key's partition is not a JSON object")
    return content[0], content[1]


@dataclass(frozen=True, slots=True)
class OffsetWrites:
    """The records of an offset change, in write order: `removed`, tombstones in the worker's topic,
    which must succeed; `own`, everything in the connector's topic; `copies`, the rest in the
    worker's topic, which may fail. Without a topic of its own there is only `own`."""

    removed: tuple[NewRecord, ...]
    own: tuple[NewRecord, ...]
    copies: tuple[NewRecord, ...]


@dataclass(frozen=True, slots=True)
class LayeredOffsets:
    """One connector's offsets. `underneath` names the worker's topic; None: `topic` is the only
    one."""

    connector: str
    topic: str
    own: OffsetSnapshot
    underneath: str | None = None
    worker_offsets: OffsetSnapshot = field(default_factory=OffsetSnapshot)

    @property
    def merged(self) -> OffsetSnapshot:
        """Returns the offsets that the connector and its tasks see."""
        if self.underneath is None:
            return self.own
        return _over(self.own, self.worker_offsets, self.connector)

    @property
    def copied(self) -> OffsetSnapshot:
        """Returns the same partitions, with the worker topic's keys where it has them."""
        return _over(self.worker_offsets, self.own, self.connector)

    def writes(self, entries: Entries) -> OffsetWrites:
        """Sets the offset of each partition, or removes it if it is None.

        A partition keeps its key bytes, in either topic. Raises Failed with Connect's text for maps
        that it could not hold.
        """
        changes = list(entries)
        if self.underneath is None:
            return OffsetWrites(
                (), offset_records(self.topic, self.connector, changes, self.own), ()
            )
        in_worker_topic = offset_records(self.underneath, self.connector, changes, self.copied)
        return OffsetWrites(
            removed=tuple(record for record in in_worker_topic if record.value is None),
            own=offset_records(self.topic, self.connector, changes, self.merged),
            copies=tuple(record for record in in_worker_topic if record.value is not None),
        )


def _over(upper: OffsetSnapshot, lower: OffsetSnapshot, connector: str) -> OffsetSnapshot:
    """Returns the connector's offsets: those of `upper`, and from `lower` the partitions that it
    lacks."""
    first = upper.connectors.get(connector, {})
    hidden = {partition_key(source_offset.partition) for source_offset in first.values()}
    merged: dict[bytes, SourceOffset] = {
        key: source_offset
        for key, source_offset in lower.connectors.get(connector, {}).items()
        if partition_key(source_offset.partition) not in hidden
    }
    merged |= first
    return OffsetSnapshot({connector: merged} if merged else {})
