"""What is wrong with a cluster? Both sides of it as values, and the checks. Pure.

Says which keys differ, never their values. What moves by itself is no difference: passing statuses,
and the offsets of what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from connect_reconciler.backend.observe.plugin_facts import error_line
from connect_reconciler.backend.rest.shapes import target_of
from connect_reconciler.model.config_values import is_of_cluster
from connect_reconciler.model.group_members import GroupMember
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.live import NEWEST_TRIED, OLDEST, parse, shown, too_old
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import masked_keys
from connect_runtime.herder.verbs import ConnectorInfo, ConnectorStatus
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import ConfigSnapshot, State, StatusSnapshot, TaskId
from connect_specs.desired import PartitionKey, Project, partition_key
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import listed

_RESTART = "restart the worker that answered, or ask another one"
_ONE_PARTITION = ("config", "assignments", "ledger")
_CONNECTS = ("config", "offsets", "status")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the brokers describe it. `policy` None: we may not ask. `offline`: its partitions
    that no broker leads."""

    name: str
    partitions: int
    replication: int
    policy: str | None
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Places:
    """Where the newest record about something lies: `topic-partition, offset n`."""

    of: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    @classmethod
    def index(cls, config: Iterable[LogRecord], offsets: Iterable[LogRecord]) -> Places:
        """Of the records of both topics."""
        found: dict[tuple[str, ...], str] = {}
        for record in config:
            subject = config_topic.subject(record.key)
            if subject is not None:
                found[subject] = _place(record)
        for record in offsets:
            told = offsets_topic.subject(record.key)
            if told is not None:
                found["offset", told[0], partition_key(told[1])] = _place(record)
        return cls(found)

    def config(self, name: str) -> str:
        return self.of.get(("config", name), name)

    def target(self, name: str) -> str:
        return self.of.get(("target-state", name), name)

    def offset(self, name: str, partition: PartitionKey) -> str:
        return self.of.get(("offset", name, partition), name)


@dataclass(frozen=True, slots=True)
class TopicsSide:
    """What Kafka holds. `sinks` are the connectors that are; `offsets` are those of stopped ones,
    and `unknown` says why those of others could not be read, `unread` why statuses could not be.
    `strangers`, by sink, are members of its consumer group that are no tasks of this cluster.
    `offset_records` are those of the worker's offsets topic."""

    cluster_id: str
    brokers: int
    topics: Mapping[str, TopicFacts]
    config: ConfigSnapshot
    status: StatusSnapshot
    sinks: frozenset[str]
    offsets: Mapping[str, Offsets]
    places: Places
    unknown: Mapping[str, str] = field(default_factory=dict)
    strangers: Mapping[str, tuple[GroupMember, ...]] = field(default_factory=dict)
    unread: tuple[Diagnostic, ...] = ()
    offset_records: Sequence[LogRecord] = ()


@dataclass(frozen=True, slots=True)
class RestSide:
    """What the REST API tells. `offsets` are those of connectors that are stopped."""

    version: str
    cluster_id: str
    infos: Mapping[str, ConnectorInfo]
    statuses: Mapping[str, ConnectorStatus]
    offsets: Mapping[str, Offsets]


def _place(record: LogRecord) -> str:
    return f"{record.topic}-{record.partition}, offset {record.offset}"


def compare(topics: TopicsSide, rest: RestSide) -> Iterator[Diagnostic]:
    """All differences, connector by connector."""
    if rest.cluster_id and rest.cluster_id != topics.cluster_id:
        what = f"the workers use the Kafka cluster {rest.cluster_id}, not {topics.cluster_id}"
        hint = "check cluster.kafka and cluster.target: they are of two clusters"
        yield Diagnostic("doctor.other-kafka", what, hint=hint)
        return
    in_topics, in_rest = topics.config.connectors, rest.infos
    if in_rest and not in_topics:
        what = f"the config topic is empty, and the REST API tells of {len(in_rest)} connectors"
        hint = "check cluster.group.id and cluster.topics: the workers use other topics"
        yield Diagnostic("doctor.other-topics", what, hint=hint)
        return
    for name in sorted(in_topics.keys() - in_rest.keys()):
        what = f"connector {name} is in the config topic, and the REST API does not know it"
        yield Diagnostic("doctor.only-in-topic", what, topics.places.config(name), hint=_RESTART)
    for name in sorted(in_rest.keys() - in_topics.keys()):
        what = f"the REST API tells of connector {name}, and the config topic does not hold it"
        yield Diagnostic("doctor.only-in-rest", what, name, hint=_RESTART)
    for name in sorted(in_topics.keys() & in_rest.keys()):
        yield from _config(name, topics, rest)
        yield from _target(name, topics, rest)
        yield from _status(name, topics, rest)
        yield from _offsets(name, topics, rest)


