"""Keys of well-known source connectors. Rules of a class stand before those of every source."""

from __future__ import annotations

from connect_reconciler.model.reasons import Effect, EffectCode, effect
from connect_reconciler.plan.consequences.rule import Rule, Setting, set_to

_DEBEZIUM = "io.debezium.connector.*"
_JDBC = "*JdbcSource*"
_MIRROR = "*MirrorSource*"
_FILE = "*FileStreamSource*"


def _file(setting: Setting) -> Effect:
    return effect("reads-file", file=setting.new.get("file") or effect("standard-input"))


def _query(setting: Setting) -> Effect:
    both = "query" in setting.old and "query" in setting.new
    return effect("same-offset-for-other-query" if both else "offsets-kept-otherwise")


_SNAPSHOTS: dict[str, EffectCode] = {
    "always": "snapshot-always",
    "initial": "snapshot-initial",
    "initial_only": "snapshot-only",
    "no_data": "snapshot-without-rows",
    "schema_only": "snapshot-without-rows",
    "never": "snapshot-never",
    "when_needed": "snapshot-when-needed",
    "recovery": "snapshot-recovery",
    "schema_only_recovery": "snapshot-recovery",
}
_ALWAYS: dict[str, EffectCode] = {"always": _SNAPSHOTS["always"]}

SOURCE_RULES: tuple[Rule, ...] = (
    # files
    Rule("file", "reread", _file, "source", _FILE),
    # Debezium
    Rule(
        "topic.prefix database.server.name",
        "reread",
        (effect("debezium-begins-anew"), effect("writes-to-other-topics-then")),
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
    Rule("snapshot.mode", "restart", "snapshot-again", "source"),
    Rule(
        "snapshot.* incremental.snapshot.*", "restart", "in-the-next-snapshot", "source", _DEBEZIUM
    ),
    Rule("slot.name", "restart", "new-slot", "source", _DEBEZIUM),
    Rule("publication.*", "restart", "other-publication", "source", _DEBEZIUM),
    Rule(
        "table.include.list table.exclude.list schema.include.list schema.exclude.list"
        " database.include.list database.exclude.list collection.include.list"
        " collection.exclude.list",
        "restart",
        "captures-other-tables",
        "source",
        _DEBEZIUM,
    ),
    Rule(
        "column.include.list column.exclude.list column.mask.* column.truncate.*"
        " field.exclude.list field.renames",
        "restart",
        "other-columns",
        "source",
        _DEBEZIUM,
    ),
    Rule("*.handling.mode time.precision.mode", "restart", "other-types", "source", _DEBEZIUM),
    Rule("signal.*", "restart", "signals-from-elsewhere", "source", _DEBEZIUM),
    Rule(
        "schema.history.internal.* database.history.*",
        "restart",
        "other-schema-history",
        "source",
        _DEBEZIUM,
    ),
    Rule(
        "database.hostname database.port database.dbname database.names mongodb.connection.string"
        " mongodb.hosts",
        "restart",
        "reads-from-elsewhere",
        "source",
        _DEBEZIUM,
    ),
    Rule("skipped.operations", "restart", "other-operations-skipped", "source", _DEBEZIUM),
    # JDBC
    Rule("mode", "reread", set_to("mode", {"bulk": "jdbc-bulk"}), "source", _JDBC),
    Rule("mode", "reread", "other-jdbc-mode", "source", _JDBC),
    Rule(
        "incrementing.column.name timestamp.column.name",
        "reread",
        "other-jdbc-column",
        "source",
        _JDBC,
    ),
    Rule("query", "reread", _query, "source", _JDBC),
    Rule(
        "table.whitelist table.blacklist table.include.list table.exclude.list table.types"
        " catalog.pattern schema.pattern",
        "restart",
        "new-tables-from-their-start",
        "source",
        _JDBC,
    ),
    Rule("topic.prefix", "restart", "writes-to-other-topics", "source", _JDBC),
    Rule("connection.url", "restart", "reads-from-elsewhere", "source", _JDBC),
    Rule("numeric.* timestamp.granularity", "restart", "other-types", "source", _JDBC),
    Rule("timestamp.initial", "restart", "for-tables-without-an-offset", "source", _JDBC),
    # MirrorMaker
    Rule("source.cluster.alias", "reread", "mirror-begins-anew", "source", _MIRROR),
    Rule("source.cluster.bootstrap.servers", "restart", "reads-from-elsewhere", "source", _MIRROR),
    Rule("replication.policy.*", "restart", "writes-to-other-topics", "source", _MIRROR),
    Rule(
        "topics topics.exclude topics.blacklist",
        "restart",
        "new-topics-from-their-start",
        "source",
        _MIRROR,
    ),
    # any source
    Rule("topic kafka.topic", "restart", "writes-to-other-topics", "source"),
    Rule(
        "topic.prefix",
        "restart",
        (effect("writes-to-other-topics"), effect("may-name-its-offsets")),
        "source",
    ),
)
