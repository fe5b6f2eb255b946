"""The checks of a cluster, on both sides of it as values. Pure.

They name keys that differ, never their values. Passing statuses, and the offsets of connectors that
run, are no differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_reconciler.backend.observe.plugin_facts import error_line, reports_error
from connect_reconciler.backend.rest.shapes import target_of
from connect_reconciler.model.config_values import is_of_cluster
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.live import (
    NEWEST_TRIED,
    OLDEST,
    Feature,
    GroupMember,
    knows,
    parse,
    shown,
)
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import masked_keys
from connect_runtime.herder.verbs import ConnectorInfo, ConnectorStatus
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    State,
    StatusSnapshot,
    TaskId,
)
from connect_specs.desired import Project, partition_key
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import listed

_RESTART = "restart the worker that answered, or ask another one"
_ONE_PARTITION = ("config", "assignments", "ledger")
_CONNECTS = ("config", "offsets", "status")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the brokers describe it. `policy` is empty if this login may not read it;
    `offline` are the partitions that no broker leads."""

    name: str
    partitions: int
    replication: int
    policy: str
    offline: tuple[int, ...] = ()


# By kind of record (config, target-state, offset), connector and, of offsets, partition
RecordLocations: TypeAlias = Mapping[tuple[str, ...], str]


def record_locations(
    config: Iterable[LogRecord], offsets: Iterable[LogRecord]
) -> dict[tuple[str, ...], str]:
    """Returns the places of the newest records of both topics: `topic-partition, offset n`."""
    places: dict[tuple[str, ...], str] = {}
    for record in config:
        if subject := config_topic.subject(record.key):
            places[subject] = _place(record)
    for record in offsets:
        if about := offsets_topic.subject(record.key):
            places["offset", about[0], partition_key(about[1])] = _place(record)
    return places


@dataclass(frozen=True, slots=True)
class ClusterInTopics:
    """The cluster as Kafka holds it. `sinks` are the connectors that are; `offsets` are those of
    stopped ones, and `unknown` says why those of others could not be read, `unread` why statuses
    could not be. `strangers`, by sink, are members of its consumer group that are no tasks of this
    cluster. `offset_records` are those of the worker's offsets topic."""

    cluster_id: str
    brokers: int
    topics: Mapping[str, TopicFacts]
    config: ConfigSnapshot
    status: StatusSnapshot
    sinks: frozenset[str]
    offsets: Mapping[str, Offsets]
    places: RecordLocations
    unknown: Mapping[str, str] = field(default_factory=dict)
    strangers: Mapping[str, tuple[GroupMember, ...]] = field(default_factory=dict)
    unread: tuple[Diagnostic, ...] = ()
    offset_records: Sequence[LogRecord] = ()

    @property
    def sources(self) -> list[ConnectorState]:
        """Returns the connectors that are no sinks."""
        connectors = self.config.connectors
        return [state for name, state in connectors.items() if name not in self.sinks]

    def place(self, *subject: str) -> str:
        """Returns the place of the newest record, or the connector's name if there is none."""
        return self.places.get(subject, subject[1])


@dataclass(frozen=True, slots=True)
class ClusterOverRest:
    """The cluster as the REST API reports it. `offsets` are those of connectors that are
    stopped."""

    version: str
    cluster_id: str
    infos: Mapping[str, ConnectorInfo]
    statuses: Mapping[str, ConnectorStatus]
    offsets: Mapping[str, Offsets]


def _place(record: LogRecord) -> str:
    return f"{record.topic}-{record.partition}, offset {record.offset}"


def compare(topics: ClusterInTopics, rest_side: ClusterOverRest) -> Iterator[Diagnostic]:
    """Yields all differences, connector by connector."""
    if rest_side.cluster_id and rest_side.cluster_id != topics.cluster_id:
        problem = (
            f"the workers use the Kafka cluster {rest_side.cluster_id}, not {topics.cluster_id}"
        )
        hint = "check cluster.kafka and cluster.target: they are of two clusters"
        yield Diagnostic("doctor.other-kafka", problem, hint=hint)
        return
    in_topics, in_rest = topics.config.connectors, rest_side.infos
    if in_rest and not in_topics:
        problem = f"the config topic is empty, and the REST API tells of {len(in_rest)} connectors"
        hint = "check cluster.group.id and cluster.topics: the workers use other topics"
        yield Diagnostic("doctor.other-topics", problem, hint=hint)
        return
    for code, problem, place in _differences(topics, rest_side):
        yield Diagnostic(f"doctor.{code}", problem, place, hint=_RESTART)


