"""Keys of well-known connectors. Rules of a class stand before those of every source or sink.

What a sink delivered stays; its offsets go on.
"""

from __future__ import annotations

from connect_reconciler.model.reasons import Effect, EffectCode, effect
from connect_reconciler.plan.consequences.rule import Rule, Setting, rules_of

_DEBEZIUM = "io.debezium.connector.*"
_STORES = "*S3Sink* *GcsSink* *AzureBlobStorageSink* *HdfsSink* *Hdfs3Sink*"
_SEARCH = "*ElasticsearchSink* *OpenSearchSink* *OpensearchSink*"


def _source_file(setting: Setting) -> Effect:
    return effect("reads-file", file=setting.new.get("file") or effect("standard-input"))


def _sink_file(setting: Setting) -> Effect:
    return effect("writes-to-file", file=setting.new.get("file") or effect("standard-output"))


def _query(setting: Setting) -> Effect:
    both = "query" in setting.old and "query" in setting.new
    return effect("same-offset-for-other-query" if both else "offsets-kept-otherwise")


def _by_the_clock(setting: Setting) -> Effect | None:
    interval = setting.new.get("rotate.schedule.interval.ms", "-1").strip()
    return None if interval.startswith("-") else effect("files-cut-by-the-clock")


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

CONNECTOR_RULES: tuple[Rule, ...] = (
    *rules_of("source", "*FileStreamSource*", Rule("file", "reread", _source_file)),
    *rules_of(
        "source",
        _DEBEZIUM,
        Rule(
            "topic.prefix database.server.name",
            "reread",
            (effect("debezium-begins-anew"), effect("writes-to-other-topics-then")),
        ),
        Rule("snapshot.mode", "reread", _ALWAYS),
        Rule("snapshot.mode", "restart", _SNAPSHOTS, default="initial"),
    ),
    Rule("snapshot.mode", "restart", "snapshot-again", "source"),
    *rules_of(
        "source",
        _DEBEZIUM,
        Rule("snapshot.* incremental.snapshot.*", "restart", "in-the-next-snapshot"),
        Rule("slot.name", "restart", "new-slot"),
        Rule("publication.*", "restart", "other-publication"),
        Rule(
            "table.include.list table.exclude.list schema.include.list schema.exclude.list"
            " database.include.list database.exclude.list collection.include.list"
            " collection.exclude.list",
            "restart",
            "captures-other-tables",
        ),
        Rule(
            "column.include.list column.exclude.list column.mask.* column.truncate.*"
            " field.exclude.list field.renames",
            "restart",
            "other-columns",
        ),
        Rule("*.handling.mode time.precision.mode", "restart", "other-types"),
        Rule("signal.*", "restart", "signals-from-elsewhere"),
        Rule("schema.history.internal.* database.history.*", "restart", "other-schema-history"),
        Rule(
            "database.hostname database.port database.dbname database.names"
            " mongodb.connection.string mongodb.hosts",
            "restart",
            "reads-from-elsewhere",
        ),
        Rule("skipped.operations", "restart", "other-operations-skipped"),
    ),
    *rules_of(
        "source",
        "*JdbcSource*",
        Rule("mode", "reread", {"bulk": "jdbc-bulk"}),
        Rule("mode", "reread", "other-jdbc-mode"),
        Rule("incrementing.column.name timestamp.column.name", "reread", "other-jdbc-column"),
        Rule("query", "reread", _query),
        Rule(
            "table.whitelist table.blacklist table.include.list table.exclude.list table.types"
            " catalog.pattern schema.pattern",
            "restart",
            "new-tables-from-their-start",
        ),
        Rule("topic.prefix", "restart", "writes-to-other-topics"),
        Rule("connection.url", "restart", "reads-from-elsewhere"),
        Rule("numeric.* timestamp.granularity", "restart", "other-types"),
        Rule("timestamp.initial", "restart", "for-tables-without-an-offset"),
    ),
    *rules_of(
        "source",
        "*MirrorSource*",
        Rule("source.cluster.alias", "reread", "mirror-begins-anew"),
        Rule("source.cluster.bootstrap.servers", "restart", "reads-from-elsewhere"),
        Rule("replication.policy.*", "restart", "writes-to-other-topics"),
        Rule("topics topics.exclude topics.blacklist", "restart", "new-topics-from-their-start"),
    ),
    *rules_of(
        "source",
        "*",
        Rule("topic kafka.topic", "restart", "writes-to-other-topics"),
        Rule(
            "topic.prefix",
            "restart",
            (effect("writes-to-other-topics"), effect("may-name-its-offsets")),
        ),
    ),
    *rules_of("sink", "*FileStreamSink*", Rule("file", "restart", _sink_file)),
    *rules_of(
        "sink",
        _STORES,
        Rule("*format.class format.* *.compression.type", "restart", "other-file-format"),
        Rule("rotate.schedule.interval.ms", "redelivery", _by_the_clock),
        Rule("flush.size rotate.* file.max.records", "restart", "files-cut-elsewhere"),
        Rule(
            "partitioner.class partition.* path.format timestamp.extractor timestamp.field locale"
            " timezone topics.dir directory.delim file.delim file.name.* *.prefix",
            "restart",
            "other-file-names",
        ),
        Rule(
            "s3.bucket.name s3.region aws.s3.bucket.name aws.s3.region gcs.bucket.name store.url"
            " hdfs.url azblob.account.name azblob.container.name",
            "restart",
            "delivers-elsewhere",
        ),
    ),
    *rules_of(
        "sink",
        _SEARCH,
        Rule("key.ignore topic.key.ignore", "restart", "other-document-ids"),
        Rule(
            "write.method",
            "restart",
            {"upsert": "documents-upserted", "insert": "documents-replaced"},
            default="insert",
        ),
    ),
    *rules_of(
        "sink",
        "*JdbcSink*",
        Rule(
            "insert.mode",
            "restart",
            {"insert": "rows-inserted", "upsert": "rows-upserted", "update": "rows-updated"},
            default="insert",
        ),
        Rule("pk.mode pk.fields", "restart", "other-row-keys"),
        Rule("table.name.format collection.name.format", "restart", "delivers-elsewhere"),
        Rule(
            "delete.enabled",
            "restart",
            {"true": "rows-deleted", "false": "rows-not-deleted"},
            default="false",
        ),
        Rule("auto.create auto.evolve schema.evolution", "restart", "table-evolution"),
    ),
    Rule("connection.url connection.uri connection.hosts", "restart", "delivers-elsewhere", "sink"),
)
