"""Keys of well-known source connectors. Rules of a class stand before those of every source."""

from __future__ import annotations

from connect_reconciler.plan.consequences.rule import Rule, set_to
from connect_reconciler.plan.consequences.setting import Setting

_DEBEZIUM = "io.debezium.connector.*"
_JDBC = "*JdbcSource*"
_MIRROR = "*MirrorSource*"
_FILE = "*FileStreamSource*"

_ELSEWHERE = "writes to other topics from now on; records written before stay where they are"
_SHAPE = "records from now on hold other types; those written before stay as they are"
_OTHER_SOURCE = "reads from elsewhere, and goes on from the offsets that it has: right only where"
_OTHER_SOURCE += " the same data is there"
_FIRST = "counts only for tables without an offset"
_NEXT_SNAPSHOT = "counts in the next snapshot"


def _file(setting: Setting) -> str:
    new = setting.new.get("file")
    return f"reads {new or 'standard input'} from its start, unless it has an offset already"


def _query(setting: Setting) -> str:
    if "query" in setting.old and "query" in setting.new:
        return "the offset of the old query counts for the new one: rows before it are not read"
    return "its offsets are kept otherwise: reads from the start"


_SNAPSHOTS = {
    "always": "takes a snapshot at every start: all rows are written again",
    "initial": "takes a snapshot only where it has no offset",
    "initial_only": "takes a snapshot only where it has no offset, and then ends",
    "no_data": "reads no rows in a snapshot: changes alone",
    "schema_only": "reads no rows in a snapshot: changes alone",
    "never": "takes no snapshot: changes alone",
    "when_needed": "takes a snapshot where it has no offset, or one that the database has no more",
    "recovery": "reads the schemas anew into its history; offsets stay",
    "schema_only_recovery": "reads the schemas anew into its history; offsets stay",
}
_ALWAYS = {"always": _SNAPSHOTS["always"]}

SOURCE_RULES: tuple[Rule, ...] = (
    # files
    Rule("file", "reread", _file, "source", _FILE),
    # Debezium
    Rule(
        "topic.prefix database.server.name",
        "reread",
        "its offsets are named by it: begins as if it were new, with the snapshot that"
        " snapshot.mode says\nwrites to other topics; records written before stay where they are",
        "source",
        _DEBEZIUM,
    ),
    Rule("snapshot.mode", "reread", set_to("snapshot.mode", _ALWAYS), "source", _DEBEZIUM),
    Rule(
        "snapshot.mode",
        "restart",
        set_to("snapshot.mode", _SNAPSHOTS, "initial"),
        "source",
        _DEBEZIUM,
    ),
    Rule("snapshot.mode", "restart", "may take a snapshot again: records can repeat", "source"),
    Rule("snapshot.* incremental.snapshot.*", "restart", _NEXT_SNAPSHOT, "source", _DEBEZIUM),
    Rule(
        "slot.name",
        "restart",
        "a new slot begins where the database is when it is made: changes before that can be lost;"
        " the old slot keeps its WAL until someone drops it",
        "source",
        _DEBEZIUM,
    ),
    Rule(
        "publication.*",
        "restart",
        "what is published decides which changes it sees from now on",
        "source",
        _DEBEZIUM,
    ),
    Rule(
        "table.include.list table.exclude.list schema.include.list schema.exclude.list"
        " database.include.list database.exclude.list collection.include.list"
        " collection.exclude.list",
        "restart",
        "captures changes of other tables from now on; rows that are there already come only with"
        " a snapshot",
        "source",
        _DEBEZIUM,
    ),
    Rule(
        "column.include.list column.exclude.list column.mask.* column.truncate.*"
        " field.exclude.list field.renames",
        "restart",
        "records from now on hold other columns; those written before stay as they are",
        "source",
        _DEBEZIUM,
    ),
    Rule("*.handling.mode time.precision.mode", "restart", _SHAPE, "source", _DEBEZIUM),
    Rule("signal.*", "restart", "signals come from elsewhere from now on", "source", _DEBEZIUM),
    Rule(
        "schema.history.internal.* database.history.*",
        "restart",
        "looks for the history of schemas elsewhere: it fails where there is none for its offsets",
        "source",
        _DEBEZIUM,
    ),
    Rule(
        "database.hostname database.port database.dbname database.names mongodb.connection.string"
        " mongodb.hosts",
        "restart",
        _OTHER_SOURCE,
        "source",
        _DEBEZIUM,
    ),
    Rule(
        "skipped.operations",
        "restart",
        "other kinds of changes are left out from now on",
        "source",
        _DEBEZIUM,
    ),
    # JDBC
    Rule(
        "mode",
        "reread",
        set_to("mode", {"bulk": "reads all rows of its tables at every poll"}),
        "source",
        _JDBC,
    ),
    Rule(
        "mode",
        "reread",
        "what the offsets from before do not hold counts as not read: rows can be read again",
        "source",
        _JDBC,
    ),
    Rule(
        "incrementing.column.name timestamp.column.name",
        "reread",
        "the offset is held against another column: rows can be passed over or read again",
        "source",
        _JDBC,
    ),
    Rule("query", "reread", _query, "source", _JDBC),
    Rule(
        "table.whitelist table.blacklist table.include.list table.exclude.list table.types"
        " catalog.pattern schema.pattern",
        "restart",
        "tables that are new to it are read from their start; others keep their offsets",
        "source",
        _JDBC,
    ),
    Rule("topic.prefix", "restart", _ELSEWHERE, "source", _JDBC),
    Rule("connection.url", "restart", _OTHER_SOURCE, "source", _JDBC),
    Rule("numeric.* timestamp.granularity", "restart", _SHAPE, "source", _JDBC),
    Rule(
        "timestamp.initial", "restart", "counts only for tables without an offset", "source", _JDBC
    ),
    # MirrorMaker
    Rule(
        "source.cluster.alias",
        "reread",
        "its offsets are named by it: copies its topics from their start, into topics of other"
        " names",
        "source",
        _MIRROR,
    ),
    Rule("source.cluster.bootstrap.servers", "restart", _OTHER_SOURCE, "source", _MIRROR),
    Rule("replication.policy.*", "restart", _ELSEWHERE, "source", _MIRROR),
    Rule(
        "topics topics.exclude topics.blacklist",
        "restart",
        "topics that are new to it are copied from their start; others keep their offsets",
        "source",
        _MIRROR,
    ),
    # any source
    Rule("topic kafka.topic", "restart", _ELSEWHERE, "source"),
    Rule(
        "topic.prefix",
        "restart",
        f"{_ELSEWHERE}\nsome connectors name their offsets by it, and then read anew",
        "source",
    ),
)