def _differences(
    topics: ClusterInTopics, rest_side: ClusterOverRest
) -> Iterator[tuple[str, str, str]]:
    """Yields code, problem and place of each difference."""
    in_topics, in_rest = topics.config.connectors, rest_side.infos
    for name in sorted(in_topics.keys() - in_rest.keys()):
        problem = f"connector {name} is in the config topic, and the REST API does not know it"
        yield "only-in-topic", problem, topics.place("config", name)
    for name in sorted(in_rest.keys() - in_topics.keys()):
        problem = f"the REST API tells of connector {name}, and the config topic does not hold it"
        yield "only-in-rest", problem, name
    for name in sorted(in_topics.keys() & in_rest.keys()):
        config = {**in_topics[name].config, "name": name}
        reported = {**in_rest[name].config, "name": name}
        differing = {key for key, _ in config.items() ^ reported.items()} - masked_keys(reported)
        if differing:
            problem = (
                f"the config of {name} is another one over REST: {', '.join(sorted(differing))}"
            )
            yield "config", problem, topics.place("config", name)
        target, over_rest = in_topics[name].target, target_of(rest_side.statuses.get(name))
        if over_rest is not None and over_rest is not target:
            problem = f"{name} was asked to be {target.value}, and is {over_rest.value} over REST"
            yield "target", problem, topics.place("target-state", name)
        for problem in _differing_statuses(name, topics, rest_side.statuses.get(name)):
            yield "status", problem, name
        if name in topics.offsets and name in rest_side.offsets:
            stored = topics.offsets[name]
            for partition in sorted(stored.differences(rest_side.offsets[name])):
                problem = f"an offset of {name} is another one over REST: {partition}"
                yield "offset", problem, topics.place("offset", name, partition)


def _differing_statuses(
    name: str, topics: ClusterInTopics, reported: ConnectorStatus | None
) -> Iterator[str]:
    stored = topics.status.connectors.get(name)
    if reported is None or stored is None:
        if (reported is None) is not (stored is None):
            place = "over REST" if stored is None else "in the status topic"
            yield f"{name} has a status {place} only"
        return
    instances = [("the connector", stored.state, reported.connector.state)]
    instances += [
        (f"task {number}", status.state, task.state)
        for number, task in sorted(reported.tasks.items())
        if (status := topics.status.tasks.get(TaskId(name, number))) is not None
    ]
    for subject, in_topic, over_rest in instances:
        if in_topic is not over_rest:
            states = f"{in_topic.value} in the status topic, {over_rest.value} over REST"
            yield f"{name}: {subject} is {states}"


def unreadable(topics: ClusterInTopics) -> Iterator[Diagnostic]:
    """Offsets that could not be looked at, such as those on other Kafka clusters."""
    for name, reason in sorted(topics.unknown.items()):
        problem = f"the offsets of {name} could not be read"
        yield warning("doctor.offsets-unknown", problem, name, reason)


def scattered_offsets(topics: ClusterInTopics) -> Iterator[Diagnostic]:
    """Yields offsets with records in several partitions of the offsets topic, which Kafka orders
    only within each: the record that is read last counts."""
    records: dict[bytes | None, dict[int, LogRecord]] = {}
    for record in topics.offset_records:
        records.setdefault(record.key, {})[record.partition] = record
    for key, newest in records.items():
        values = [copy for _, copy in sorted(newest.items()) if copy.value is not None]
        subject = offsets_topic.subject(key)
        if subject is None or len(values) < 2:
            continue
        connector, partition = subject
        is_same = len({copy.value for copy in values}) == 1
        yield Diagnostic(
            "doctor.scattered-offset",
            f"the offset of {connector} for {partition_key(partition)} is in several partitions of"
            f" its topic: {' and '.join(map(_place, values))}",
            connector,
            "they are equal" if is_same else "they differ, and which one counts is left to chance",
            "somebody added partitions to the topic, which moves keys: write a record without value"
            " for the key into the partition of the older one",
            "warning" if is_same else "error",
        )


def read_by_strangers(topics: ClusterInTopics) -> Iterator[Diagnostic]:
    """Sinks that get only a part of their records, because others read with their groups."""
    for name, members in sorted(topics.strangers.items()):
        problem = (
            f"the consumer group of {name} has members that are no tasks of this cluster:"
            f" {listed(map(str, members))}"
        )
        reason = "each record is delivered to one member of the group only"
        hint = "another Connect cluster on this Kafka may have a sink of the same name: give one"
        hint += " of them another name, or a consumer.override.group.id"
        yield Diagnostic("doctor.group-members", problem, name, reason, hint)


def keys_of_cluster(
    configs: Mapping[str, Mapping[str, str]], ledger: LedgerState
) -> Iterator[Diagnostic]:
    """Yields the keys that the cluster itself adds to configs, each once; `ledger` knows those that
    came when a config was written."""
    names_by_key: dict[str, list[str]] = {}
    for name, config in sorted(configs.items()):
        ours = ledger.without_added(name, config)
        for key in config:
            if is_of_cluster(key) or key not in ours:
                names_by_key.setdefault(key, []).append(name)
    for key, names in sorted(names_by_key.items()):
        problem = f"the cluster adds the key {key} to configs: {listed(names)}"
        reason = "it is no part of a spec, and plans and drift leave it out"
        yield warning("doctor.cluster-key", problem, why=reason)


