"""Prints records as Java does, for Connect's error texts."""

from __future__ import annotations

from connect_runtime.api import SinkRecord
from connect_runtime.api.java_text import java_text
from connect_runtime.api.transforms import ConnectRecord


def record_text(record: ConnectRecord) -> str:
    """Returns `ConnectRecord.toString()`, with that of a sink or source record before it."""
    headers = ", ".join(
        f"ConnectHeader(key={h.key}, value={java_text(h.value)}, schema={java_text(h.schema)})"
        for h in record.headers
    )
    # Java makes no list for a record without headers
    headers = f"[{headers}]" if headers else ""
    common = (
        f"ConnectRecord{{topic='{record.topic}', kafkaPartition={java_text(record.partition)},"
        f" key={java_text(record.key)}, keySchema={java_text(record.key_schema)},"
        f" value={java_text(record.value)}, valueSchema={java_text(record.value_schema)},"
        f" timestamp={java_text(record.timestamp)}, headers=ConnectHeaders(headers={headers})}}"
    )
    if isinstance(record, SinkRecord):
        kind = "NoTimestampType" if record.timestamp is None else "CreateTime"
        return (
            f"SinkRecord{{kafkaOffset={record.offset}, timestampType={kind},"
            f" originalTopic={record.original_topic},"
            f" originalKafkaPartition={record.original_partition},"
            f" originalKafkaOffset={record.original_offset}}} {common}"
        )
    partition, offset = java_text(record.source_partition), java_text(record.source_offset)
    return f"SourceRecord{{sourcePartition={partition}, sourceOffset={offset}}} {common}"
