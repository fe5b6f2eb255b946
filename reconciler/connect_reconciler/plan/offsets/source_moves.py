"""Effects of moving a source's offset, in units of its shape if that is known.

The shapes are a table: to add one, add a row. A row counts only if partition and offsets have
exactly the keys that it names. Offsets of no row are opaque: only the connector can order them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from connect_reconciler.actions import Counts, Direction, Unit
from connect_reconciler.model.offsets import same_offset
from connect_reconciler.plan.offsets.measures import (
    Distance,
    Measure,
    count,
    jdbc_time,
    lsn_text,
    moment,
    mysql_binlog,
    mysql_gtids,
    number,
    postgres_lsn,
    sql_server_lsn,
)
from connect_specs.desired import Offset, Partition

# Counts are None if they are unknown
MoveEffect: TypeAlias = tuple[str, Direction, Counts | None]

_OPAQUE = "only the connector knows what that re-reads or jumps over"

# Ways of going back
_GOES_BACK = "goes back by {size}{place}"
_REREADS = "re-reads {size}{place}"
_GOES_BACK_IN_SLOT = (
    "goes back by {size}{place}, of which PostgreSQL sends again only what its slot has not"
    " confirmed yet, or the task fails (no longer available); to read again, reset: true takes a"
    " new snapshot, and an incremental snapshot reads tables"
)
_SNAPSHOT = "takes the snapshot that snapshot.mode says, then reads the changes after it"
_GOES_BACK_IN_BINLOG = "goes back by {size}, re-read if the server still keeps it{place}"


@dataclass(frozen=True, slots=True)
class Shape:
    """Offsets that have all of `fields`; their other keys match `optional`.

    `measures` are tried in order, and the first that finds a difference decides. If a field of
    `unless` is set, the position is not the one that it states. `partitions` are sets of keys;
    `label` is the key by which users know a partition. `back` and `start` are sentences: of going
    back by a `size` to a `place`, and of having no offset. Unless the source `rereads`, the amount
    that is read again on going back is unknown.
    """

    partitions: tuple[frozenset[str], ...]
    fields: frozenset[str]
    measures: tuple[Measure, ...]
    optional: str = ""
    unless: frozenset[str] = frozenset()
    label: str = ""
    back: str = _GOES_BACK
    start: str = "begins as if it had never read it"
    rereads: bool = True

    def fits(self, partition: Partition, offset: Offset) -> bool:
        """Returns whether this is such an offset of such a partition."""
        if partition.keys() not in self.partitions or not self.fields <= offset.keys():
            return False
        optional = offset.keys() - self.fields - self.unless
        return all(re.fullmatch(self.optional, key) for key in optional)

    def counts(self, offset: Offset) -> bool:
        """Returns whether its position can be compared with another."""
        return not any(_is_set(offset.get(key)) for key in self.unless)


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _copies(partition: str, field: str, unit: Unit, label: str) -> Shape:
    """Returns the shape of a source that copies a file or a topic, and counts its position."""
    return Shape(
        (_keys(partition),),
        _keys(field),
        (count(field, unit),),
        label=label,
        back=_REREADS,
        start="reads from its start",
    )


def _unread(partition: str) -> Shape:
    """Returns the shape of a source whose offsets, all 0, count for nothing."""
    return Shape(
        (_keys(partition),),
        _keys("offset"),
        (count("offset", "offset"),),
        start="changes nothing: MirrorMaker never reads this offset",
    )


def _jdbc(fields: str, *measures: Measure, optional: str = "") -> Shape:
    """Returns the shape of a JDBC source of Confluent or Aiven."""
    tables = (_keys("table"), _keys("protocol table"), _keys("query"))
    return Shape(tables, _keys(fields), measures, optional, back=_REREADS)


def _debezium(
    fields: str,
    *measures: Measure,
    optional: str,
    partition: str = "server",
    back: str = _GOES_BACK,
    rereads: bool = True,
) -> Shape:
    """Returns the shape of a Debezium source. `partition` holds the keys of its partitions, the
    label last."""
    common = (
        "ts_usec|ts_sec|transaction_id|transaction_data_collection_order_.*|incremental_snapshot_.*"
    )
    return Shape(
        (_keys(partition),),
        _keys(fields),
        measures,
        optional=f"{optional}|{common}",
        unless=_keys("snapshot last_snapshot_record snapshot_completed"),
        label=partition.split()[-1],
        back=back,
        start=_SNAPSHOT,
        rereads=rereads,
    )


_BY_NUMBER = count("incrementing", "id", prefix="the rows of ")
_BY_TIME = jdbc_time()

SHAPES: Sequence[Shape] = (
    # FileStreamSource
    _copies("filename", "position", "byte", "filename"),
    # MirrorMaker's MirrorSourceConnector, and those that write an offset and never read it
    _copies("cluster topic partition", "offset", "offset", "topic"),
    _unread("group topic partition"),
    _unread("sourceClusterAlias targetClusterAlias"),
    # JDBC: by a number, by a time, by both
    _jdbc("incrementing", _BY_NUMBER),
    _jdbc("timestamp", _BY_TIME, optional="timestamp_nanos"),
    _jdbc("timestamp incrementing", _BY_TIME, _BY_NUMBER, optional="timestamp_nanos"),
    # PostgreSQL; reading begins at one of its three positions
    _debezium(
        "lsn",
        postgres_lsn("lsn", "lsn_proc", "lsn_commit"),
        optional="lsn_proc|lsn_commit|txId|xmin|messageType",
        back=_GOES_BACK_IN_SLOT,
        rereads=False,
    ),
    # MySQL and MariaDB: by GTIDs where the server has them, else by file and position
    _debezium(
        "file pos gtids",
        mysql_gtids(),
        optional="row|event|server_id",
        back=_GOES_BACK_IN_BINLOG,
    ),
    _debezium(
        "file pos", mysql_binlog(), optional="row|event|server_id", back=_GOES_BACK_IN_BINLOG
    ),
    # SQL Server
    _debezium(
        "commit_lsn",
        sql_server_lsn("commit_lsn"),
        sql_server_lsn("change_lsn"),
        optional="change_lsn|event_serial_no",
        partition="server database",
    ),
)

_UNKNOWN = Shape((), frozenset(), ())


def partition_label(partition: Partition) -> str:
    """Returns a short name of a source partition: its file or table, or all of its fields."""
    for shape in SHAPES:
        if partition.keys() in shape.partitions and shape.label in partition:
            label, numbered = str(partition[shape.label]), partition.get("partition")
            if name := label if numbered is None else f"{label}-{numbered}":
                return name
    return ", ".join(f"{key}={_text(partition[key])}" for key in sorted(partition))


def source_move(
    partition: Partition, current: Offset | None, target: Offset | None, *, reads_on: bool
) -> MoveEffect:
    """Returns the effect of a move between two offsets of a source partition. If the source
    `reads_on`, the current offset is further by the time that it is stopped."""
    label = partition_label(partition)
    if target is None:
        if current is None:
            return no_offset(label), "same", Counts(exact=not reads_on)
        start = (shape_of(partition, current) or _UNKNOWN).start
        return _sentence(label, current, None, start), "forgotten", None
    if current is None:
        return _sentence(label, None, target, "starts there"), "start", None
    if same_offset(current, target):
        unchanged = stays(label, offset_text(target), reads_on=reads_on)
        return unchanged, "same", Counts(exact=not reads_on)
    shape = shape_of(partition, current, target)
    if shape is not None:
        distance = _first(shape, current, target)
        effect = None if distance is None else _in_shape(shape, distance, reads_on=reads_on)
    else:
        distance, effect = _in_one_field(current, target, reads_on=reads_on)
    if distance is None or effect is None:
        return _sentence(label, current, target, _OPAQUE), "unclear", None
    unread = distance.direction == "back" and shape is not None and not shape.rereads
    counts = None if unread else _counts(distance, reads_on=reads_on)
    return _sentence(label, current, target, effect), distance.direction, counts


def no_offset(label: str) -> str:
    """Returns the effect of a reset on a partition without an offset."""
    return f"{label} has no offset: nothing to forget"


def stays(label: str, offset: str, *, reads_on: bool) -> str:
    """Returns the effect of a move to the offset that the connector has."""
    until = ": what it reads until it is stopped is re-read" if reads_on else ""
    return f"{label} stays at {offset}{until}"


def offset_text(offset: Offset | None) -> str:
    """Returns `position 6`, several of them, or `none`."""
    if offset is None:
        return "none"
    return ", ".join(f"{key} {_text(offset[key])}" for key in sorted(offset)) or "{}"


def _sentence(label: str, current: Offset | None, target: Offset | None, effect: str) -> str:
    return f"{label} {offset_text(current)} → {offset_text(target)}: {effect}"


def _first(shape: Shape, current: Offset, target: Offset) -> Distance | None:
    """Returns the first difference; None if a measure before it cannot compare the offsets."""
    if not (shape.counts(current) and shape.counts(target)):
        return None
    for measure in shape.measures:
        distance = measure(current, target)
        if distance is None or distance.direction != "same":
            return distance
    return None


def _in_shape(shape: Shape, distance: Distance, *, reads_on: bool) -> str:
    size = _size(distance, reads_on=reads_on)
    if size is None:
        return _goes(distance, reads_on=reads_on)
    if distance.direction == "back":
        place = f", from {distance.place}" if distance.place else ""
        return shape.back.format(size=size, place=place)
    return f"jumps over {size}" + (f", up to {distance.place}" if distance.place else "")


def _in_one_field(
    current: Offset, target: Offset, *, reads_on: bool
) -> tuple[Distance | None, str | None]:
    """Compares opaque offsets that differ in one field."""
    changed = [key for key in target if current.get(key) != target[key]]
    if current.keys() != target.keys() or len(changed) != 1:
        return None, None
    field = changed[0]
    for measure in (lsn_text(field), moment(field), number(field)):
        distance = measure(current, target)
        if distance is not None and distance.direction != "same":
            return distance, f"{field} {_goes(distance, reads_on=reads_on)}"
    return None, None


def _goes(distance: Distance, *, reads_on: bool) -> str:
    """Returns the effect on a position of which no more is known."""
    size = _size(distance, reads_on=reads_on)
    by = "" if size is None else f" by {size}"
    to = f" to {distance.place}" if distance.place else ""
    return f"goes {distance.direction}{by}{to}"


def _size(distance: Distance, *, reads_on: bool) -> str | None:
    """Returns the amount, a bound if the source reads on; None if it is unknown."""
    # A part of a second has no number that could bound it
    if not distance.amount or (reads_on and not distance.count):
        return None
    bound = ""
    if reads_on:
        bound = "at least " if distance.direction == "back" else "at most "
    return f"{distance.prefix}{bound}{distance.amount}{distance.suffix}"


def _counts(distance: Distance, *, reads_on: bool) -> Counts | None:
    if distance.unit is None:
        return None
    back = distance.direction == "back"
    redelivered, skipped = (distance.count, 0) if back else (0, distance.count)
    return Counts(redelivered, skipped, unit=distance.unit, exact=not reads_on)


def _text(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return str(value)


def shape_of(partition: Partition, *offsets: Offset) -> Shape | None:
    """Returns the first shape that all of these offsets of the partition fit."""
    for shape in SHAPES:
        if all(shape.fits(partition, offset) for offset in offsets):
            return shape
    return None


def _is_set(value: object) -> bool:
    return value not in (None, False, "false", "")
