"""Reads the ranges of topic logs, and the offsets that belong to times.

Read-only. Answers omit what does not exist, has no leader now, or may not be seen by this login.

librdkafka 2.16 ends the whole process with SIGSEGV if it learns of a leader at the moment when it
is asked for offsets of a partition whose leader it does not know: two threads then use one request
(`rd_kafka_topic_partition_list_query_leaders_async`). So `list_offsets` here is the only caller of
the client's, and asks who leads first.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from connect_runtime.kafka.calls import logged
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.coordinators import settled
from connect_runtime.kafka.errors import NO_SUCH_TOPIC, STALE_LEADER, as_failure, error_of

Partition: TypeAlias = tuple[str, int]
Answer: TypeAlias = ListOffsetsResultInfo | KafkaError

_REQUEST_S = 15.0
_LEADER_S = 10.0
_NEW_S = 3.0
_RETRY_S = 0.1
# For the client to say itself that Kafka has not answered
_MARGIN_S = 5.0
_ABSENT = NO_SUCH_TOPIC | {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}


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
    """Returns each partition's first offset and the one after its last."""
    wanted = [TopicPartition(topic, number) for topic, number in partitions]
    if not wanted:
        return {}
    earliest, latest = list_offsets(
        admin(properties),
        [dict.fromkeys(wanted, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())],
    )
    found = {}
    for at, answer in earliest.items():
        first, end = _offset(answer, at), _offset(latest[at], at)
        if first is not None and end is not None:
            found[at] = (first, end)
    return found


def ends_now(
    client: AdminClient, partitions: Sequence[TopicPartition], isolation: IsolationLevel
) -> dict[Partition, ListOffsetsResultInfo]:
    """Returns where each partition ends for readers of this isolation. Waits while a partition has
    no leader that knows, or is so new that a broker does not know it. Raises ConnectError."""
    # librdkafka passes its log on only when polled
    client.poll(0)
    begun = time.monotonic()
    latest = dict.fromkeys(partitions, OffsetSpec.latest())
    while True:
        (answers,) = list_offsets(client, [latest], isolation=isolation, timeout_s=_LEADER_S)
        refused = [each for each in answers.values() if isinstance(each, KafkaError)]
        if not refused:
            return answers
        code, waited_s = refused[0].code(), time.monotonic() - begun
        limit_s = _LEADER_S if code in STALE_LEADER else _NEW_S if code in NO_SUCH_TOPIC else 0.0
        if waited_s >= limit_s:
            topics = ", ".join(sorted({at.topic for at in partitions}))
            raise as_failure(refused[0], "The end of the topic cannot be read", topics)
        # A broker that has just started may announce an epoch before it leads in it
        time.sleep(_RETRY_S)


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
    asks = [
        dict.fromkeys(partitions, OffsetSpec.for_timestamp(at_ms))
        for at_ms, partitions in by_time.items()
    ]
    found = {}
    for at_ms, answers in zip(by_time, list_offsets(admin(properties), asks), strict=True):
        for at, answer in answers.items():
            offset = _offset(answer, at)
            if offset is not None and offset >= 0:
                found[*at, at_ms] = offset
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
    newest = dict.fromkeys(wanted, OffsetSpec.max_timestamp())
    (answers,) = list_offsets(admin(properties), [newest])
    return {
        at: int(answer.timestamp)
        for at, answer in answers.items()
        if not isinstance(answer, KafkaError) and answer.timestamp >= 0
    }


def list_offsets(
    client: AdminClient,
    asks: Sequence[Mapping[TopicPartition, OffsetSpec]],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_s: float = _REQUEST_S,
) -> list[dict[Partition, Answer]]:
    """Returns the offsets that each of `asks` is for, or Kafka's errors, by partition."""
    refused = _without_leader(client, {at for wanted in asks for at in wanted}, timeout_s)
    asked = [
        client.list_offsets(
            {at: spec for at, spec in wanted.items() if at not in refused},
            isolation_level=isolation,
            request_timeout=timeout_s,
        )
        for wanted in asks
    ]
    found = []
    for wanted, futures in zip(asks, asked, strict=True):
        answers = refused | settled(futures, timeout_s + _MARGIN_S)
        found.append({(at.topic, at.partition): answers[at] for at in wanted})
    return found


def _without_leader(
    client: AdminClient, partitions: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, Answer]:
    """Returns why partitions have no leader; the client knows those of all others from then on."""
    wanted: dict[str, list[TopicPartition]] = defaultdict(list)
    for at in partitions:
        wanted[at.topic].append(at)
    asked = client.describe_topics(TopicCollection(list(wanted)), request_timeout=timeout_s)
    found: dict[TopicPartition, Answer] = {}
    for name, topic in settled(asked, timeout_s + _MARGIN_S).items():
        if isinstance(topic, KafkaError):
            found |= dict.fromkeys(wanted[name], topic)
            continue
        leaders = {each.id: each.leader for each in topic.partitions}
        for at in wanted[name]:
            if at.partition not in leaders:
                found[at] = KafkaError(KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001
            elif leaders[at.partition] is None:
                found[at] = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    return found


def _offset(answer: Answer, at: Partition) -> int | None:
    if not isinstance(answer, KafkaError):
        return int(answer.offset)
    if answer.code() in _ABSENT:
        return None
    raise as_failure(answer, "The log's offsets cannot be read", f"{at[0]}-{at[1]}")
