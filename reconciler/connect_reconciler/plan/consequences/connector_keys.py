"""Keys of well-known connectors. Rules of a class stand before those of every source or sink.

Records that a sink delivered stay; its offsets go on.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.plan.consequences.rule import Rule, RuleContext, rules_of

_DEBEZIUM = "io.debezium.connector.*"
_STORES = "*S3Sink* *GcsSink* *AzureBlobStorageSink* *HdfsSink* *Hdfs3Sink*"
_SEARCH = "*ElasticsearchSink* *OpenSearchSink* *OpensearchSink*"


def _source_file(context: RuleContext) -> str:
    file = context.config.get("file") or "standard input"
    return f"reads {file} from its start, unless it has an offset already"


def _sink_file(context: RuleContext) -> str:
    file = context.config.get("file") or "standard output"
    return f"writes to {file} from now on; what was written before stays"


def _query(context: RuleContext) -> str:
    if "query" in context.previous and "query" in context.config:
        return "the offset of the old query counts for the new one: rows before it are not read"
    return "its offsets are kept otherwise: reads from the start"


def _by_the_clock(context: RuleContext) -> str | None:
    interval = context.config.get("rotate.schedule.interval.ms", "-1").strip()
    if interval.startswith("-"):
        return None
    return (
        f"{_FILES_CUT_ELSEWHERE}; they end by the clock: after a restart a record can be in two of"
        " them"
    )


_OTHER_TOPICS = "writes to other topics from now on; records written before stay where they are"
_OTHER_TYPES = "records from now on hold other types; those written before stay as they are"
_READS_FROM_ELSEWHERE = (
    "reads from elsewhere, and goes on from the offsets that it has: right only where the "
    "same data is there"
)
_DELIVERS_ELSEWHERE = "records from now on go elsewhere; those delivered before stay where they are"
_FILES_CUT_ELSEWHERE = "files from now on are cut elsewhere; those written before stay as they are"
_ALL_ROWS_AGAIN = "takes a snapshot at every start: all rows are written again"
_NO_ROWS = "reads no rows in a snapshot: changes alone"
_SCHEMAS_ANEW = "reads the schemas anew into its history; offsets stay"
_SNAPSHOTS: Mapping[str, str] = {
    "always": _ALL_ROWS_AGAIN,
    "initial": "takes a snapshot only where it has no offset",
    "initial_only": "takes a snapshot only where it has no offset, and then ends",
    "no_data": _NO_ROWS,
    "schema_only": _NO_ROWS,
    "never": "takes no snapshot: changes alone",
    "when_needed": "takes a snapshot where it has no offset, or one that the database has no more",
    "recovery": _SCHEMAS_ANEW,
    "schema_only_recovery": _SCHEMAS_ANEW,
}

CONNECTOR_RULES: tuple[Rule, ...] = (
    *rules_of("source", "*FileStreamSource*", Rule("file", _source_file, "reread")),
    *rules_of(
        "source",
        _DEBEZIUM,
        Rule(
            "topic.prefix database.server.name",
            (
                "its offsets are named by it: begins as if it were new, with the snapshot that "
                "snapshot.mode says",
                "writes to other topics; records written before stay where they are",
            ),
            "reread",
        ),
        Rule("snapshot.mode", {"always": _ALL_ROWS_AGAIN}, "reread"),
        Rule("snapshot.mode", _SNAPSHOTS, default="initial"),
    ),
    Rule("snapshot.mode", "may take a snapshot again: records can repeat", kind="source"),
    *rules_of(
        "source",
        _DEBEZIUM,
        Rule("snapshot.* incremental.snapshot.*", "counts in the next snapshot"),
        Rule(
            "slot.name",
            "a new slot begins where the database is when it is made: changes before that can be "
            "lost; the old slot keeps its WAL until someone drops it",
        ),
        Rule("publication.*", "what is published decides which changes it sees from now on"),
        Rule(
            "table.include.list table.exclude.list schema.include.list schema.exclude.list"
            " database.include.list database.exclude.list collection.include.list"
            " collection.exclude.list",
            "captures changes of other tables from now on; rows that are there already come only "
            "with a snapshot",
        ),
        Rule(
            "column.include.list column.exclude.list column.mask.* column.truncate.*"
            " field.exclude.list field.renames",
            "records from now on hold other columns; those written before stay as they are",
        ),
        Rule("*.handling.mode time.precision.mode", _OTHER_TYPES),
        Rule("signal.*", "signals come from elsewhere from now on"),
        Rule(
            "schema.history.internal.* database.history.*",
            "looks for the history of schemas elsewhere: it fails where there is none for its "
            "offsets",
        ),
        Rule(
            "database.hostname database.port database.dbname database.names"
            " mongodb.connection.string mongodb.hosts",
            _READS_FROM_ELSEWHERE,
        ),
        Rule("skipped.operations", "other kinds of changes are left out from now on"),
    ),
    *rules_of(
        "source",
        "*JdbcSource*",
        Rule("mode", {"bulk": "reads all rows of its tables at every poll"}, "reread"),
        Rule(
            "mode",
            "what the offsets from before do not hold counts as not read: rows can be read again",
            "reread",
        ),
        Rule(
            "incrementing.column.name timestamp.column.name",
            "the offset is compared with another column: rows can be missed or read again",
            "reread",
        ),
        Rule("query", _query, "reread"),
        Rule(
            "table.whitelist table.blacklist table.include.list table.exclude.list table.types"
            " catalog.pattern schema.pattern",
            "tables that are new to it are read from their start; others keep their offsets",
        ),
        Rule("topic.prefix", _OTHER_TOPICS),
        Rule("connection.url", _READS_FROM_ELSEWHERE),
        Rule("numeric.* timestamp.granularity", _OTHER_TYPES),
        Rule("timestamp.initial", "counts only for tables without an offset"),
    ),
    *rules_of(
        "source",
        "*MirrorSource*",
        Rule(
            "source.cluster.alias",
            "its offsets are named by it: copies its topics from their start, into topics of other "
            "names",
            "reread",
        ),
        Rule("source.cluster.bootstrap.servers", _READS_FROM_ELSEWHERE),
        Rule("replication.policy.*", _OTHER_TOPICS),
        Rule(
            "topics topics.exclude topics.blacklist",
            "topics that are new to it are copied from their start; others keep their offsets",
        ),
    ),
    *rules_of(
        "source",
        "*",
        Rule("topic kafka.topic", _OTHER_TOPICS),
        Rule(
            "topic.prefix",
            (_OTHER_TOPICS, "some connectors name their offsets by it, and then read anew"),
        ),
    ),
    *rules_of("sink", "*FileStreamSink*", Rule("file", _sink_file)),
    *rules_of(
        "sink",
        _STORES,
        Rule(
            "*format.class format.* *.compression.type",
            "files from now on have another format; those written before stay as they are",
        ),
        Rule("rotate.schedule.interval.ms", _by_the_clock, "redelivery"),
        Rule("flush.size rotate.* file.max.records", _FILES_CUT_ELSEWHERE),
        Rule(
            "partitioner.class partition.* path.format timestamp.extractor timestamp.field locale"
            " timezone topics.dir directory.delim file.delim file.name.* *.prefix",
            "files from now on get other names; those written before stay where they are",
        ),
        Rule(
            "s3.bucket.name s3.region aws.s3.bucket.name aws.s3.region gcs.bucket.name store.url"
            " hdfs.url azblob.account.name azblob.container.name",
            _DELIVERS_ELSEWHERE,
        ),
    ),
    *rules_of(
        "sink",
        _SEARCH,
        Rule(
            "key.ignore topic.key.ignore",
            "documents from now on get other ids: one that is there already is added again, not "
            "replaced",
        ),
        Rule(
            "write.method",
            {
                "upsert": (
                    "a record from now on changes the fields that it holds, not the document"
                ),
                "insert": "a record from now on replaces its document",
            },
            default="insert",
        ),
    ),
    *rules_of(
        "sink",
        "*JdbcSink*",
        Rule(
            "insert.mode",
            {
                "insert": (
                    "records that are delivered again from now on are added or refused, not merged"
                ),
                "upsert": "a record from now on replaces the row of its key",
                "update": "a record from now on changes a row that is there, and adds none",
            },
            default="insert",
        ),
        Rule(
            "pk.mode pk.fields",
            "records from now on have another key: rows written before are not found by it",
        ),
        Rule("table.name.format collection.name.format", _DELIVERS_ELSEWHERE),
        Rule(
            "delete.enabled",
            {
                "true": "a record without a value deletes its row from now on",
                "false": "a record without a value no longer deletes its row",
            },
            default="false",
        ),
        Rule(
            "auto.create auto.evolve schema.evolution",
            "whether it creates and changes tables by itself is decided anew",
        ),
    ),
    Rule("connection.url connection.uri connection.hosts", _DELIVERS_ELSEWHERE, kind="sink"),
)
