"""The reads that observing needs of a real Kafka cluster. Nothing is created.

Everything above takes these as values or functions, so that it can be tested without a broker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from connect_reconciler.model.live import GroupMember, LogRange, RecordAt, TimeAt
from connect_reconciler.model.offsets import TopicPartition
from connect_runtime.kafka.client_checks import DESCRIBE, check_rights
from connect_runtime.kafka.clients import check_reachable, consumer
from connect_runtime.kafka.errors import as_failure, is_denied
from connect_runtime.kafka.groups import list_offsets_of_groups, members_of_groups
from connect_runtime.kafka.kafka_logging import logged
from connect_runtime.kafka.log import KafkaLogs, ReadTopics
from connect_runtime.kafka.topics import log_ranges, newest_times, offsets_for_times, topic_sizes
from connect_runtime.storage.log import LogRecord
from connect_specs.diagnostics import ConnectError, Unreachable

READ_TIMEOUT_S = 30.0

_REACH_S = 8.0
# Durations are a courtesy: without them a plan is as right.
_TIMES_S = 3.0
_SLICE_S = 0.05
# For the newest records of topics
WITHIN_S: Final = 30.0
_WAIT_S: Final = 0.2
_MESSAGES_MAX: Final = 500
_READER: Final = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
}
# For single records
_SMALL_FETCHES: Final = {
    "fetch.message.max.bytes": 65536,
    "queued.max.messages.kbytes": 1024,
    "reconnect.backoff.ms": 10,
}


class KafkaPort(Protocol):
    """A Kafka cluster as observing sees it. `read` returns the records of these topics up to their
    ends, without topics that do not exist; of those of `as_available`, what can be read now, and
    why others are missing.

    `topics` are all of them, with how many partitions they have. `offsets_at` wants times in ms,
    and leaves out those after a partition's last record. `ensure_visible` raises Unreachable where
    Kafka hides one of these topics: it would leave them out of all answers, as if there were none.
    """

    def cluster_id(self) -> str: ...
    def read(self, topics: Sequence[str], as_available: Collection[str] = ()) -> ReadTopics: ...
    def records(self, topic: str) -> Sequence[LogRecord]: ...
    def ensure_visible(self, topics: Iterable[str]) -> None: ...
    def group_offsets(
        self, groups: Iterable[str]
    ) -> Mapping[str, Mapping[TopicPartition, int]]: ...
    def group_members(self, groups: Iterable[str]) -> Mapping[str, Sequence[GroupMember]]: ...
    def log_ranges(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, LogRange]: ...
    def topics(self) -> Mapping[str, int]: ...
    def offsets_at(self, times: Iterable[TimeAt]) -> Mapping[TimeAt, int]: ...
    def timestamps(self, places: Iterable[RecordAt]) -> Mapping[RecordAt, int]: ...
    def newest_times(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, int]: ...


class KafkaView:
    """The cluster of client properties under Java's names; `consumer` are those of readers. One
    object, many threads.

    A `tolerant` view does without the offsets of sinks where Kafka does not let this login see
    them; `groups_hidden` is then True.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        consumer: Mapping[str, str] | None = None,
        tolerant: bool = False,
    ) -> None:
        self._properties = dict(properties)
        self._consumer = self._properties if consumer is None else dict(consumer)
        self._logs = KafkaLogs(self._properties, consumer=self._consumer)
        self._tolerant = tolerant
        self.groups_hidden = False

    def cluster_id(self) -> str:
        return check_reachable(self._properties, _REACH_S)

    def read(self, topics: Sequence[str], as_available: Collection[str] = ()) -> ReadTopics:
        return self._logs.read_to_ends(topics, READ_TIMEOUT_S, as_available)

    def records(self, topic: str) -> Sequence[LogRecord]:
        return self.read([topic]).records.get(topic, ())

    def cleanup_policy(self, topic: str) -> str:
        """Returns the topic's cleanup policy; empty where it cannot be read."""
        try:
            return self._logs.cleanup_policy(topic) or ""
        except ConnectError:
            return ""

    def ensure_visible(self, topics: Iterable[str]) -> None:
        try:
            check_rights(self._properties, topics=dict.fromkeys(topics, (DESCRIBE,)))
        except Unreachable as error:
            self._tolerate(error)

    def group_offsets(self, groups: Iterable[str]) -> Mapping[str, Mapping[TopicPartition, int]]:
        try:
            return list_offsets_of_groups(self._properties, sorted(groups))
        except Unreachable as error:
            self._tolerate(error)
            return {}

    def _tolerate(self, error: Unreachable) -> None:
        """Raises the error unless a tolerant view can do without the answer."""
        if not self._tolerant or not is_denied(error):
            raise error
        self.groups_hidden = True

    def group_members(self, groups: Iterable[str]) -> Mapping[str, Sequence[GroupMember]]:
        by_group = members_of_groups(self._properties, sorted(set(groups)))
        return {
            group: [GroupMember(*member) for member in members]
            for group, members in by_group.items()
        }

    def log_ranges(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LogRange]:
        ranges = log_ranges(self._properties, partitions)
        return {at: LogRange(earliest, latest) for at, (earliest, latest) in ranges.items()}

    def topics(self) -> Mapping[str, int]:
        return topic_sizes(self._properties)

    def offsets_at(self, times: Iterable[TimeAt]) -> Mapping[TimeAt, int]:
        offsets = offsets_for_times(self._properties, times)
        return {TimeAt(*time): offset for time, offset in offsets.items()}

    @logged("read the timestamps in", "places")
    def timestamps(self, places: Iterable[RecordAt]) -> Mapping[RecordAt, int]:
        """Returns the timestamps of the first records at or after these offsets, as far as they
        come."""
        deadline = time.monotonic() + _TIMES_S
        times: dict[RecordAt, int] = {}
        for round_ in _rounds(places):
            times |= self._times(round_, deadline)
        return times

    def newest_times(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return newest_times(self._properties, partitions)

    def _times(self, offsets: Mapping[TopicPartition, int], deadline: float) -> dict[RecordAt, int]:
        reader = consumer(
            self._consumer, {"group.id": "connect-times", **_READER, **_SMALL_FETCHES}
        )
        times: dict[RecordAt, int] = {}
        missing = dict(offsets)
        try:
            reader.assign([KafkaPartition(*at, offset) for at, offset in offsets.items()])
            while missing and time.monotonic() < deadline:
                message = reader.poll(_SLICE_S)
                if message is None:
                    continue
                at = (message.topic(), message.partition())
                offset = missing.pop(at, None)
                if offset is not None:
                    if message.error() is None:
                        times[RecordAt(*at, offset)] = message.timestamp()[1]
                    reader.pause([KafkaPartition(*at)])
        finally:
            reader.close()
        return times


def _rounds(places: Iterable[RecordAt]) -> list[dict[TopicPartition, int]]:
    """Returns the places in rounds with one offset of each partition: a consumer reads one at a
    time."""
    rounds: list[dict[TopicPartition, int]] = []
    for topic, number, offset in sorted(set(places)):
        at = (topic, number)
        free = next((round_ for round_ in rounds if at not in round_), None)
        if free is None:
            rounds.append({at: offset})
        else:
            free[at] = offset
    return rounds


def fingerprint_key_given() -> bytes | None:
    """Returns the key that CONNECT_FINGERPRINT_KEY holds, in hex or as any text."""
    text = os.environ.get("CONNECT_FINGERPRINT_KEY", "").strip()
    if not text:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        # An environment may hold any bytes
        return text.encode(errors="surrogateescape")


# --- the newest records of topics ---


@dataclass(frozen=True, slots=True)
class LastRecords:
    """Messages, the oldest first. `complete` False: the time was over before all were read."""

    messages: tuple[Any, ...]
    complete: bool


@logged("read the last records of", "ranges")
def last_records(
    properties: Mapping[str, str],
    ranges: Mapping[TopicPartition, LogRange],
    number: int,
) -> LastRecords:
    """Returns the newest records of these partitions together, by timestamp.

    `properties` are a consumer's, in Java's names. Offsets are not records: markers of transactions
    and compaction leave gaps, so it reads further back until there are enough.
    """
    deadline = time.monotonic() + WITHIN_S
    reader = consumer(properties, {"group.id": "connect-test", **_READER})
    messages: list[Any] = []
    starts = {at: log.latest for at, log in ranges.items()}
    window, complete = number, True
    try:
        while len(messages) < number and complete:
            earlier = first_offsets(ranges, window)
            windows = {
                at: LogRange(earlier[at], starts[at]) for at in ranges if earlier[at] < starts[at]
            }
            if not windows:
                break
            complete = _read_windows(reader, windows, messages, deadline)
            starts, window = earlier, window * 2
    finally:
        reader.close()
    messages.sort(key=lambda m: (m.timestamp()[1], m.topic(), m.partition(), m.offset()))
    return LastRecords(tuple(messages[-number:] if number else ()), complete)


def first_offsets(
    ranges: Mapping[TopicPartition, LogRange], count: int
) -> dict[TopicPartition, int]:
    """Returns where to start in each partition to read so many offsets in all: equally many of
    each, and more where others have fewer."""
    starts: dict[TopicPartition, int] = {}
    missing = count
    by_size = sorted(ranges.items(), key=lambda item: item[1].latest - item[1].earliest)
    for at, (partition, log) in enumerate(by_size):
        share = -(-missing // (len(by_size) - at))
        taken = min(log.latest - log.earliest, share)
        starts[partition] = log.latest - taken
        missing -= taken
    return starts


def _read_windows(
    reader: Any,
    windows: dict[TopicPartition, LogRange],
    messages: list[Any],
    deadline: float,
) -> bool:
    """Adds all records in these ranges to `messages`. Returns whether there was time for all."""
    missing = dict(windows)
    # Records after a range are ignored. To pause its partition would spare little, and
    # librdkafka 2.16 may never read a partition that was paused and assigned anew
    reader.assign([KafkaPartition(*at, log.earliest) for at, log in windows.items()])
    while missing:
        if time.monotonic() > deadline:
            return False
        for message in reader.consume(_MESSAGES_MAX, _WAIT_S):
            at = (message.topic(), message.partition())
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise as_failure(error, "The records cannot be read", f"{at[0]}-{at[1]}")
            if at not in missing:
                continue
            end = missing[at].latest
            if error is None and message.offset() < end:
                messages.append(message)
            if error is not None or message.offset() >= end - 1:
                del missing[at]
    return True
