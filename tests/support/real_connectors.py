"""Connectors that teams run, on databases and topics of a test, and what they are to move.

Debezium reads a table into a topic, which its JDBC sink writes into another database. MirrorSource
copies a topic of clicks, which Iceberg's sink writes into a table. A small plugin counts. If they
are asked for, MirrorMaker's other connectors and Java's file source run, too.
"""

from __future__ import annotations

import json
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from connect_runtime.kafka.local_processes import LOOPBACK
from support.broker import create_topic, produce, read_to_end
from support.connect_jars import add_plugin
from support.java_plugins import COUNTING, add_compiled
from support.postgres import PASSWORD, USER, Postgres
from support.rig import Ends
from support.wait import wait_until

SNAPSHOT_ROWS = 1_000
SHOP, WAREHOUSE = "shop", "warehouse"
# MirrorMaker's own, by the names of the clusters
CHECKPOINTS, HEARTBEATS = "src.checkpoints.internal", "heartbeats"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TABLE = "CREATE TABLE orders (id int PRIMARY KEY, amount int NOT NULL, note text)"
_CLICKS_PARTITIONS = 2
_TURN_S = 0.1


def make_plugin_path(folder: Path) -> Path:
    """Returns a plugin.path with all plugins."""
    for name in ("debezium-postgres", "debezium-jdbc", "mirror"):
        add_plugin(name, folder)
    lake = add_plugin("iceberg", folder)
    (driver,) = (folder / "debezium-postgres").glob("*/postgresql-*.jar")
    (lake / driver.name).symlink_to(driver)
    add_compiled("Counting", COUNTING, folder)
    return folder


@dataclass(slots=True)
class Change:
    """Rows of the table that were inserted, updated and deleted, and clicks and lines that were
    written."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    clicks: int = 0
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a group is in a partition of the topic of clicks, and where it would be in the copy."""

    partition: int
    upstream: int
    downstream: int


