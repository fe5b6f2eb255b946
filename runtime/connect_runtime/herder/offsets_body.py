"""Parses requests to alter offsets, checked as Connect does (connect-facts 5.2, 5.4).

Pure. Sink offsets have one shape; source offsets are the connector's own, so only their form is
checked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from connect_runtime.api.java_numbers import parse_integer
from connect_runtime.api.java_text import java_text
from connect_runtime.herder.errors import RequestError
from connect_runtime.storage.offsets_topic import check_map
from connect_specs.desired import Offset, OffsetEntry, Partition
from connect_specs.diagnostics import Failed


def parse_sink_offsets(
    entries: Sequence[OffsetEntry],
) -> dict[tuple[str, int], int | None]:
    """Returns topic partitions with their offsets; None removes one. The last of two entries wins.

    Raises RequestError with Connect's text.
    """
    return {_sink_partition(_partition(entry)): _sink_offset(entry.offset) for entry in entries}


def parse_source_offsets(
    entries: Sequence[OffsetEntry],
) -> Sequence[tuple[Partition, Offset | None]]:
    """Returns partitions and offsets as given. Raises RequestError unless they are flat maps."""
    for entry in entries:
        if _partition(entry) is None and entry.offset is not None:
            raise RequestError(500, "Partition objects cannot be null")
        for part in (entry.partition, entry.offset):
            try:
                check_map(part)
            except Failed as error:
                raise RequestError(500, str(error)) from error
    return [(entry.partition, entry.offset) for entry in entries if _partition(entry) is not None]


def _partition(entry: OffsetEntry) -> Partition | None:
    """Returns the entry's partition. A REST body may omit it; specs never do."""
    return cast("Partition | None", entry.partition)


def _sink_partition(partition: Mapping[str, Any] | None) -> tuple[str, int]:
    if partition is None:
        raise RequestError(
            400, "The partition for a sink connector offset cannot be null or missing"
        )
    if not {"kafka_topic", "kafka_partition"} <= partition.keys():
        raise RequestError(
            400,
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
            "'kafka_partition'",
        )
    topic, number = partition["kafka_topic"], partition["kafka_partition"]
    if topic is None:
        raise RequestError(400, "Kafka topic names must be valid strings and may not be null")
    if number is None:
        raise RequestError(400, "Kafka partitions must be valid numbers and may not be null")
    try:
        return java_text(topic), parse_integer(java_text(number), 32)
    except ValueError:
        raise RequestError(
            400,
            "Failed to parse the following Kafka partition value in the provided offsets: "
            f"'{java_text(number)}'. Partition values for sink connectors need to be integers.",
        ) from None


def _sink_offset(offset: Mapping[str, Any] | None) -> int | None:
    if offset is None:
        return None
    if "kafka_offset" not in offset:
        raise RequestError(
            400,
            "The offset for a sink connector should either be null or contain the key "
            "'kafka_offset'",
        )
    shown = java_text(offset["kafka_offset"])
    try:
        return parse_integer(shown, 64)
    except ValueError:
        raise RequestError(
            400,
            "Failed to parse the following Kafka offset value in the provided offsets: "
            f"'{shown}'. Offset values for sink connectors need to be integers.",
        ) from None
