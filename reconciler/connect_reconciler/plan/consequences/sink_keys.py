"""Keys of well-known sink connectors. What a sink delivered stays; its offsets go on."""

from __future__ import annotations

from connect_reconciler.model.reasons import Effect, effect
from connect_reconciler.plan.consequences.rule import Rule, Setting, set_to

_FILE = "*FileStreamSink*"
_STORES = "*S3Sink* *GcsSink* *AzureBlobStorageSink* *HdfsSink* *Hdfs3Sink*"
_SEARCH = "*ElasticsearchSink* *OpenSearchSink* *OpensearchSink*"
_JDBC = "*JdbcSink*"


def _file(setting: Setting) -> Effect:
    return effect("writes-to-file", file=setting.new.get("file") or effect("standard-output"))


def _by_the_clock(setting: Setting) -> Effect | None:
    interval = setting.new.get("rotate.schedule.interval.ms", "-1").strip()
    return None if interval.startswith("-") else effect("files-cut-by-the-clock")


SINK_RULES: tuple[Rule, ...] = (
    Rule("file", "restart", _file, "sink", _FILE),
    # object stores
    Rule(
        "*format.class format.* *.compression.type", "restart", "other-file-format", "sink", _STORES
    ),
    Rule("rotate.schedule.interval.ms", "redelivery", _by_the_clock, "sink", _STORES),
    Rule("flush.size rotate.* file.max.records", "restart", "files-cut-elsewhere", "sink", _STORES),
    Rule(
        "partitioner.class partition.* path.format timestamp.extractor timestamp.field locale"
        " timezone topics.dir directory.delim file.delim file.name.* *.prefix",
        "restart",
        "other-file-names",
        "sink",
        _STORES,
    ),
    Rule(
        "s3.bucket.name s3.region aws.s3.bucket.name aws.s3.region gcs.bucket.name store.url"
        " hdfs.url azblob.account.name azblob.container.name",
        "restart",
        "delivers-elsewhere",
        "sink",
        _STORES,
    ),
    # search
    Rule("key.ignore topic.key.ignore", "restart", "other-document-ids", "sink", _SEARCH),
    Rule(
        "write.method",
        "restart",
        set_to(
            "write.method",
            {"upsert": "documents-upserted", "insert": "documents-replaced"},
            "insert",
        ),
        "sink",
        _SEARCH,
    ),
    # databases
    Rule(
        "insert.mode",
        "restart",
        set_to(
            "insert.mode",
            {"insert": "rows-inserted", "upsert": "rows-upserted", "update": "rows-updated"},
            "insert",
        ),
        "sink",
        _JDBC,
    ),
    Rule("pk.mode pk.fields", "restart", "other-row-keys", "sink", _JDBC),
    Rule(
        "table.name.format collection.name.format", "restart", "delivers-elsewhere", "sink", _JDBC
    ),
    Rule(
        "delete.enabled",
        "restart",
        set_to("delete.enabled", {"true": "rows-deleted", "false": "rows-not-deleted"}, "false"),
        "sink",
        _JDBC,
    ),
    Rule("auto.create auto.evolve schema.evolution", "restart", "table-evolution", "sink", _JDBC),
    # any sink
    Rule("connection.url connection.uri connection.hosts", "restart", "delivers-elsewhere", "sink"),
)