@dataclass(slots=True)
class Shop:
    """A database and a topic with changes, and the connectors' configs. `name` prefixes topics;
    sinks write to the database `warehouse`. `catalog` is the address of Iceberg's; without one it
    is in that database. With `more`, all connectors run. Connectors make topics of `replicas`."""

    name: str
    kafka: str
    server: Postgres
    folder: Path
    warehouse: str = WAREHOUSE
    catalog: str = ""
    more: bool = False
    replicas: int = 1
    done: Change = field(default_factory=Change)

    def create_table(self) -> None:
        """Creates the table that changes, with its first rows."""
        rows = f"INSERT INTO orders SELECT n, n, 'first' FROM generate_series(1, {SNAPSHOT_ROWS}) n"
        self.server.sql(f"{_TABLE}; ALTER TABLE orders REPLICA IDENTITY FULL; {rows}", SHOP)

    def create_topics(self) -> None:
        """Creates the topics that no connector creates."""
        create_topic(self.kafka, self.clicks, partitions=_CLICKS_PARTITIONS)
        create_topic(self.kafka, self.control)

    @property
    def slot(self) -> str:
        """Debezium's replication slot."""
        return f"slot_of_{self.warehouse}"

    @property
    def changes(self) -> str:
        """The topic of the table's changes."""
        return f"{self.name}.public.orders"

    @property
    def clicks(self) -> str:
        """The topic that is mirrored, and that Iceberg's sink reads."""
        return f"{self.name}-clicks"

    @property
    def mirrored(self) -> str:
        """The copy of the topic."""
        return f"src.{self.clicks}"

    @property
    def counted(self) -> str:
        """The topic of a plugin that counts."""
        return f"{self.name}-counted"

    @property
    def control(self) -> str:
        """The topic in which tasks of Iceberg's sink agree."""
        return f"{self.name}-control"

    @property
    def lines(self) -> str:
        """The topic of a file's lines."""
        return f"{self.name}-lines"

    @property
    def lines_file(self) -> Path:
        """The file that is read line by line."""
        return self.folder / "lines.txt"

    def configs(self) -> Mapping[str, Mapping[str, str]]:
        """The connectors' configs by their names, which are also those of consumer groups."""
        syncs = {
            # a sync for the group's next step, not for each hundred records
            "offset.lag.max": "5",
            # both clusters are one: copies of heartbeats would be copied, too
            "heartbeats.replication.enabled": "false",
        }
        configs = {
            "shop": self._debezium(),
            "upsert": self._jdbc_sink(),
            "mirror": self._mirror(
                "MirrorSourceConnector", {"topics": self.clicks, **(syncs if self.more else {})}
            ),
            "lake": self._iceberg(),
            "count": {
                "connector.class": "tests.Counting",
                "tasks.max": "2",
                "topic": self.counted,
                "offsets.storage.topic": f"{self.name}-own-offsets",
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            },
        }
        if self.more:
            configs |= self._further()
        return {self.connector(role): config for role, config in configs.items()}

    def _further(self) -> Mapping[str, Mapping[str, str]]:
        checkpoints = {
            "groups": self.group,
            # by default those of sinks are left out
            "groups.exclude": "console-consumer-.*",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "2",
            "checkpoints.topic.replication.factor": str(self.replicas),
            "tasks.max": "1",
        }
        heartbeats = {
            "emit.heartbeats.interval.seconds": "1",
            "heartbeats.topic.replication.factor": str(self.replicas),
            "tasks.max": "1",
        }
        return {
            "checkpoints": self._mirror("MirrorCheckpointConnector", checkpoints),
            "heartbeats": self._mirror("MirrorHeartbeatConnector", heartbeats),
            "lines": {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": "1",
                "file": str(self.lines_file),
                "topic": self.lines,
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            },
        }

    @property
    def group(self) -> str:
        """The group of Iceberg's sink, whose checkpoints are written."""
        return f"connect-{self.connector('lake')}"

    def connector(self, role: str) -> str:
        """The name of the connector of that role."""
        return f"{self.name}-{role}"

    def _debezium(self) -> Mapping[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": LOOPBACK,
            "database.port": str(self.server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": SHOP,
            "topic.prefix": self.name,
            "plugin.name": "pgoutput",
            "slot.name": self.slot,
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.orders",
            "producer.override.compression.type": "zstd",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": str(self.replicas),
            "transforms": "mark",
            "transforms.mark.type": "org.apache.kafka.connect.transforms.InsertHeader",
            "transforms.mark.header": "by",
            "transforms.mark.value.literal": "debezium",
            "header.converter": _JSON,
        }

    def _jdbc_sink(self) -> Mapping[str, str]:
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "tasks.max": "1",
            "topics": self.changes,
            "connection.url": self.server.url(self.warehouse),
            "connection.username": USER,
            "connection.password": PASSWORD,
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
            "collection.name.format": "orders",
            "header.converter": _JSON,
            "consumer.override.group.id": f"{self.name}-upserts",
            "consumer.override.auto.offset.reset": "earliest",
        }

    def _mirror(self, class_name: str, settings: Mapping[str, str]) -> Mapping[str, str]:
        return {
            "connector.class": f"org.apache.kafka.connect.mirror.{class_name}",
            "tasks.max": "2",
            "source.cluster.alias": "src",
            "target.cluster.alias": "dst",
            "source.cluster.bootstrap.servers": self.kafka,
            "target.cluster.bootstrap.servers": self.kafka,
            "replication.factor": str(self.replicas),
            "offset-syncs.topic.replication.factor": str(self.replicas),
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "refresh.topics.interval.seconds": "2",
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            **settings,
        }

    def _iceberg(self) -> Mapping[str, str]:
        catalog = {"type": "rest", "uri": self.catalog}
        if not self.catalog:
            catalog = {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": self.server.url(self.warehouse),
                "jdbc.user": USER,
                "jdbc.password": PASSWORD,
                "warehouse": f"file://{self.folder}/lake",
            }
        return {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "1",
            "topics": self.clicks,
            "iceberg.tables": "web.clicks",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.topic": self.control,
            "iceberg.control.commit.interval-ms": "1000",
            **{f"iceberg.catalog.{key}": value for key, value in catalog.items()},
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": _JSON,
            "value.converter.schemas.enable": "false",
            "consumer.override.auto.offset.reset": "earliest",
        }

    # --- changes ---

    @contextmanager
    def under_load(self, *, table: bool = True, clicks: bool = True) -> Iterator[None]:
        """The `table` and the topic of `clicks` change until the context ends."""
        over = threading.Event()
        thread = threading.Thread(target=self._change_until, args=(over, table, clicks))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _change_until(self, over: threading.Event, table: bool, clicks: bool) -> None:
        while not over.is_set():
            if table:
                with suppress(OSError, RuntimeError):  # the server is away
                    self.change_table()
            if clicks:
                self.add_clicks()
            if self.more:
                self.add_lines()
            over.wait(_TURN_S)

    def change_table(self) -> None:
        """Inserts five rows, updates two of them, and deletes one, in one transaction."""
        ((last,),) = self.server.sql("SELECT max(id) FROM orders", SHOP)
        first = int(last or 0) + 1
        self.server.sql(
            f"INSERT INTO orders SELECT n, n, 'later' FROM generate_series({first}, {first + 4}) n;"
            f"UPDATE orders SET amount = amount + 1000000 WHERE id IN ({first}, {first + 1});"
            f"DELETE FROM orders WHERE id = {first + 2}",
            SHOP,
        )
        self.done.inserted += 5
        self.done.updated += 2
        self.done.deleted += 1

    def recount(self) -> None:
        """Counts the changes by the table: of the last one before an outage nobody knows."""
        ((last,),) = self.server.sql("SELECT max(id) FROM orders", SHOP)
        changes = (int(last or 0) - SNAPSHOT_ROWS) // 5
        self.done.inserted, self.done.updated, self.done.deleted = changes * 5, changes * 2, changes

    def add_clicks(self) -> None:
        """Adds five records to each partition of the topic of clicks."""
        for partition in range(_CLICKS_PARTITIONS):
            first = self.done.clicks
            records = [
                (str(n).encode(), json.dumps({"n": n}).encode()) for n in range(first, first + 5)
            ]
            produce(self.kafka, self.clicks, records, partition=partition)
            self.done.clicks += 5

    def add_lines(self) -> None:
        """Adds five lines to the file."""
        first = self.done.lines
        with self.lines_file.open("a") as file:
            file.writelines(f"line {n}\n" for n in range(first, first + 5))
        self.done.lines += 5

    # --- what arrived ---

    def rows(self, database: str) -> list[tuple[str | None, ...]]:
        """The table's rows in a database; none while there is no such table."""
        (exists,) = self.server.sql("SELECT to_regclass('orders') IS NOT NULL", database)
        if exists == ("f",):
            return []
        return self.server.sql("SELECT id, amount, note FROM orders ORDER BY id", database)

    def lake_rows(self) -> int:
        """How many rows Iceberg's table has."""
        return rows_of_lake(self.server, self.warehouse)

    def wait_for_snapshot(self, timeout_s: float) -> None:
        """Until Debezium has read the first rows: later ones are then changes."""
        ends = Ends(self.kafka)
        wait_until(
            lambda: ends.stable(self.changes) >= SNAPSHOT_ROWS,
            what="a snapshot",
            timeout_s=timeout_s,
        )

    def expected_operations(self) -> Counter[str]:
        """How often each operation is to be among the records of changes."""
        done = self.done
        return Counter(r=SNAPSHOT_ROWS, c=done.inserted, u=done.updated, d=done.deleted)

    def assert_each_change_once(self) -> None:
        """No record of a change may be missing, and none may be there twice."""
        operations = self.operations()
        counted = Counter(operation for operation, _, _ in operations)
        assert counted == self.expected_operations()
        assert len(operations) == len(set(operations))

    def operations(self) -> list[tuple[str, int, int]]:
        """The operation, the log's position and the row of each record of changes."""
        payloads = [
            json.loads(value)["payload"]
            for message in read_to_end(self.kafka, self.changes)
            if (value := message.value()) is not None
        ]
        return [
            (each["op"], each["source"]["lsn"], (each["after"] or each["before"])["id"])
            for each in payloads
        ]

    def counts(self) -> list[list[int]]:
        """The numbers of each task of the plugin that counts."""
        counts: dict[bytes, list[int]] = {}
        for message in read_to_end(self.kafka, self.counted):
            counts.setdefault(message.key() or b"", []).append(int(message.value() or b""))
        return list(counts.values())

    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints of the group, in their order."""
        checkpoints = []
        for message in read_to_end(self.kafka, CHECKPOINTS):
            key, value = message.key() or b"", message.value() or b""
            group, key = _text(key)
            topic, key = _text(key)
            if (group, topic) == (self.group, self.mirrored):
                (partition,) = struct.unpack(">i", key)
                upstream, downstream = struct.unpack_from(">qq", value, 2)
                checkpoints.append(Checkpoint(partition, upstream, downstream))
        return checkpoints

    def values(self, topic: str) -> dict[int, list[bytes | None]]:
        """The values of a topic's records, by partition."""
        values: dict[int, list[bytes | None]] = {}
        for message in read_to_end(self.kafka, topic):
            values.setdefault(message.partition() or 0, []).append(message.value())
        return values


def rows_of_lake(server: Postgres, database: str) -> int:
    """How many rows the only table of an Iceberg catalog has, by its newest snapshot. The catalog
    is in that database, and files are on this machine."""
    (exists,) = server.sql("SELECT to_regclass('iceberg_tables') IS NOT NULL", database)
    if exists == ("f",):
        return 0
    files = server.sql("SELECT metadata_location FROM iceberg_tables", database)
    if not files:
        return 0
    metadata = json.loads(Path(str(files[0][0]).removeprefix("file:")).read_text())
    snapshots = {each["snapshot-id"]: each for each in metadata.get("snapshots", [])}
    newest = snapshots.get(metadata.get("current-snapshot-id"))
    return int(newest["summary"]["total-records"]) if newest else 0


def _text(content: bytes) -> tuple[str, bytes]:
    """Returns the text at the beginning of bytes, and those after it."""
    (length,) = struct.unpack_from(">h", content)
    return content[2 : 2 + length].decode(), content[2 + length :]
