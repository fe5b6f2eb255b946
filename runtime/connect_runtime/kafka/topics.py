"""Reads the ranges of topics' logs, creates topics of sources, and watches a cluster's own topics.

Answers omit what does not exist, has no leader now, or may not be seen by this login.

librdkafka 2.16 ends the whole process with SIGSEGV if it learns of a leader at the moment when it
is asked for offsets of a partition whose leader it does not know: two threads then use one request
(`rd_kafka_topic_partition_list_query_leaders_async`). So `list_offsets` here is the only caller of
the client's, and asks for the leaders first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from connect_runtime.api import ConnectorError
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.errors import (
    NO_SUCH_TOPIC,
    REFUSED,
    STALE_LEADER,
    as_failure,
    error_of,
    reason,
)
from connect_runtime.kafka.kafka_logging import logged
from connect_runtime.kafka.librdkafka import MARGIN_S, gather_answers
from connect_runtime.settings.connector_topics import TopicCreation, TopicSettings
from connect_runtime.waiting import wait_until
from connect_specs.names import ClusterTopics

Partition: TypeAlias = tuple[str, int]
Answer: TypeAlias = ListOffsetsResultInfo | KafkaError

_REQUEST_S = 15.0
_LEADER_S = 10.0
_NEW_S = 3.0
_RETRY_S = 0.1
_ABSENT = NO_SUCH_TOPIC | {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}
_LEADERLESS: Final = {KafkaError.LEADER_NOT_AVAILABLE, KafkaError._NOENT}  # noqa: SLF001
_CREATE_S: Final = 30.0
_READY_S: Final = 10.0
_LOOK_S: Final = 0.02
_log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_DESCRIBE_S: Final = 5.0


def describe_topics(
    client: AdminClient, topics: Iterable[str], timeout_s: float
) -> dict[str, TopicDescription | KafkaError]:
    """Returns each topic's description, or Kafka's error. Unlike `list_topics`, creates no topic
    where the broker auto-creates them."""
    request = TopicCollection(list(topics))
    futures = client.describe_topics(request, request_timeout=timeout_s)
    return gather_answers(futures, timeout_s + MARGIN_S, client)


def create_topic(client: AdminClient, topic: NewTopic, timeout_s: float) -> KafkaError | None:
    """Creates the topic. Returns Kafka's error, if there is one."""
    futures = client.create_topics([topic], request_timeout=timeout_s)
    return gather_answers(futures, timeout_s + MARGIN_S, client)[topic.topic]


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
    places = [TopicPartition(topic, number) for topic, number in partitions]
    if not places:
        return {}
    earliest, latest = list_offsets(
        admin(properties),
        [dict.fromkeys(places, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())],
    )
    ranges = {}
    for at, answer in earliest.items():
        first, end = _offset(answer, at), _offset(latest[at], at)
        if first is not None and end is not None:
            ranges[at] = (first, end)
    return ranges


def ends_now(
    client: AdminClient, partitions: Sequence[TopicPartition], isolation: IsolationLevel
) -> dict[Partition, ListOffsetsResultInfo]:
    """Returns where each partition ends for readers of this isolation. Waits while a partition has
    no leader that knows, or is so new that a broker does not know it. Raises ConnectError."""
    # librdkafka passes its log on only when polled
    client.poll(0)
    start = time.monotonic()
    latest = dict.fromkeys(partitions, OffsetSpec.latest())
    while True:
        (answers,) = list_offsets(
            client, [latest], isolation=isolation, timeout_s=_LEADER_S, patience_s=0.0
        )
        refused = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
        if not refused:
            return answers
        code, waited_s = refused[0].code(), time.monotonic() - start
        limit_s = _LEADER_S if code in STALE_LEADER else _NEW_S if code in NO_SUCH_TOPIC else 0.0
        if waited_s >= limit_s:
            topics = ", ".join(sorted({at.topic for at in partitions}))
            raise as_failure(refused[0], "The end of the topic cannot be read", topics)
        time.sleep(_RETRY_S)


