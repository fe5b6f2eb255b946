"""How source connectors write offsets, as far as it is known. A table: to teach a shape, add a row.

A row counts only where partition and offsets have exactly the keys that it names. Whatever no row
knows is opaque: only the connector can tell what comes before what.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from connect_reconciler.plan.offsets.source_measures import (
    Measure,
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


@dataclass(frozen=True, slots=True)
class Shape:
    """Offsets that have all of `fields`, and beside them only what matches `beside`.

    `measures` are asked in order, and the first that sees a difference decides. Where a field of
    `unless` is set, the position does not mean what it says. `partitions` are sets of keys; `label`
    names the key that a reader knows a partition by. `back`, `ahead` and `start` are the words.
    """

    partitions: tuple[frozenset[str], ...]
    fields: frozenset[str]
    measures: tuple[Measure, ...]
    beside: str = ""
    unless: frozenset[str] = frozenset()
    label: str = ""
    back: str = "goes back by {}"
    ahead: str = "skips {}"
    start: str = "begins as if it had never read it"

    def fits(self, partition: Partition, offset: Offset) -> bool:
        """Whether this is such an offset of such a partition."""
        if partition.keys() not in self.partitions or not self.fields <= offset.keys():
            return False
        rest = offset.keys() - self.fields - self.unless
        return all(re.fullmatch(self.beside, key) for key in rest)

    def counts(self, offset: Offset) -> bool:
        """Whether the position in it can be compared with another."""
        return not any(_is_set(offset.get(key)) for key in self.unless)


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SERVER = (_keys("server"),)
_TABLE = (_keys("table"), _keys("protocol table"), _keys("query"))
_DEBEZIUM = (
    r"ts_usec|ts_sec|transaction_id|transaction_data_collection_order_.*|incremental_snapshot_.*"
)
_SNAPSHOT = _keys("snapshot last_snapshot_record snapshot_completed")
_AGAIN = "reads {} again"
_BY_NUMBER = sized("the rows of {}", count("incrementing", "id"))
_BY_TIME = sized("the rows of {}", jdbc_time)
_SLOT = "goes back by {}: as much of it as its replication slot still keeps is read again"
_BINLOG = "goes back by {}, read again if the server still keeps it"

SHAPES: Sequence[Shape] = (
    # FileStreamSource
    Shape(
        partitions=(_keys("filename"),),
        fields=_keys("position"),
        measures=(count("position", "byte"),),
        label="filename",
        back=_AGAIN,
        start="reads from its start",
    ),
    # MirrorMaker's MirrorSourceConnector
    Shape(
        partitions=(_keys("cluster topic partition"),),
        fields=_keys("offset"),
        measures=(count("offset", "offset"),),
        label="topic",
        back=_AGAIN,
        start="reads from its start",
    ),
    # JDBC sources of Confluent and Aiven: by a number, by a time, by both
    Shape(
        partitions=_TABLE,
        fields=_keys("incrementing"),
        measures=(_BY_NUMBER,),
        back=_AGAIN,
    ),
    Shape(
        partitions=_TABLE,
        fields=_keys("timestamp"),
        measures=(_BY_TIME,),
        beside="timestamp_nanos",
        back=_AGAIN,
    ),
    Shape(
        partitions=_TABLE,
        fields=_keys("timestamp incrementing"),
        measures=(_BY_TIME, _BY_NUMBER),
        beside="timestamp_nanos",
        back=_AGAIN,
    ),
    # Debezium for PostgreSQL; reading begins at one of its three positions
    Shape(
        partitions=_SERVER,
        fields=_keys("lsn"),
        measures=(postgres_lsn("lsn", "lsn_proc", "lsn_commit"),),
        beside=rf"lsn_proc|lsn_commit|txId|xmin|messageType|{_DEBEZIUM}",
        unless=_SNAPSHOT,
        label="server",
        back=_SLOT,
    ),
    # Debezium for MySQL and MariaDB: by GTIDs where the server has them, else by file and position
    Shape(
        partitions=_SERVER,
        fields=_keys("file pos gtids"),
        measures=(mysql_gtids,),
        beside=rf"row|event|server_id|{_DEBEZIUM}",
        unless=_SNAPSHOT,
        label="server",
        back=_BINLOG,
    ),
    Shape(
        partitions=_SERVER,
        fields=_keys("file pos"),
        measures=(mysql_binlog,),
        beside=rf"row|event|server_id|{_DEBEZIUM}",
        unless=_SNAPSHOT,
        label="server",
        back=_BINLOG,
    ),
    # Debezium for SQL Server
    Shape(
        partitions=(_keys("server database"),),
        fields=_keys("commit_lsn"),
        measures=(sql_server_lsn("commit_lsn"), sql_server_lsn("change_lsn")),
        beside=rf"change_lsn|event_serial_no|{_DEBEZIUM}",
        unless=_SNAPSHOT,
        label="database",
    ),
)


def shape_of(partition: Partition, *offsets: Offset) -> Shape | None:
    """The row that all of these offsets of the partition fit, if there is one."""
    for shape in SHAPES:
        if all(shape.fits(partition, offset) for offset in offsets):
            return shape
    return None


def label_of(partition: Partition) -> str | None:
    """The value that a reader knows such a partition by."""
    for shape in SHAPES:
        if partition.keys() in shape.partitions and shape.label in partition:
            label, part = str(partition[shape.label]), partition.get("partition")
            return label if part is None else f"{label}-{part}"
    return None


def measures_of(field: str) -> tuple[Measure, ...]:
    """What is tried on a field of which nothing but its name and its values is known."""
    return (lsn_text(field), moment(field), number(field))


def _is_set(value: object) -> bool:
    return value not in (None, False, "false", "")
