"""What moving a source's offset does, in units of its shape where that is known.

The shapes are a table: to teach one, add a row. A row counts only where partition and offsets have
exactly the keys that it names. Whatever no row knows is opaque: only the connector can tell what
comes before what.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from connect_reconciler.model.actions import Counts, Direction, Unit
from connect_reconciler.model.offsets import same_offset
from connect_reconciler.model.reasons import Effect, EffectCode, effect
from connect_reconciler.plan.offsets.measures import (
    Measure,
    Step,
    count,
    jdbc_time,
    lsn_text,
    moment,
    mysql_binlog,
    mysql_gtids,
    number,
    postgres_lsn,
    sized,
    sql_server_lsn,
)
from connect_specs.desired import Offset, Partition

# Counts are None where nobody can tell
Moved: TypeAlias = tuple[Effect, Direction, Counts | None]

_OPAQUE = effect("only-the-connector-knows")


@dataclass(frozen=True, slots=True)
class Shape:
    """Offsets that have all of `fields`, and beside them only what matches `beside`.

    `measures` are asked in order, and the first that sees a difference decides. Where a field of
    `unless` is set, the position does not mean what it says. `partitions` are sets of keys; `label`
    names the key that a reader knows a partition by. `back` and `start` are its effects. Unless it
    `rereads`, nobody can tell how much of the way back is read again.
    """

    partitions: tuple[frozenset[str], ...]
    fields: frozenset[str]
    measures: tuple[Measure, ...]
    beside: str = ""
    unless: frozenset[str] = frozenset()
    label: str = ""
    back: EffectCode = "source-goes-back"
    start: EffectCode = "source-begins-anew"
    rereads: bool = True

    def fits(self, partition: Partition, offset: Offset) -> bool:
        """Whether this is such an offset of such a partition."""
        if partition.keys() not in self.partitions or not self.fields <= offset.keys():
            return False
        rest = offset.keys() - self.fields - self.unless
        return all(re.fullmatch(self.beside, key) for key in rest)

    def counts(self, offset: Offset) -> bool:
        """Whether its position can be compared with another."""
        return not any(_is_set(offset.get(key)) for key in self.unless)


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _copies(partition: str, field: str, unit: Unit, label: str) -> Shape:
    """A source that copies a file or a topic, and counts how far it is."""
    return Shape(
        (_keys(partition),),
        _keys(field),
        (count(field, unit),),
        label=label,
        back="source-reads-again",
        start="source-reads-from-start",
    )


def _jdbc(fields: str, *measures: Measure, beside: str = "") -> Shape:
    """A JDBC source of Confluent or Aiven."""
    tables = (_keys("table"), _keys("protocol table"), _keys("query"))
    return Shape(tables, _keys(fields), measures, beside, back="source-reads-again")


def _debezium(
    fields: str,
    *measures: Measure,
    beside: str,
    partition: str = "server",
    back: EffectCode = "source-goes-back",
    rereads: bool = True,
) -> Shape:
    """A source of Debezium. `partition` holds the keys of its partitions; their last names them."""
    of_any = (
        "ts_usec|ts_sec|transaction_id|transaction_data_collection_order_.*|incremental_snapshot_.*"
    )
    return Shape(
        (_keys(partition),),
        _keys(fields),
        measures,
        beside=f"{beside}|{of_any}",
        unless=_keys("snapshot last_snapshot_record snapshot_completed"),
        label=partition.split()[-1],
        back=back,
        rereads=rereads,
    )


_BY_NUMBER = sized("rows-of", count("incrementing", "id"))
_BY_TIME = sized("rows-of", jdbc_time)

SHAPES: Sequence[Shape] = (
    # FileStreamSource
    _copies("filename", "position", "byte", "filename"),
    # MirrorMaker's MirrorSourceConnector
    _copies("cluster topic partition", "offset", "offset", "topic"),
    # JDBC: by a number, by a time, by both
    _jdbc("incrementing", _BY_NUMBER),
    _jdbc("timestamp", _BY_TIME, beside="timestamp_nanos"),
    _jdbc("timestamp incrementing", _BY_TIME, _BY_NUMBER, beside="timestamp_nanos"),
    # PostgreSQL; reading begins at one of its three positions
    _debezium(
        "lsn",
        postgres_lsn("lsn", "lsn_proc", "lsn_commit"),
        beside="lsn_proc|lsn_commit|txId|xmin|messageType",
        back="source-goes-back-in-slot",
        rereads=False,
    ),
    # MySQL and MariaDB: by GTIDs where the server has them, else by file and position
    _debezium(
        "file pos gtids",
        mysql_gtids,
        beside="row|event|server_id",
        back="source-goes-back-in-binlog",
    ),
    _debezium(
        "file pos", mysql_binlog, beside="row|event|server_id", back="source-goes-back-in-binlog"
    ),
    # SQL Server
    _debezium(
        "commit_lsn",
        sql_server_lsn("commit_lsn"),
        sql_server_lsn("change_lsn"),
        beside="change_lsn|event_serial_no",
        partition="server database",
    ),
)

_UNKNOWN = Shape((), frozenset(), ())


def partition_label(partition: Partition) -> str:
    """A short name of a source partition: its file or table, or all of its fields."""
    for shape in SHAPES:
        if partition.keys() in shape.partitions and shape.label in partition:
            label, part = str(partition[shape.label]), partition.get("partition")
            if named := label if part is None else f"{label}-{part}":
                return named
    return ", ".join(f"{key}={_text(partition[key])}" for key in sorted(partition))


def source_move(
    partition: Partition, old: Offset | None, new: Offset | None, *, reads_on: bool
) -> Moved:
    """What happens between two offsets of one source partition. If it `reads_on`, the old one is
    further by the time that it is stopped."""
    label = partition_label(partition)
    if new is None:
        if old is None:
            return effect("no-offset", partition=label), "same", Counts(exact=not reads_on)
        start = effect((shape_of(partition, old) or _UNKNOWN).start)
        return _told(label, old, None, start), "forgotten", None
    if old is None:
        return _told(label, None, new, effect("starts-there")), "start", None
    if same_offset(old, new):
        same = stays(label, offset_text(new), reads_on=reads_on)
        return same, "same", Counts(exact=not reads_on)
    shape = shape_of(partition, old, new)
    if shape is not None:
        step = _first(shape, old, new)
        what = None if step is None else _in_shape(shape, step, reads_on=reads_on)
    else:
        step, what = _in_one_field(old, new, reads_on=reads_on)
    if step is None or what is None:
        return _told(label, old, new, _OPAQUE), "unclear", None
    if step.direction == "back" and shape is not None and not shape.rereads:
        return _told(label, old, new, what), step.direction, None
    return _told(label, old, new, what), step.direction, _counts(step, reads_on=reads_on)


def stays(label: str, offset: str, *, reads_on: bool) -> Effect:
    """A move to the offset that the connector has."""
    until = effect("and-until-stopped") if reads_on else None
    return effect("stays", partition=label, offset=offset, until=until)


def _told(label: str, old: Offset | None, new: Offset | None, what: Effect) -> Effect:
    none = effect("none")
    return effect(
        "moved",
        partition=label,
        old=none if old is None else offset_text(old),
        new=none if new is None else offset_text(new),
        what=what,
        gone=None,
        unread=None,
    )


def offset_text(offset: Offset) -> str:
    """`position 6`, or several of them."""
    return ", ".join(f"{key} {_text(offset[key])}" for key in sorted(offset)) or "{}"


def _first(shape: Shape, old: Offset, new: Offset) -> Step | None:
    """The first difference; None where a measure cannot tell before one was found."""
    if not (shape.counts(old) and shape.counts(new)):
        return None
    for measure in shape.measures:
        step = measure(old, new)
        if step is None or step.direction != "same":
            return step
    return None


def _in_shape(shape: Shape, step: Step, *, reads_on: bool) -> Effect:
    size = _size(step, reads_on=reads_on)
    if size is None:
        return _goes(step, reads_on=reads_on)
    back = step.direction == "back"
    place = effect("from-place" if back else "up-to-place", place=step.place)
    code = shape.back if back else "source-skips"
    return effect(code, size=size, place=place if step.place else None)


def _in_one_field(old: Offset, new: Offset, *, reads_on: bool) -> tuple[Step | None, Effect | None]:
    """Of offsets of which nothing is known, but that they differ in one field."""
    changed = [key for key in new if old.get(key) != new[key]]
    if old.keys() != new.keys() or len(changed) != 1:
        return None, None
    field = changed[0]
    for measure in (lsn_text(field), moment(field), number(field)):
        step = measure(old, new)
        if step is not None and step.direction != "same":
            goes = _goes(step, reads_on=reads_on)
            return step, effect("field-goes", field=field, goes=goes)
    return None, None


def _goes(step: Step, *, reads_on: bool) -> Effect:
    """Of a position of which no more is known."""
    size = _size(step, reads_on=reads_on)
    return effect(
        "goes-back" if step.direction == "back" else "goes-ahead",
        by=None if size is None else effect("by", size=size),
        to=effect("to-place", place=step.place) if step.place else None,
    )


def _size(step: Step, *, reads_on: bool) -> Effect | None:
    """How much lies between, a bound where it reads on; None where that cannot be told."""
    size = step.size
    # A part of a second has no number that could bound it
    if size is None or (reads_on and not step.count):
        return None
    if reads_on:
        size = effect("at-least" if step.direction == "back" else "at-most", size=size)
    return size if step.of is None else effect(step.of, size=size, file=step.file)


def _counts(step: Step, *, reads_on: bool) -> Counts | None:
    if step.unit is None:
        return None
    again, skipped = (step.count, 0) if step.direction == "back" else (0, step.count)
    return Counts(again, skipped, unit=step.unit, exact=not reads_on)


def _text(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return str(value)


def shape_of(partition: Partition, *offsets: Offset) -> Shape | None:
    """The first shape that all of these offsets of the partition fit, if there is one."""
    for shape in SHAPES:
        if all(shape.fits(partition, offset) for offset in offsets):
            return shape
    return None


def _is_set(value: object) -> bool:
    return value not in (None, False, "false", "")