@logged("get the offsets by time in", "times")
def offsets_for_times(
    properties: Mapping[str, str], times: Iterable[tuple[str, int, int]]
) -> dict[tuple[str, int, int], int]:
    """Returns, by topic, partition and time in ms, the offset of the first record from then on.

    Omits those where the last record is older.
    """
    by_time: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic, number, at_ms in times:
        by_time[at_ms].append(TopicPartition(topic, number))
    if not by_time:
        return {}
    asks = [
        dict.fromkeys(partitions, OffsetSpec.for_timestamp(at_ms))
        for at_ms, partitions in by_time.items()
    ]
    offsets = {}
    for at_ms, answers in zip(by_time, list_offsets(admin(properties), asks), strict=True):
        for at, answer in answers.items():
            offset = _offset(answer, at)
            if offset is not None and offset >= 0:
                offsets[*at, at_ms] = offset
    return offsets


@logged("get the newest timestamps in", "partitions")
def newest_times(
    properties: Mapping[str, str], partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Returns each partition's newest timestamp in ms; omits empty ones and all of a Kafka before
    3.0."""
    places = [TopicPartition(topic, number) for topic, number in partitions]
    if not places:
        return {}
    newest = dict.fromkeys(places, OffsetSpec.max_timestamp())
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
    patience_s: float = _LEADER_S,
) -> list[dict[Partition, Answer]]:
    """Returns the offsets that each of `asks` is for, or Kafka's errors, by partition. Waits up to
    `patience_s` while a leader that has just been elected does not know its epoch, or what is
    committed."""
    start = time.monotonic()
    while True:
        offsets = _list_offsets(client, asks, isolation, timeout_s)
        errors = [e for answers in offsets for e in answers.values() if isinstance(e, KafkaError)]
        newly_led = any(error.code() in STALE_LEADER - _LEADERLESS for error in errors)
        if not newly_led or time.monotonic() - start >= patience_s:
            return offsets
        time.sleep(_RETRY_S)


def _list_offsets(
    client: AdminClient,
    asks: Sequence[Mapping[TopicPartition, OffsetSpec]],
    isolation: IsolationLevel,
    timeout_s: float,
) -> list[dict[Partition, Answer]]:
    refused = _without_leader(client, {at for request in asks for at in request}, timeout_s)
    sent = [
        client.list_offsets(
            {at: spec for at, spec in request.items() if at not in refused},
            isolation_level=isolation,
            request_timeout=timeout_s,
        )
        for request in asks
    ]
    offsets = []
    for request, futures in zip(asks, sent, strict=True):
        answers = refused | gather_answers(futures, timeout_s + MARGIN_S)
        offsets.append({(at.topic, at.partition): answers[at] for at in request})
    return offsets


def _without_leader(
    client: AdminClient, partitions: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, Answer]:
    """Returns errors of partitions without a leader. The client then knows all other leaders."""
    partitions_of: dict[str, list[TopicPartition]] = defaultdict(list)
    for at in partitions:
        partitions_of[at.topic].append(at)
    refused: dict[TopicPartition, Answer] = {}
    for name, topic in describe_topics(client, partitions_of, timeout_s).items():
        if isinstance(topic, KafkaError):
            refused |= dict.fromkeys(partitions_of[name], topic)
            continue
        leaders = {partition.id: partition.leader for partition in topic.partitions}
        for at in partitions_of[name]:
            if at.partition not in leaders:
                refused[at] = KafkaError(KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001
            elif leaders[at.partition] is None:
                refused[at] = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    return refused


def _offset(answer: Answer, at: Partition) -> int | None:
    if not isinstance(answer, KafkaError):
        return int(answer.offset)
    if answer.code() in _ABSENT:
        return None
    raise as_failure(answer, "The log's offsets cannot be read", f"{at[0]}-{at[1]}")


class NewTopics:
    """Creates topics with the connector's admin client. Existing topics are left unchanged.

    One object per task: a topic that existed once is not checked again.
    """

    def __init__(self, properties: Mapping[str, str], creation: TopicCreation) -> None:
        self._properties = properties
        self._creation = creation
        self._existing: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Returns when records can be sent to the topic. Raises KafkaException if Kafka is silent,
        ConnectorError if the topic cannot be created."""
        if topic in self._existing:
            return
        # one client for each new topic: they are few, and an idle client costs more
        client = admin(self._properties)
        if not self._exists(client, topic):
            self._create(client, topic, self._creation.settings(topic))
            # other brokers learn of a new topic a moment later
            wait_until(lambda: self._exists(client, topic), _READY_S, every_s=_LOOK_S)
        self._existing.add(topic)

    def _exists(self, client: AdminClient, topic: str) -> bool:
        answer = describe_topics(client, [topic], _CREATE_S)[topic]
        if isinstance(answer, KafkaError):
            if answer.code() in NO_SUCH_TOPIC:
                return False
            raise KafkaException(answer)
        return bool(answer.partitions)

    def _create(self, client: AdminClient, topic: str, settings: TopicSettings) -> None:
        error = create_topic(
            client,
            NewTopic(
                topic,
                num_partitions=settings.partitions,
                replication_factor=settings.replication_factor,
                config=dict(settings.config),
            ),
            _CREATE_S,
        )
        if error is None or error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        if error.retriable():
            raise KafkaException(error)
        raise ConnectorError(
            f"Task failed to create new topic {topic}: {error.str().rstrip('.')}. "
            "Ensure that the task is authorized to create topics or that the topic exists and "
            "restart the task"
        ) from KafkaException(error)


class TopicsWatch:
    """Asks Kafka every few seconds, from `start` to `close`. `problem` is about the topics that no
    request can be answered without, `degraded` about the others."""

    def __init__(self, properties: Mapping[str, str], topics: ClusterTopics) -> None:
        self._properties = properties
        self._needed = (topics.config, topics.assignments)
        self._topics = list(topics.internal)
        self._over = threading.Event()
        self.problem: str | None = None
        self.degraded: str | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="watch-topics", daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        client = admin(self._properties)
        while not self._over.wait(_EVERY_S):
            try:
                self._take(describe_topics(client, self._topics, _DESCRIBE_S))
            except Exception:
                _log.exception("The cluster's topics cannot be watched; it is tried again")

    def _take(self, answers: Mapping[str, TopicDescription | KafkaError]) -> None:
        earlier = (self.problem, self.degraded)
        needed = {name: answer for name, answer in answers.items() if name in self._needed}
        further = {name: answer for name, answer in answers.items() if name not in self._needed}
        self.problem = topics_problem(needed, self.problem)
        self.degraded = topics_problem(further, self.degraded)
        problems = (self.problem, self.degraded)
        if any(problems) and problems != earlier:
            _log.warning("%s", ". ".join(filter(None, problems)))
        elif not any(problems) and any(earlier):
            _log.info("All topics of the cluster can be used again")


def topics_problem(
    answers: Mapping[str, TopicDescription | KafkaError], earlier: str | None
) -> str | None:
    """Returns a sentence on topics that are gone, refused, or have partitions without a leader;
    `earlier` if Kafka does not answer, which is reported elsewhere."""
    problems = []
    for name, answer in sorted(answers.items()):
        if not isinstance(answer, KafkaError):
            led = {partition.id: partition.leader is not None for partition in answer.partitions}
            offline = ", ".join(str(number) for number in sorted(led) if not led[number])
            if offline:
                problems.append(f"topic {name}: no broker leads partition {offline}")
        elif answer.code() in NO_SUCH_TOPIC:
            problems.append(f"topic {name} does not exist any more")
        elif answer.code() in REFUSED:
            problems.append(f"topic {name}: this login may not describe it ({reason(answer)})")
        else:
            return earlier
    return f"Topics of the cluster cannot be used: {'; '.join(problems)}" if problems else None
