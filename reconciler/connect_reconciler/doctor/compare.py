"""Where do the topics and the REST API differ? Pure; says which keys differ, never their values.

What moves by itself is no difference: passing statuses, and the offsets of what runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from connect_reconciler.cluster.rest_alone import target_of
from connect_reconciler.doctor.facts import Finding, RestSide, TopicsSide
from connect_reconciler.plan.secrets.masked import masked_keys
from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic
from connect_specs.offsets import canonical_partition

_RESTART = "restart the worker that answered, or ask another one"


def compare(topics: TopicsSide, rest: RestSide) -> Iterator[Finding]:
    """All differences, connector by connector."""
    if rest.cluster_id and rest.cluster_id != topics.cluster_id:
        what = f"the workers use the Kafka cluster {rest.cluster_id}, not {topics.cluster_id}"
        hint = "check cluster.kafka and cluster.target: they are of two clusters"
        yield _error("doctor.other-kafka", what, "", hint)
        return
    in_topics, in_rest = topics.config.connectors, rest.infos
    if in_rest and not in_topics:
        what = f"the config topic is empty, and the REST API tells of {len(in_rest)} connectors"
        hint = "check cluster.group.id and cluster.topics: the workers use other topics"
        yield _error("doctor.other-topics", what, "", hint)
        return
    for name in sorted(in_topics.keys() - in_rest.keys()):
        what = f"connector {name} is in the config topic, and the REST API does not know it"
        yield _error("doctor.only-in-topic", what, topics.places.config(name), _RESTART)
    for name in sorted(in_rest.keys() - in_topics.keys()):
        what = f"the REST API tells of connector {name}, and the config topic does not hold it"
        yield _error("doctor.only-in-rest", what, name, _RESTART)
    for name in sorted(in_topics.keys() & in_rest.keys()):
        yield from _config(name, topics, rest)
        yield from _target(name, topics, rest)
        yield from _status(name, topics, rest)
        yield from _offsets(name, topics, rest)


def _config(name: str, topics: TopicsSide, rest: RestSide) -> Iterator[Finding]:
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
        yield _error("doctor.config", what, topics.places.config(name), _RESTART)


def _target(name: str, topics: TopicsSide, rest: RestSide) -> Iterator[Finding]:
    stored, told = topics.config.connectors[name].target, target_of(rest.statuses.get(name))
    if told is not None and told is not stored:
        what = f"{name} was asked to be {stored.value}, and is {told.value} over REST"
        yield _error("doctor.target", what, topics.places.target(name), _RESTART)


def _status(name: str, topics: TopicsSide, rest: RestSide) -> Iterator[Finding]:
    told = rest.statuses.get(name)
    stored = topics.status.connectors.get(name)
    if told is None or stored is None:
        if (told is None) is not (stored is None):
            where = "over REST" if stored is None else "in the status topic"
            yield _error("doctor.status", f"{name} has a status {where} only", name, _RESTART)
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
            yield _error("doctor.status", f"{what} REST", name, _RESTART)


def _offsets(name: str, topics: TopicsSide, rest: RestSide) -> Iterator[Finding]:
    if name not in topics.offsets or name not in rest.offsets:
        return
    stored, told = _by_partition(topics.offsets[name]), _by_partition(rest.offsets[name])
    for partition in sorted(stored.keys() | told.keys()):
        here, there = stored.get(partition), told.get(partition)
        if (here and here.offset) != (there and there.offset):
            entry = here or there
            where = name if entry is None else topics.places.offset(name, entry)
            what = f"an offset of {name} is another one over REST: {partition}"
            yield _error("doctor.offset", what, where, _RESTART)


def unreadable(topics: TopicsSide) -> Iterator[Finding]:
    """Offsets that could not be looked at, such as those on other Kafka clusters."""
    for name, why in sorted(topics.unknown.items()):
        what = f"the offsets of {name} could not be read"
        yield Finding("warning", Diagnostic("doctor.offsets-unknown", what, name, why))


def left_over(topics: TopicsSide) -> Iterator[Finding]:
    """Statuses of connectors and tasks that are no more, and configs that are half written."""
    known = topics.config.connectors
    gone = {name for name in topics.status.connectors if name not in known}
    gone |= {task.connector for task in topics.status.tasks if task.connector not in known}
    for name in sorted(gone):
        what = f"the status topic tells of connector {name}, which does not exist"
        hint = "a rebalance removes it; it does no harm"
        yield Finding("warning", Diagnostic("doctor.orphan-status", what, name, hint=hint))
    for name, state in sorted(known.items()):
        if state.inconsistent:
            what = f"the task configs of {name} were committed, and are not all there"
            hint = "restart the connector: its worker then writes them again"
            yield _error("doctor.inconsistent", what, topics.places.config(name), hint)


def failed(rest: RestSide) -> Iterator[Finding]:
    """What the cluster itself says does not run."""
    for name, status in sorted(rest.statuses.items()):
        tasks = [str(n) for n, each in sorted(status.tasks.items()) if each.state is State.FAILED]
        found = ["the connector"] if status.connector.state is State.FAILED else []
        found += [f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks)}"] if tasks else []
        if found:
            what = f"{' and '.join(found)} failed"
            hint = "`connect status` shows why, `connect restart --failed` restarts what failed"
            yield Finding("warning", Diagnostic("doctor.failed", what, name, hint=hint))


def _by_partition(entries: Sequence[OffsetEntry]) -> Mapping[str, OffsetEntry]:
    return {
        canonical_partition(entry.partition): entry for entry in entries if entry.offset is not None
    }


def _error(code: str, what: str, where: str, hint: str) -> Finding:
    return Finding("error", Diagnostic(code, what, where or None, hint=hint))
