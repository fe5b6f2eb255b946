"""One line about each metric, where its name does not say all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HELP: Final[Mapping[str, str]] = {
    "kafka_connect_worker_connector_count": "Connectors that this runtime runs",
    "kafka_connect_worker_task_count": "Tasks of these connectors",
    "kafka_connect_worker_rebalance_rebalancing": "1 while no leader is known",
    "kafka_connect_worker_rebalance_epoch": "The term of the leader",
    "kafka_connect_worker_rebalance_leader_name": "The URL of the leader",
    "kafka_connect_connector_status": "The status of the connector, as a label",
    "kafka_connect_connector_task_status": "The status of the task, as a label",
    "kafka_connect_connector_task_batch_size_avg": "Records in a batch, on average",
    "kafka_connect_connector_task_batch_size_max": "Records in the largest recent batch",
    "kafka_connect_source_task_source_record_poll_total": "Records that the task returned",
    "kafka_connect_source_task_source_record_poll_rate": "Records a second that the task returned",
    "kafka_connect_source_task_source_record_write_total": (
        "Records written to Kafka, without those that transformations dropped"
    ),
    "kafka_connect_source_task_source_record_write_rate": "Records a second written to Kafka",
    "kafka_connect_source_task_source_record_active_count": "Records sent and not committed yet",
    "kafka_connect_sink_task_sink_record_read_total": "Records read from Kafka",
    "kafka_connect_sink_task_sink_record_read_rate": "Records a second read from Kafka",
    "kafka_connect_sink_task_sink_record_send_total": (
        "Records that the task took, without those that transformations dropped"
    ),
    "kafka_connect_sink_task_sink_record_send_rate": "Records a second that the task took",
    "kafka_connect_sink_task_sink_record_active_count": (
        "Offsets between what the task took and what is committed"
    ),
    "kafka_connect_sink_task_partition_count": "Topic partitions assigned to the task",
    "kafka_connect_task_error_total_record_failures": "Failed attempts at a record",
    "kafka_connect_task_error_total_record_errors": "Records that failed for good",
    "kafka_connect_task_error_total_records_skipped": "Failed records that were tolerated",
    "kafka_connect_task_error_total_retries": "Polls, puts and records that were tried again",
    "kafka_connect_task_error_last_error_timestamp": (
        "When a record, a poll or a put failed last, Unix ms; 0: never"
    ),
    "kafka_consumer_fetch_manager_records_lag": (
        "Records between what the task has read and the end of the partition"
    ),
    "kafka_consumer_incoming_byte_total": "Bytes that the consumer of a task received",
    "kafka_producer_outgoing_byte_total": "Bytes that the producer of a task sent",
    "kafka_consumer_connection_count": "Connections of the consumer of a task",
    "kafka_producer_connection_count": "Connections of the producer of a task",
    "jvm_memory_used_bytes": "Memory used in the JVM of Spark's driver",
    "jvm_threads_current": "Threads of the JVM of Spark's driver",
}
