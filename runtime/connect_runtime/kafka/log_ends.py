"""Reads the ranges of topic logs, and the offsets that belong to times.

Read-only. Answers omit what does not exist.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeAlias

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from connect_runtime.kafka.calls import logged
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.errors import NO_SUCH_TOPIC, STALE_LEADER, as_failure, error_of

Partition: TypeAlias = tuple[str, int]

_REQUEST_S = 15.0
_LEADER_S = 10.0
_RETRY_S = 0.1


@logged("list topics of", "properties")
def topic_sizes(properties: Mapping[str, str]) -> dict[str, int]:
    """Returns every topic that this client may see, with its number of partitions."""
    client = admin(properties)
    try:
        topics = client.list_topics(timeout=_REQUEST_S).topics
    except KafkaException as exception:
        raise as_failure(error_of(exception), "The topics cannot be listed", "kafka") from None
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}


@logged("get the end offsets of", "partitions")
def log_ranges(
    properties: Mapping[str, str], partitions: Iterable[Partition]
) -> dict[Partition, tuple[int, int]]:
    """Returns each partition's first offset and the one after its last.

    Omits partitions that do not exist or have no leader now.
    """
    wanted = [TopicPartition(topic, number) for topic, number in partitions]
    if not wanted:
        return {}
    client = admin(properties)
    earliest, latest = (
        client.list_offsets(dict.fromkeys(wanted, spec), request_timeout=_REQUEST_S)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    found = {}
    for at in wanted:
        first, end = _offset(earliest[at], at), _offset(latest[at], at)
        if first is not None and end is not None:
            found[at.topic, at.partition] = (first, end)
    return found


def ends_now(
    client: AdminClient, partitions: Sequence[TopicPartition], isolation: IsolationLevel
) -> dict[Partition, ListOffsetsResultInfo]:
    """Returns where each partition ends for readers of this isolation. Waits while a partition has
    no leader that knows. Raises ConnectError."""
    # librdkafka passes its log on only when polled
    client.poll(0)
    deadline = time.monotonic() + _LEADER_S
    topics = sorted({at.topic for at in partitions})
    try:
        while True:
            try:
                answers = client.list_offsets(
                    dict.fromkeys(partitions, OffsetSpec.latest()),
                    isolation_level=isolation,
                    request_timeout=_LEADER_S,
                )
                return {(at.topic, at.partition): each.result() for at, each in answers.items()}
            except KafkaException as error:
                if error_of(error).code() not in STALE_LEADER or time.monotonic() > deadline:
                    raise
            # The client keeps asking the leader that it knows until it learns of another; and a
            # broker that has just started may announce an epoch before it leads in it
            asked = client.describe_topics(TopicCollection(topics), request_timeout=_LEADER_S)
            for answer in asked.values():
                answer.result()
            time.sleep(_RETRY_S)
    except KafkaException as error:
        what = "The end of the topic cannot be read"
        raise as_failure(error_of(error), what, ", ".join(topics)) from None


@logged("get the offsets by time in", "wanted")
def offsets_for_times(
    properties: Mapping[str, str], wanted: Iterable[tuple[str, int, int]]
) -> dict[tuple[str, int, int], int]:
    """Returns, by topic, partition and time in ms, the offset of the first record from then on.

    Omits those where the last record is older.
    """
    by_time: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic, number, at_ms in wanted:
        by_time[at_ms].append(TopicPartition(topic, number))
    if not by_time:
        return {}
    client = admin(properties)
    answers = {
        at_ms: client.list_offsets(
            dict.fromkeys(partitions, OffsetSpec.for_timestamp(at_ms)), request_timeout=_REQUEST_S
        )
        for at_ms, partitions in by_time.items()
    }
    found = {}
    for at_ms, answer in answers.items():
        for at, future in answer.items():
            offset = _offset(future, at)
            if offset is not None and offset >= 0:
                found[at.topic, at.partition, at_ms] = offset
    return found


@logged("get the newest timestamps in", "partitions")
def newest_times(
    properties: Mapping[str, str], partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Returns each partition's newest timestamp in ms; omits empty ones and all of a Kafka before
    3.0."""
    wanted = [TopicPartition(topic, number) for topic, number in partitions]
    if not wanted:
        return {}
    client = admin(properties)
    newest = dict.fromkeys(wanted, OffsetSpec.max_timestamp())
    answers = client.list_offsets(newest, request_timeout=_REQUEST_S)
    found = {}
    for at, future in answers.items():
        try:
            time_ms = int(future.result().timestamp)
        except KafkaException:
            continue
        if time_ms >= 0:
            found[at.topic, at.partition] = time_ms
    return found


def _offset(future: Future[ListOffsetsResultInfo], at: TopicPartition) -> int | None:
    try:
        return int(future.result().offset)
    except KafkaException as exception:
        if error_of(exception).code() in NO_SUCH_TOPIC:
            return None
        where = f"{at.topic}-{at.partition}"
        raise as_failure(error_of(exception), "The log's offsets cannot be read", where) from None
