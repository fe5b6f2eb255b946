"""A Connect cluster of one process over logs in memory: its topics are real, its tasks are not.

Requests are judged and written by the herder's own pure functions. With `runs_tasks` statuses
follow the requests at once, unless a test says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_reconciler.model.live import GroupMember, LogRange, RecordAt, TimeAt
from connect_reconciler.model.offsets import TopicPartition
from connect_runtime.herder import requests
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus, RequestError
from connect_runtime.kafka.log import ReadTopics
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.memory import MemoryLogs
from connect_runtime.storage.snapshots import ConfigSnapshot, ConnectorState, OffsetSnapshot, State
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.diagnostics import Failed
from connect_specs.names import ClusterTopics, leader_transactional_id, sink_group

GROUP_ID = "orders"
TOPICS = ClusterTopics.of(GROUP_ID)

_STATES = {
    TargetState.RUNNING: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


@dataclass(slots=True)
class FakeKafka:
    """What outlives every process: the cluster's topics, consumer groups and the connectors' data.

    Of the data only `ranges` and the records' timestamps are kept: `times` holds those of the last
    records of a partition. `active` groups have members, so that nobody can move their offsets;
    `members` are those that can be seen.
    tests/contract/test_view.py holds its answers to those of a broker.
    """

    logs: MemoryLogs = field(default_factory=MemoryLogs)
    groups: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    ranges: dict[TopicPartition, LogRange] = field(default_factory=dict)
    times: dict[TopicPartition, list[int]] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    members: dict[str, list[GroupMember]] = field(default_factory=dict)

    def produce(self, at: TopicPartition, *times: int) -> None:
        """Appends a record for each timestamp, in ms."""
        log = self.ranges.get(at, LogRange(0, 0))
        self.ranges[at] = LogRange(log.earliest, log.latest + len(times))
        self.times.setdefault(at, []).extend(times)

    def create_topics(self) -> None:
        for topic in (TOPICS.config, TOPICS.offsets, TOPICS.status, TOPICS.ledger):
            self.logs.create_topic(topic)

    # as `View` has it

    def cluster_id(self) -> str:
        return "fake"

    def read(self, topics: Sequence[str], as_available: Collection[str] = ()) -> ReadTopics:
        records: dict[str, list[LogRecord]] = {}
        for topic in topics:
            try:
                records[topic] = list(self.logs.reader(topic).read_to_end(1))
            except Failed as error:
                if error.diagnostics[0].code != "topic.missing":
                    raise
        return ReadTopics(records, {})

    def records(self, topic: str) -> Sequence[LogRecord]:
        return self.read([topic]).records.get(topic, ())

    def group_offsets(self, groups: Iterable[str]) -> Mapping[str, Mapping[TopicPartition, int]]:
        return {group: dict(self.groups.get(group, {})) for group in groups}

    def group_members(self, groups: Iterable[str]) -> Mapping[str, Sequence[GroupMember]]:
        return {group: self.members.get(group, []) for group in groups}

    def ensure_visible(self, topics: Iterable[str]) -> None:
        """Everything is."""

    def log_ranges(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LogRange]:
        return {at: self.ranges[at] for at in partitions if at in self.ranges}

    def topics(self) -> Mapping[str, int]:
        return {topic: self._size(topic) for topic, _ in self.ranges}

    def offsets_at(self, wanted: Iterable[TimeAt]) -> Mapping[TimeAt, int]:
        found = {}
        for topic, number, time_ms in wanted:
            later = (at for at, time in self._timed((topic, number)) if time >= time_ms)
            first = next(later, None)
            if first is not None:
                found[TimeAt(topic, number, time_ms)] = first
        return found

    def timestamps(self, wanted: Iterable[RecordAt]) -> Mapping[RecordAt, int]:
        found = {}
        for topic, number, offset in wanted:
            later = (time for at, time in self._timed((topic, number)) if at >= offset)
            first = next(later, None)
            if first is not None:
                found[RecordAt(topic, number, offset)] = first
        return found

    def newest_times(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {at: max(self.times[at]) for at in partitions if self.times.get(at)}

    def _timed(self, at: TopicPartition) -> Iterable[tuple[int, int]]:
        """Offset and timestamp of each record that is kept."""
        times = self.times.get(at, [])
        return enumerate(times, self.ranges[at].latest - len(times)) if times else ()

    def _size(self, topic: str) -> int:
        return sum(each == topic for each, _ in self.ranges)


STILL_ACTIVE = (
    "Failed to {verb} consumer group offsets for connector {name} either because its tasks haven't"
    " stopped completely yet or the connector was resumed before the request to {verb} its offsets"
    " could be successfully completed."
)


def is_sink(config: Mapping[str, str]) -> bool:
    return "topics" in config


class FakeCluster:
    """Implements `Cluster`. `on_alter` and `on_resume` are called before these requests take
    effect. tests/contract/test_cluster.py holds it to what our runtime does."""

    def __init__(self, kafka: FakeKafka, *, runs_tasks: bool = False) -> None:
        self.kafka = kafka
        self.runs_tasks = runs_tasks
        self.statuses: dict[str, list[ConnectorStatus | None]] = {}
        self.on_alter: Callable[[str], None] = lambda name: None
        self.on_resume: Callable[[str], None] = lambda name: None
        self._writer = kafka.logs.writer(leader_transactional_id(GROUP_ID))

    # --- Cluster ---

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        self._write(requests.create(self._snapshot(), TOPICS.config, name, config, state))

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        self._write(requests.put_config(self._snapshot(), TOPICS.config, name, config))

    def publish_tasks(self, name: str, count: int) -> None:
        """What a connector's leader does once the connector has said what its tasks are."""
        configs = [self._known(name).config] * count
        self._write(config_topic.task_config_records(TOPICS.config, name, configs))
        self._write([config_topic.commit_record(TOPICS.config, name, count)])

    def config(self, name: str) -> Mapping[str, str] | None:
        state = self._snapshot().connectors.get(name)
        return None if state is None else state.config

    def status(self, name: str) -> ConnectorStatus | None:
        told = self.statuses.get(name)
        if told:
            return told.pop(0) if len(told) > 1 else told[0]
        state = self._snapshot().connectors.get(name)
        if state is None:
            return None
        part = InstanceStatus(_STATES[state.target], "fake")
        tasks = {} if state.target is TargetState.STOPPED else {0: part}
        return ConnectorStatus(name, part, tasks, "unknown")

    def set_target(self, name: str, target: TargetState) -> None:
        if target is TargetState.RUNNING:
            self.on_resume(name)
        if target is TargetState.STOPPED:
            self._write(requests.stop(self._snapshot(), TOPICS.config, name))
        else:
            self._write(requests.target(self._snapshot(), TOPICS.config, name, target))

    def restart(self, name: str, *, only_failed: bool) -> None:
        self._known(name)

    def delete(self, name: str) -> None:
        self._write(requests.delete(self._snapshot(), TOPICS.config, name))

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        state = self._known(name)
        if is_sink(state.config):
            group = self.kafka.groups.get(sink_group(name, state.config), {})
            return [
                OffsetEntry({"kafka_topic": t, "kafka_partition": p}, {"kafka_offset": at})
                for (t, p), at in sorted(group.items())
            ]
        held = self._offsets().connectors.get(name, {})
        return [OffsetEntry(found.partition, found.offset) for found in held.values()]

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        state = self._movable(name, "alter")
        if is_sink(state.config):
            group = self.kafka.groups.setdefault(sink_group(name, state.config), {})
            for entry in offsets:
                at = (
                    str(entry.partition["kafka_topic"]),
                    int(str(entry.partition["kafka_partition"])),
                )
                if entry.offset is None:
                    group.pop(at, None)
                else:
                    group[at] = int(str(entry.offset["kafka_offset"]))
        else:
            entries = [(entry.partition, entry.offset) for entry in offsets]
            self._write(
                offsets_topic.offset_records(TOPICS.offsets, name, entries, self._offsets())
            )
        return "The offsets for this connector have been altered successfully"

    def reset_offsets(self, name: str) -> str:
        state = self._movable(name, "reset")
        if is_sink(state.config):
            self.kafka.groups.pop(sink_group(name, state.config), None)
        else:
            entries = [(entry.partition, None) for entry in self.offsets(name)]
            self._write(
                offsets_topic.offset_records(TOPICS.offsets, name, entries, self._offsets())
            )
        return "The offsets for this connector have been reset successfully"

    def close(self) -> None:
        self._writer.close()

    # --- how ---

    def _snapshot(self) -> ConfigSnapshot:
        return config_topic.reduce_all(ConfigSnapshot(), self.kafka.records(TOPICS.config))

    def _offsets(self) -> OffsetSnapshot:
        return offsets_topic.reduce_all(OffsetSnapshot(), self.kafka.records(TOPICS.offsets))

    def _movable(self, name: str, verb: str) -> ConnectorState:
        """A connector whose offsets can be moved. Raises RequestError for any other."""
        state = self._known(name)
        requests.check_stopped(state)
        self.on_alter(name)
        if is_sink(state.config) and sink_group(name, state.config) in self.kafka.active:
            raise refused(STILL_ACTIVE.format(verb=verb, name=name))
        return state

    def _known(self, name: str) -> ConnectorState:
        return requests.find_connector(self._snapshot(), name, "Connector {} not found")

    def _write(self, records: Sequence[NewRecord]) -> None:
        if records:
            self._writer.write(records)


def refused(message: str, status: int = 500) -> RequestError:
    """An error as Connect answers it."""
    return RequestError(status, message)