def _config(name: str, topics: TopicsSide, rest: RestSide) -> Iterator[Diagnostic]:
    stored = {**topics.config.connectors[name].config, "name": name}
    told = {**rest.infos[name].config, "name": name}
    masked = masked_keys(told)
    keys = [
        key
        for key in sorted(stored.keys() | told.keys())
        if stored.get(key) != told.get(key) and key not in masked
    ]
    if keys:
        what = f"the config of {name} is another one over REST: {', '.join(keys)}"
        yield Diagnostic("doctor.config", what, topics.places.config(name), hint=_RESTART)


def _target(name: str, topics: TopicsSide, rest: RestSide) -> Iterator[Diagnostic]:
    stored, told = topics.config.connectors[name].target, target_of(rest.statuses.get(name))
    if told is not None and told is not stored:
        what = f"{name} was asked to be {stored.value}, and is {told.value} over REST"
        yield Diagnostic("doctor.target", what, topics.places.target(name), hint=_RESTART)


def _status(name: str, topics: TopicsSide, rest: RestSide) -> Iterator[Diagnostic]:
    told = rest.statuses.get(name)
    stored = topics.status.connectors.get(name)
    if told is None or stored is None:
        if (told is None) is not (stored is None):
            where = "over REST" if stored is None else "in the status topic"
            yield Diagnostic(
                "doctor.status", f"{name} has a status {where} only", name, hint=_RESTART
            )
        return
    parts = [("the connector", stored.state, told.connector.state)]
    parts += [
        (f"task {number}", found.state, part.state)
        for number, part in sorted(told.tasks.items())
        if (found := topics.status.tasks.get(TaskId(name, number))) is not None
    ]
    for who, in_topic, over_rest in parts:
        if in_topic is not over_rest:
            what = f"{name}: {who} is {in_topic.value} in the status topic, {over_rest.value} over"
            yield Diagnostic("doctor.status", f"{what} REST", name, hint=_RESTART)


def _offsets(name: str, topics: TopicsSide, rest: RestSide) -> Iterator[Diagnostic]:
    if name not in topics.offsets or name not in rest.offsets:
        return
    stored, told = topics.offsets[name], rest.offsets[name]
    for partition in sorted(stored.differences(told)):
        what = f"an offset of {name} is another one over REST: {partition}"
        yield Diagnostic(
            "doctor.offset", what, topics.places.offset(name, partition), hint=_RESTART
        )


def unreadable(topics: TopicsSide) -> Iterator[Diagnostic]:
    """Offsets that could not be looked at, such as those on other Kafka clusters."""
    for name, why in sorted(topics.unknown.items()):
        what = f"the offsets of {name} could not be read"
        yield warning("doctor.offsets-unknown", what, name, why)


def scattered_offsets(topics: TopicsSide) -> Iterator[Diagnostic]:
    """Offsets with records in several partitions of the offsets topic, which Kafka orders only
    within each: whichever is read last counts."""
    found: dict[bytes | None, dict[int, LogRecord]] = {}
    for record in topics.offset_records:
        found.setdefault(record.key, {})[record.partition] = record
    for key, newest in found.items():
        kept = [each for _, each in sorted(newest.items()) if each.value is not None]
        told = offsets_topic.subject(key)
        if told is None or len(kept) < 2:
            continue
        same = len({each.value for each in kept}) == 1
        yield Diagnostic(
            "doctor.scattered-offset",
            f"the offset of {told[0]} for {partition_key(told[1])} is in several partitions of its"
            f" topic: {' and '.join(map(_place, kept))}",
            told[0],
            "they are equal" if same else "they differ, and which one counts is left to chance",
            "somebody added partitions to the topic, which moves keys: write a record without value"
            " for the key into the partition of the older one",
            "warning" if same else "error",
        )


def read_by_strangers(topics: TopicsSide) -> Iterator[Diagnostic]:
    """Sinks that get only a part of their records, because others read with their groups."""
    for name, members in sorted(topics.strangers.items()):
        what = (
            f"the consumer group of {name} has members that are no tasks of this cluster:"
            f" {listed(map(str, members))}"
        )
        why = "each record is delivered to one member of the group only"
        hint = "another Connect cluster on this Kafka may have a sink of the same name: give one"
        hint += " of them another name, or a consumer.override.group.id"
        yield Diagnostic("doctor.group-members", what, name, why, hint)


def keys_of_cluster(
    configs: Mapping[str, Mapping[str, str]], ledger: LedgerState
) -> Iterator[Diagnostic]:
    """The keys that the cluster itself adds to configs, each once; `ledger` knows those that came
    when a config was written."""
    found: dict[str, list[str]] = {}
    for name, config in sorted(configs.items()):
        ours = ledger.without_added(name, config)
        for key in config:
            if is_of_cluster(key) or key not in ours:
                found.setdefault(key, []).append(name)
    for key, names in sorted(found.items()):
        what = f"the cluster adds the key {key} to configs: {listed(names)}"
        why = "it is no part of a spec, and plans and drift leave it out"
        yield warning("doctor.cluster-key", what, why=why)


