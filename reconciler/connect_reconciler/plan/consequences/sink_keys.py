"""Keys of well-known sink connectors. What a sink delivered stays; its offsets go on."""

from __future__ import annotations

from connect_reconciler.plan.consequences.rule import Rule, set_to
from connect_reconciler.plan.consequences.setting import Setting

_FILE = "*FileStreamSink*"
_STORES = "*S3Sink* *GcsSink* *AzureBlobStorageSink* *HdfsSink* *Hdfs3Sink*"
_SEARCH = "*ElasticsearchSink* *OpenSearchSink* *OpensearchSink*"
_JDBC = "*JdbcSink*"

_ELSEWHERE = "records from now on go elsewhere; those delivered before stay where they are"
_FORMAT = "files from now on have another format; those written before stay as they are"
_CUT = "files from now on are cut elsewhere; those written before stay as they are"
_PATHS = "files from now on get other names; those written before stay where they are"


def _file(setting: Setting) -> str:
    new = setting.new.get("file")
    return f"writes to {new or 'standard output'} from now on; what was written before stays"


def _by_the_clock(setting: Setting) -> str | None:
    if setting.new.get("rotate.schedule.interval.ms", "-1").strip().startswith("-"):
        return None
    return f"{_CUT}; they end by the clock: after a restart a record can be in two of them"


SINK_RULES: tuple[Rule, ...] = (
    Rule("file", "restart", _file, "sink", _FILE),
    # object stores
    Rule("*format.class format.* *.compression.type", "restart", _FORMAT, "sink", _STORES),
    Rule("rotate.schedule.interval.ms", "redelivery", _by_the_clock, "sink", _STORES),
    Rule("flush.size rotate.* file.max.records", "restart", _CUT, "sink", _STORES),
    Rule(
        "partitioner.class partition.* path.format timestamp.extractor timestamp.field locale"
        " timezone topics.dir directory.delim file.delim file.name.* *.prefix",
        "restart",
        _PATHS,
        "sink",
        _STORES,
    ),
    Rule(
        "s3.bucket.name s3.region aws.s3.bucket.name aws.s3.region gcs.bucket.name store.url"
        " hdfs.url azblob.account.name azblob.container.name",
        "restart",
        _ELSEWHERE,
        "sink",
        _STORES,
    ),
    # search
    Rule(
        "key.ignore topic.key.ignore",
        "restart",
        "documents from now on get other ids: one that is there already is added again, not"
        " replaced",
        "sink",
        _SEARCH,
    ),
    Rule(
        "write.method",
        "restart",
        set_to(
            "write.method",
            {
                "upsert": "a record from now on changes the fields that it holds, not the document",
                "insert": "a record from now on replaces its document",
            },
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
            {
                "insert": "records that are delivered again from now on are added or refused, not"
                " merged",
                "upsert": "a record from now on replaces the row of its key",
                "update": "a record from now on changes a row that is there, and adds none",
            },
            "insert",
        ),
        "sink",
        _JDBC,
    ),
    Rule(
        "pk.mode pk.fields",
        "restart",
        "records from now on have another key: rows written before are not found by it",
        "sink",
        _JDBC,
    ),
    Rule("table.name.format collection.name.format", "restart", _ELSEWHERE, "sink", _JDBC),
    Rule(
        "delete.enabled",
        "restart",
        set_to(
            "delete.enabled",
            {
                "true": "a record without a value deletes its row from now on",
                "false": "a record without a value no longer deletes its row",
            },
            "false",
        ),
        "sink",
        _JDBC,
    ),
    Rule(
        "auto.create auto.evolve schema.evolution",
        "restart",
        "whether it creates and changes tables by itself is decided anew",
        "sink",
        _JDBC,
    ),
    # any sink
    Rule("connection.url connection.uri connection.hosts", "restart", _ELSEWHERE, "sink"),
)
