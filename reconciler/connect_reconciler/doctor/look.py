"""Reads the topics and the REST API, and runs the checks on both. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain

from confluent_kafka import KafkaError, KafkaException

from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.observe.connector_offsets import (
    ConnectorClusters,
    offsets_now,
    strangers_of_sinks,
    worker_properties,
)
from connect_reconciler.backend.observe.kafka_view import KafkaView
from connect_reconciler.backend.observe.observe import read_topics, statuses_unread
from connect_reconciler.backend.observe.plugin_facts import SpecSecrets, without_secrets
from connect_reconciler.backend.observe.rest import connectors_over_rest
from connect_reconciler.backend.observe.same_cluster import kafka_side, problem_of, rest_side, signs
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient, connector_path
from connect_reconciler.doctor.checks import (
    ClusterInTopics,
    ClusterOverRest,
    TopicFacts,
    check_topics,
    check_version,
    compare,
    failed,
    keys_of_cluster,
    left_over,
    read_by_strangers,
    record_locations,
    running_with_errors,
    scattered_offsets,
    unreadable,
)
from connect_reconciler.doctor.java import missing_rights, plugin_problems, problems_here
from connect_reconciler.ledger.config_entry import load_ledger, with_configs
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.validation.keys import refused_later
from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.election import ApacheGroup, find_leader
from connect_runtime.kafka.errors import as_failure, error_of
from connect_runtime.kafka.topics import describe_topics
from connect_runtime.settings.connector_clients import Kind
from connect_runtime.storage.snapshots import OffsetSnapshot, State
from connect_specs.desired import OffsetEntry, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, warning
from connect_specs.names import ClusterTopics
from connect_specs.plain_text import counted
from connect_specs.plugin_definitions import SINK

_AT_ONCE = 8
_OVERRIDES = "doctor.override-allowlist"
_AGAIN_S = 1.0
_LOOKS = 3
_NO_SPECS = SpecSecrets()


@dataclass(frozen=True, slots=True)
class Report:
    """The findings, and descriptions of what was looked at."""

    findings: tuple[Diagnostic, ...]
    looked_at: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


def examine(backend: Backend, secrets: SpecSecrets = _NO_SPECS) -> Report:
    """Examines a cluster. Looks again where the two sides differ: one may have been read just
    before a change. `secrets` are those of the specs, which errors may hold.

    Raises Unreachable where the only way to the cluster is a Kafka that does not answer.
    """
    project, client = backend.project, backend.kafka
    if project.uses_runtime:
        backend.ensure_kafka()
    findings: list[Diagnostic] = []
    looked_at: list[str] = []
    if client:
        findings += _or_error(lambda: group_mixing(project, client))
        findings += _or_error(lambda: _unfinished(backend))
    try:
        worker = backend.rest()
    except ConnectError as error:
        if not client:
            return Report(error.diagnostics, ())
        # The members of the group are reported above
        worker = None
    with worker or nullcontext():
        findings += _or_error(lambda: _checks(backend, worker, secrets, looked_at))
    return Report(tuple(findings), tuple(looked_at))


def _or_error(check: Callable[[], Iterator[Diagnostic]]) -> list[Diagnostic]:
    """Runs a check. Reports one that could not run as a finding, too."""
    try:
        return list(check())
    except ConnectError as error:
        return list(error.diagnostics)


def _checks(
    backend: Backend, client: RestClient | None, secrets: SpecSecrets, looked_at: list[str]
) -> Iterator[Diagnostic]:
    """Yields the problems of the topics, if there is a Kafka, and of the REST API, if a worker
    answers."""
    project = backend.project
    topics = _topics_side(backend) if backend.kafka else None
    side = None if client is None else _rest_side(client)
    if topics is not None:
        connectors = counted(len(topics.config.connectors), "connector")
        counts = f"{counted(len(topics.topics), 'topic')}, {connectors}"
        looked_at.append(f"Kafka {topics.cluster_id}: {counts}")
    if side is not None:
        connectors = counted(len(side.infos), "connector")
        looked_at.append(f"REST, Connect {side.version}: {connectors}")
    if topics is not None:
        yield from check_topics(project, topics)
    if side is not None:
        yield from check_version(side.version, backend.address)
    if client is not None and topics is not None and side is not None:
        if project.uses_runtime:
            yield from _runtime_problem(client, backend.address)
        topics, side, differences = _lasting_differences(backend, client, topics, side)
        if differences and not project.uses_runtime:
            kafka, reported = kafka_side(project, backend.kafka), rest_side(client)
            # Nothing else that differs is worth a look then
            if problem := problem_of(signs(kafka, reported), kafka, reported, (), project):
                yield problem
                return
        yield from differences
    if topics is not None:
        yield from _of_topics(backend, topics)
        if project.uses_runtime:
            if client is None:
                yield from problems_here(project, backend.kafka)
            yield from missing_rights(project, backend.kafka, topics.sources)
    if side is not None:
        yield from _of_rest(backend, side, secrets, alone=topics is None)
    yield from refused_later(project, _overriding(topics, side), _OVERRIDES)
    if topics is None and side is not None:
        _, errors = load_ledger({name: info.config for name, info in side.infos.items()})
        yield from chain.from_iterable(error.diagnostics for error in errors.values())


def _lasting_differences(
    backend: Backend, client: RestClient, topics: ClusterInTopics, side: ClusterOverRest
) -> tuple[ClusterInTopics, ClusterOverRest, tuple[Diagnostic, ...]]:
    """Looks again where both sides differ. Returns them as they were read last, and the
    differences that stay."""
    differences = tuple(compare(topics, side))
    for _ in range(_LOOKS - 1):
        if not differences:
            break
        time.sleep(_AGAIN_S)
        topics, side = _topics_side(backend), _rest_side(client)
        lasting = {finding.what for finding in compare(topics, side)}
        differences = tuple(difference for difference in differences if difference.what in lasting)
    return topics, side, differences


def _of_topics(backend: Backend, topics: ClusterInTopics) -> Iterator[Diagnostic]:
    """Yields the problems that topics alone show."""
    yield from left_over(topics)
    yield from unreadable(topics)
    yield from read_by_strangers(topics)
    yield from scattered_offsets(topics)
    configs = {name: stored.config for name, stored in topics.config.connectors.items()}
    yield from keys_of_cluster(configs, _ledger(backend))


def _of_rest(
    backend: Backend, side: ClusterOverRest, secrets: SpecSecrets, *, alone: bool
) -> Iterator[Diagnostic]:
    """Yields the problems that the REST API shows; `alone`: no topics are read."""
    yield from failed(side)
    configs = {name: info.config for name, info in side.infos.items()}
    if alone:
        yield from keys_of_cluster(configs, LedgerState())
    if not any(running_with_errors(side)):
        return
    secrets = secrets.with_ledger(with_configs(_ledger(backend), configs).connectors)
    with backend.plugins() as plugins:
        statuses = {
            name: without_secrets(status, (configs[name],), plugins, secrets)
            for name, status in side.statuses.items()
        }
    yield from running_with_errors(replace(side, statuses=statuses))


def _overriding(
    topics: ClusterInTopics | None, side: ClusterOverRest | None
) -> list[tuple[str, Mapping[str, str], bool]]:
    """Returns each connector with its config; True for sinks."""
    infos = {} if side is None else side.infos
    if topics is None:
        return [(name, info.config, info.type == SINK) for name, info in infos.items()]
    return [
        (name, stored.config, infos[name].type == SINK if name in infos else name in topics.sinks)
        for name, stored in topics.config.connectors.items()
    ]


def _ledger(backend: Backend) -> LedgerState:
    """Returns the ledger as far as it can be read; other checks report its problems."""
    with suppress(ConnectError):
        return backend.ledger().state
    return LedgerState()


def _runtime_problem(client: RestClient, address: str) -> Iterator[Diagnostic]:
    """Yields the problem that the leader reports."""
    body = client.read("/runtime", shapes.a_map) or {}
    if body.get("problem"):
        yield Diagnostic("doctor.runtime", "the runtime has a problem", address, body["problem"])
    yield from plugin_problems(map(str, body.get("plugin_problems") or ()))
    for task in body.get("own_jvms") or ():
        problem = (
            f"task {task['task']} has ended its JVM, and shares none on its node until its config "
            "changes"
        )
        hint = "`connect status` shows the end of its JVM"
        yield warning("doctor.own-jvm", problem, task["connector"], hint=hint)


def _topics_side(backend: Backend) -> ClusterInTopics:
    project, client = backend.project, backend.kafka
    view, names = KafkaView(client), project.topics
    stored = read_topics(names, view, (names.config, names.status, names.offsets))
    config, offset_records = (
        stored.records.get(name, ()) for name in (names.config, names.offsets)
    )
    clusters = ConnectorClusters(project, worker_properties(project, client), view)
    connectors = stored.config.connectors
    kinds = {
        name: _kind(name, connector.config, stored.offsets)
        for name, connector in connectors.items()
    }
    clients_by_name = {
        name: clusters.clients(name, connector.config, kinds[name])
        for name, connector in connectors.items()
    }
    clusters.reach(clients_by_name.values())
    offsets = offsets_now(clients_by_name, {}, stored.offsets, clusters)
    return ClusterInTopics(
        cluster_id=stored.cluster_id,
        brokers=brokers_of(client),
        topics=topic_facts(client, names, view),
        config=stored.config,
        status=stored.status,
        offsets=offsets.offsets,
        unknown=offsets.unknown,
        strangers=strangers_of_sinks(
            {
                name: connector
                for name, connector in clients_by_name.items()
                if connector.kind == "sink"
            },
            stored.config,
            clusters,
        ),
        unread=statuses_unread(names, stored),
        sinks=frozenset(name for name, kind in kinds.items() if kind == SINK),
        offset_records=offset_records,
        places=record_locations(config, offset_records),
    )


def _kind(name: str, config: Mapping[str, str], stored: OffsetSnapshot) -> Kind:
    """Returns the kind without the plugin: a source has offsets in the worker's topic, or names no
    topics."""
    names_topics = bool({"topics", "topics.regex"} & config.keys())
    return "sink" if names_topics and name not in stored.connectors else "source"


def _rest_side(client: RestClient) -> ClusterOverRest:
    about = client.about()
    reported = connectors_over_rest(client)
    statuses = {
        n: connector.status for n, connector in reported.items() if connector.status is not None
    }
    stopped = [n for n, status in statuses.items() if status.connector.state is State.STOPPED]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="doctor") as pool:
        offsets = dict(zip(stopped, pool.map(lambda n: _offsets(client, n), stopped), strict=True))
    return ClusterOverRest(
        version=about.version,
        cluster_id=about.kafka_cluster_id,
        infos={name: connector.info for name, connector in reported.items()},
        statuses=statuses,
        offsets={
            name: Offsets(connector) for name, connector in offsets.items() if connector is not None
        },
    )


def _offsets(client: RestClient, name: str) -> tuple[OffsetEntry, ...] | None:
    try:
        return client.read(connector_path(name, "offsets"), shapes.offsets)
    except RequestError:
        return None


def _unfinished(backend: Backend) -> Iterator[Diagnostic]:
    for journal in backend.ledger().applies.values():
        if journal.ending is None:
            problem = f"apply {journal.id} of {journal.by} has not ended, or ended early"
            hint = "if it is not running, run apply again: it goes on from there"
            topic = backend.project.topics.ledger
            yield warning("doctor.unfinished", problem, topic, hint=hint)


_REQUEST_S = 10.0


def brokers_of(client: Mapping[str, str]) -> int:
    asks = admin(client)
    try:
        return len(asks.list_topics(timeout=_REQUEST_S).brokers)
    except KafkaException as error:
        raise as_failure(error_of(error), "The brokers cannot be listed", "Kafka") from None


def topic_facts(
    client: Mapping[str, str], topics: ClusterTopics, view: KafkaView
) -> dict[str, TopicFacts]:
    """Returns the facts of the cluster's topics that exist."""
    names = [topics.config, topics.offsets, topics.status, topics.assignments, topics.ledger]
    facts: dict[str, TopicFacts] = {}
    for name, topic in describe_topics(admin(client), names, _REQUEST_S).items():
        if isinstance(topic, KafkaError):
            continue
        offline = tuple(partition.id for partition in topic.partitions if partition.leader is None)
        replication = min((len(partition.replicas) for partition in topic.partitions), default=0)
        policy = view.cleanup_policy(name)
        facts[name] = TopicFacts(name, len(topic.partitions), replication, policy, offline)
    return facts


def group_mixing(project: Project, client: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yields a problem if workers of the other kind use the group: ours and Apache's refuse each
    other."""
    group = project.group_id
    try:
        leader = find_leader(client, group, project.topics.config, 0.0)
    except ApacheGroup as error:
        if project.uses_runtime:
            yield from error.diagnostics
        return
    if not project.uses_runtime and leader is not None:
        problem = f"a runtime of ours leads the group, at {leader.identity}"
        hint = "stop it, or write target: runtime"
        yield Diagnostic("doctor.mixed-group", problem, group, hint=hint)
    elif not project.uses_runtime:
        problem = "no worker of Apache's is in the group"
        hint = "start the workers, or check cluster.group.id"
        yield warning("doctor.no-workers", problem, group, hint=hint)