def left_over(topics: TopicsSide) -> Iterator[Diagnostic]:
    """Statuses of connectors and tasks that are no more, and configs that are half written."""
    known = topics.config.connectors
    gone = {name for name in topics.status.connectors if name not in known}
    gone |= {task.connector for task in topics.status.tasks if task.connector not in known}
    for name in sorted(gone):
        what = f"the status topic tells of connector {name}, which does not exist"
        hint = "a rebalance removes it; it does no harm"
        yield warning("doctor.orphan-status", what, name, hint=hint)
    for name, state in sorted(known.items()):
        if state.inconsistent:
            what = f"the task configs of {name} were committed, and are not all there"
            hint = "restart the connector: its worker then writes them again"
            yield Diagnostic("doctor.inconsistent", what, topics.places.config(name), hint=hint)


def failed(rest: RestSide) -> Iterator[Diagnostic]:
    """What the cluster itself says does not run."""
    for name, status in sorted(rest.statuses.items()):
        tasks = [str(n) for n, each in sorted(status.tasks.items()) if each.state is State.FAILED]
        found = ["the connector"] if status.connector.state is State.FAILED else []
        found += [f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks)}"] if tasks else []
        if found:
            what = f"{' and '.join(found)} failed"
            hint = "`connect status` shows why, `connect restart --failed` restarts what failed"
            yield warning("doctor.failed", what, name, hint=hint)


def running_with_errors(rest: RestSide) -> Iterator[Diagnostic]:
    """What runs and reports an error, such as a connector that makes no tasks from its config."""
    for name, status in sorted(rest.statuses.items()):
        parts = [("the connector", status.connector)]
        parts += [(f"task {number}", task) for number, task in sorted(status.tasks.items())]
        for who, part in parts:
            if part.state is State.RUNNING and part.trace:
                what = f"{who} runs with an error: {error_line(part.trace)}"
                yield warning("doctor.running-with-error", what, name)


def check_topics(project: Project, side: TopicsSide) -> Iterator[Diagnostic]:
    """Each topic that the cluster has, and Connect's own that it lacks."""
    if project.uses_runtime and not side.topics:
        what = "the cluster has no topics yet: the first apply or `connect up` makes them"
        yield warning("doctor.new-cluster", what, project.group_id)
        return
    for kind in ("config", "offsets", "status", "assignments", "ledger"):
        name = getattr(project.topics, kind)
        facts = side.topics.get(name)
        if facts is not None:
            yield from _topic(kind, facts, side.brokers)
        elif kind in _CONNECTS:
            what = f"there is no {kind} topic of that name"
            hint = "check cluster.group.id and cluster.topics, or start the cluster once"
            yield Diagnostic("doctor.no-topic", what, name, hint=hint)
    yield from side.unread


def _topic(kind: str, facts: TopicFacts, brokers: int) -> Iterator[Diagnostic]:
    if facts.policy not in (None, "compact"):
        what = f"the {kind} topic has cleanup.policy={facts.policy}: old records are deleted"
        hint = "set cleanup.policy=compact on it"
        yield Diagnostic("doctor.not-compacted", what, facts.name, hint=hint)
    if facts.offline:
        numbers = ", ".join(map(str, facts.offline))
        what = f"no broker leads partition {numbers} of the {kind} topic"
        hint = "start the brokers that hold it; a replication of 3 survives the loss of one"
        yield Diagnostic("doctor.offline", what, facts.name, hint=hint)
    if kind in _ONE_PARTITION and facts.partitions != 1:
        what = f"the {kind} topic has {facts.partitions} partitions, and must have one"
        hint = "its order is the truth: it must be made anew with one partition"
        yield Diagnostic("doctor.partitions", what, facts.name, hint=hint)
    if brokers > 1 and facts.replication < min(3, brokers):
        copies = "one copy" if facts.replication == 1 else f"{facts.replication} copies"
        what = f"the {kind} topic has {copies} on {brokers} brokers"
        hint = f"raise its replication to {min(3, brokers)}"
        yield warning("doctor.replication", what, facts.name, hint=hint)


def check_version(version: str, where: str) -> Iterator[Diagnostic]:
    """Whether this version of Connect is one that plans are made for."""
    found = parse(version)
    if too_old(version):
        what = f"the cluster runs Connect {version}, which cannot alter offsets"
        hint = f"versions from {shown(OLDEST)} on are supported"
        yield Diagnostic("doctor.old-connect", what, where, hint=hint)
    elif found is None:
        what = f"the cluster says that its version is {version or 'nothing'}"
        hint = "it is taken for a new one"
        yield warning("doctor.version", what, where, hint=hint)
    elif found > NEWEST_TRIED:
        what = f"the cluster runs Connect {version}; the newest tried is {shown(NEWEST_TRIED)}"
        yield warning("doctor.version", what, where)