def left_over(topics: ClusterInTopics) -> Iterator[Diagnostic]:
    """Statuses of connectors and tasks that are no more, and configs that are half written."""
    connectors = topics.config.connectors
    gone = {name for name in topics.status.connectors if name not in connectors}
    gone |= {task.connector for task in topics.status.tasks if task.connector not in connectors}
    for name in sorted(gone):
        problem = f"the status topic tells of connector {name}, which does not exist"
        hint = "a rebalance removes it; it does no harm"
        yield warning("doctor.orphan-status", problem, name, hint=hint)
    for name, state in sorted(connectors.items()):
        if state.inconsistent:
            problem = f"the task configs of {name} were committed, and are not all there"
            hint = "restart the connector: its worker then writes them again"
            yield Diagnostic(
                "doctor.inconsistent", problem, topics.place("config", name), hint=hint
            )


def failed(rest_side: ClusterOverRest) -> Iterator[Diagnostic]:
    """Yields connectors and tasks that failed."""
    for name, status in sorted(rest_side.statuses.items()):
        tasks = [str(n) for n, task in sorted(status.tasks.items()) if task.state is State.FAILED]
        failures = ["the connector"] if status.connector.state is State.FAILED else []
        failures += [f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks)}"] if tasks else []
        if failures:
            problem = f"{' and '.join(failures)} failed"
            hint = "`connect status` shows why, `connect restart --failed` restarts what failed"
            yield warning("doctor.failed", problem, name, hint=hint)


def running_with_errors(rest_side: ClusterOverRest) -> Iterator[Diagnostic]:
    """Yields what runs and reports an error, such as a connector that makes no tasks from its
    config."""
    for name, status in sorted(rest_side.statuses.items()):
        instances = [("the connector", status.connector)]
        instances += [(f"task {number}", task) for number, task in sorted(status.tasks.items())]
        for subject, instance in instances:
            if instance.state is State.RUNNING and reports_error(instance):
                problem = f"{subject} runs with an error: {error_line(instance.trace or '')}"
                yield warning("doctor.running-with-error", problem, name)


def check_topics(project: Project, side: ClusterInTopics) -> Iterator[Diagnostic]:
    """Yields each topic that the cluster has, and Connect's own that it lacks."""
    if project.uses_runtime and not side.topics:
        problem = "the cluster has no topics yet: the first apply or `connect up` makes them"
        yield warning("doctor.new-cluster", problem, project.group_id)
        return
    for kind in ("config", "offsets", "status", "assignments", "ledger"):
        name = getattr(project.topics, kind)
        facts = side.topics.get(name)
        if facts is not None:
            yield from _topic(kind, facts, side.brokers)
        elif kind in _CONNECTS:
            problem = f"there is no {kind} topic of that name"
            hint = "check cluster.group.id and cluster.topics, or start the cluster once"
            yield Diagnostic("doctor.no-topic", problem, name, hint=hint)
    yield from side.unread


def _topic(kind: str, facts: TopicFacts, brokers: int) -> Iterator[Diagnostic]:
    if facts.policy not in ("", "compact"):
        problem = f"the {kind} topic has cleanup.policy={facts.policy}: old records are deleted"
        hint = "set cleanup.policy=compact on it"
        yield Diagnostic("doctor.not-compacted", problem, facts.name, hint=hint)
    if facts.offline:
        numbers = ", ".join(map(str, facts.offline))
        problem = f"no broker leads partition {numbers} of the {kind} topic"
        hint = "start the brokers that hold it; a replication of 3 survives the loss of one"
        yield Diagnostic("doctor.offline", problem, facts.name, hint=hint)
    if kind in _ONE_PARTITION and facts.partitions != 1:
        problem = f"the {kind} topic has {facts.partitions} partitions, and must have one"
        hint = "its order is the truth: it must be made anew with one partition"
        yield Diagnostic("doctor.partitions", problem, facts.name, hint=hint)
    if brokers > 1 and facts.replication < min(3, brokers):
        copies = "one copy" if facts.replication == 1 else f"{facts.replication} copies"
        problem = f"the {kind} topic has {copies} on {brokers} brokers"
        hint = f"raise its replication to {min(3, brokers)}"
        yield warning("doctor.replication", problem, facts.name, hint=hint)


def check_version(version: str, address: str) -> Iterator[Diagnostic]:
    """Yields a problem of a version of Connect that is too old, unknown, or newer than those
    tried."""
    parsed = parse(version)
    if not knows(version, Feature.ALTER_OFFSETS):
        problem = f"the cluster runs Connect {version}, which cannot alter offsets"
        hint = f"versions from {shown(OLDEST)} on are supported"
        yield Diagnostic("doctor.old-connect", problem, address, hint=hint)
    elif parsed is None:
        problem = f"the cluster says that its version is {version or 'nothing'}"
        hint = "it is taken for a new one"
        yield warning("doctor.version", problem, address, hint=hint)
    elif parsed > NEWEST_TRIED:
        problem = f"the cluster runs Connect {version}; the newest tried is {shown(NEWEST_TRIED)}"
        yield warning("doctor.version", problem, address)
