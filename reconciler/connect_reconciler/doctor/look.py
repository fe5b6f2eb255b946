"""Looks at Kafka and at the REST API, and hands both to the checks. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.observe.connector_clusters import (
    ConnectorClusters,
    worker_properties,
)
from connect_reconciler.backend.observe.connector_offsets import offsets_now
from connect_reconciler.backend.observe.kafka_view import KeepingView
from connect_reconciler.backend.observe.observe import read_topics, statuses_unread
from connect_reconciler.backend.observe.plugin_facts import SpecSecrets, without_secrets
from connect_reconciler.backend.observe.rest import connectors_over_rest
from connect_reconciler.backend.observe.same_cluster import kafka_side, problem_of, rest_side, signs
from connect_reconciler.backend.observe.strangers import strangers_of_sinks
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient, connector_path
from connect_reconciler.doctor.checks import (
    Places,
    RestSide,
    TopicFacts,
    TopicsSide,
    check_topics,
    check_version,
    compare,
    failed,
    keys_of_cluster,
    left_over,
    read_by_strangers,
    running_with_errors,
    scattered_offsets,
    unreadable,
)
from connect_reconciler.ledger.config_entry import load_ledger, with_configs
from connect_reconciler.ledger.topic import LedgerUnreadable
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.validation.keys import refused_later
from connect_runtime.herder.verbs import ConnectorInfo, RequestError
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.election import find_leader
from connect_runtime.kafka.errors import as_failure, error_of
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
    """What was found. `looked_at` says at what, in words."""

    findings: tuple[Diagnostic, ...]
    looked_at: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


def examine(backend: Backend, secrets: SpecSecrets = _NO_SPECS) -> Report:
    """Looks again where the two sides differ: one may have been read just before a change.
    `secrets` are those of the specs, which errors may hold.

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
        rest = backend.rest()
    except ConnectError:
        # Who uses the group was told above
        rest = None
    if rest is None:
        findings += _or_error(lambda: _topics_alone(backend, looked_at))
        return Report(tuple(findings), tuple(looked_at))
    with rest:
        if client:
            findings += _or_error(lambda: _both(backend, rest, secrets, looked_at))
        else:
            findings += _or_error(lambda: _rest_alone(backend, rest, secrets, looked_at))
    return Report(tuple(findings), tuple(looked_at))


def _or_error(check: Callable[[], Iterator[Diagnostic]]) -> list[Diagnostic]:
    """What cannot be looked at is a finding, too."""
    try:
        return list(check())
    except ConnectError as error:
        return list(error.diagnostics)


def _topics_alone(backend: Backend, looked_at: list[str]) -> Iterator[Diagnostic]:
    topics = _topics_side(backend)
    _tell_topics(topics, looked_at)
    yield from check_topics(backend.project, topics)
    yield from left_over(topics)
    yield from unreadable(topics)
    yield from read_by_strangers(topics)
    yield from scattered_offsets(topics)
    yield from _keys_of_cluster(backend, topics)
    yield from _refused_later(backend.project, topics, {})


def _rest_alone(
    backend: Backend, rest: RestClient, secrets: SpecSecrets, looked_at: list[str]
) -> Iterator[Diagnostic]:
    side = _rest_side(rest)
    _tell_rest(side, looked_at)
    yield from check_version(side.version, backend.address)
    yield from failed(side)
    told = {name: info.config for name, info in side.infos.items()}
    yield from keys_of_cluster(told, LedgerState())
    yield from _running_with_errors(backend, side, secrets)
    overriding = [(name, info.config, info.type == SINK) for name, info in side.infos.items()]
    yield from refused_later(backend.project, overriding, _OVERRIDES)
    found: list[Diagnostic] = []

    def unreadable(error: LedgerUnreadable, name: str) -> None:
        found.extend(error.diagnostics)

    load_ledger({name: info.config for name, info in side.infos.items()}, unreadable)
    yield from found


def _both(
    backend: Backend, rest: RestClient, secrets: SpecSecrets, looked_at: list[str]
) -> Iterator[Diagnostic]:
    project = backend.project
    topics, side = _topics_side(backend), _rest_side(rest)
    _tell_topics(topics, looked_at)
    _tell_rest(side, looked_at)
    yield from check_topics(project, topics)
    yield from check_version(side.version, backend.address)
    if project.uses_runtime:
        yield from _runtime_problem(rest, backend.address)
    differences = tuple(compare(topics, side))
    for _ in range(_LOOKS - 1):
        if not differences:
            break
        time.sleep(_AGAIN_S)
        topics, side = _topics_side(backend), _rest_side(rest)
        again = {finding.what for finding in compare(topics, side)}
        differences = tuple(each for each in differences if each.what in again)
    if differences and not project.uses_runtime:
        kafka, told = kafka_side(project, backend.kafka), rest_side(rest)
        # Nothing else that differs is worth a look then
        if problem := problem_of(signs(kafka, told), kafka, told, (), project):
            yield problem
            return
    yield from differences
    yield from left_over(topics)
    yield from unreadable(topics)
    yield from read_by_strangers(topics)
    yield from scattered_offsets(topics)
    yield from _keys_of_cluster(backend, topics)
    yield from failed(side)
    yield from _running_with_errors(backend, side, secrets)
    yield from _refused_later(project, topics, side.infos)


def _ledger(backend: Backend) -> LedgerState:
    """What can be read of the ledger; what is wrong with it, other checks say."""
    with suppress(ConnectError):
        return backend.ledger().state
    return LedgerState()


def _keys_of_cluster(backend: Backend, topics: TopicsSide) -> Iterator[Diagnostic]:
    configs = {name: each.config for name, each in topics.config.connectors.items()}
    yield from keys_of_cluster(configs, _ledger(backend))


def _running_with_errors(
    backend: Backend, side: RestSide, secrets: SpecSecrets
) -> Iterator[Diagnostic]:
    if not any(running_with_errors(side)):
        return
    owned = with_configs(_ledger(backend), {name: info.config for name, info in side.infos.items()})
    secrets = secrets.with_ledger(owned.connectors)
    with backend.plugins() as plugins:
        statuses = {
            name: without_secrets(status, (side.infos[name].config,), plugins, secrets)
            for name, status in side.statuses.items()
        }
    yield from running_with_errors(replace(side, statuses=statuses))


def _runtime_problem(rest: RestClient, where: str) -> Iterator[Diagnostic]:
    """What the leader says of itself."""
    found = rest.read("/runtime", shapes.a_map) or {}
    if found.get("problem"):
        yield Diagnostic("doctor.runtime", "the runtime has a problem", where, found["problem"])


def _refused_later(
    project: Project, topics: TopicsSide, told: Mapping[str, ConnectorInfo]
) -> Iterator[Diagnostic]:
    connectors = [
        (name, each.config, told[name].type == SINK if name in told else name in topics.sinks)
        for name, each in topics.config.connectors.items()
    ]
    yield from refused_later(project, connectors, _OVERRIDES)


def _topics_side(backend: Backend) -> TopicsSide:
    project, client = backend.project, backend.kafka
    view, names = KeepingView(client), project.topics
    cluster_id = view.cluster_id()
    read = read_topics(names, view, ledger=False)
    unread = statuses_unread(names, view)
    clusters = ConnectorClusters(project, worker_properties(project, client), view)
    connectors = read.config.connectors
    kinds = {name: _kind(name, each.config, read.offsets) for name, each in connectors.items()}
    held = {
        name: clusters.clients(name, each.config, kinds[name]) for name, each in connectors.items()
    }
    clusters.reach(held.values())
    found = offsets_now(held, {}, read.offsets, clusters)
    return TopicsSide(
        cluster_id=cluster_id,
        brokers=brokers_of(client),
        topics=topic_facts(client, names),
        config=read.config,
        status=read.status,
        offsets=found.offsets,
        unknown=found.unknown,
        strangers=strangers_of_sinks(
            {name: each for name, each in held.items() if each.kind == "sink"},
            read.config,
            clusters,
        ),
        unread=unread,
        sinks=frozenset(name for name, kind in kinds.items() if kind == SINK),
        offset_records=view.kept[names.offsets] or (),
        places=Places.index(view.kept[names.config] or (), view.kept[names.offsets] or ()),
    )


def _kind(name: str, config: Mapping[str, str], stored: OffsetSnapshot) -> Kind:
    """Without its plugin: a source has left something in the worker's topic, or names no topics."""
    names_topics = bool({"topics", "topics.regex"} & config.keys())
    return "sink" if names_topics and name not in stored.connectors else "source"


def _rest_side(rest: RestClient) -> RestSide:
    about = rest.about()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="doctor") as pool:
        found = connectors_over_rest(rest, pool)
        statuses = {n: each.status for n, each in found.items() if each.status is not None}
        stopped = [n for n, status in statuses.items() if status.connector.state is State.STOPPED]
        offsets = dict(zip(stopped, pool.map(lambda n: _offsets(rest, n), stopped), strict=True))
    return RestSide(
        version=about.version,
        cluster_id=about.kafka_cluster_id,
        infos={name: each.info for name, each in found.items()},
        statuses=statuses,
        offsets={name: Offsets(each) for name, each in offsets.items() if each is not None},
    )


def _offsets(rest: RestClient, name: str) -> tuple[OffsetEntry, ...] | None:
    try:
        return rest.read(connector_path(name, "offsets"), shapes.offsets)
    except RequestError:
        return None


def _unfinished(backend: Backend) -> Iterator[Diagnostic]:
    for journal in backend.ledger().applies.values():
        if journal.ending is None:
            what = f"apply {journal.id} of {journal.by} has not ended, or ended early"
            hint = "if it is not running, run apply again: it goes on from there"
            where = backend.project.topics.ledger
            yield warning("doctor.unfinished", what, where, hint=hint)


def _tell_topics(side: TopicsSide, looked_at: list[str]) -> None:
    topics, connectors = len(side.topics), len(side.config.connectors)
    counts = f"{counted(topics, 'topic')}, {counted(connectors, 'connector')}"
    looked_at.append(f"Kafka {side.cluster_id}: {counts}")


def _tell_rest(side: RestSide, looked_at: list[str]) -> None:
    looked_at.append(f"REST, Connect {side.version}: {counted(len(side.infos), 'connector')}")


_REQUEST_S = 10.0
_OF_APACHE = "cluster.of-apache"


def brokers_of(client: Mapping[str, str]) -> int:
    asks = admin(client)
    try:
        return len(asks.list_topics(timeout=_REQUEST_S).brokers)
    except KafkaException as error:
        raise as_failure(error_of(error), "The brokers cannot be listed", "Kafka") from None


def topic_facts(client: Mapping[str, str], topics: ClusterTopics) -> dict[str, TopicFacts]:
    """Those of the cluster's topics that exist."""
    names = [topics.config, topics.offsets, topics.status, topics.assignments, topics.ledger]
    asks = admin(client)
    found: dict[str, TopicFacts] = {}
    described = asks.describe_topics(TopicCollection(names), request_timeout=_REQUEST_S)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    settings = asks.describe_configs(resources, request_timeout=_REQUEST_S)
    for name, resource in zip(names, resources, strict=True):
        try:
            topic = described[name].result()
        except KafkaException:
            continue
        offline = tuple(each.id for each in topic.partitions if each.leader is None)
        replication = min((len(each.replicas) for each in topic.partitions), default=0)
        try:
            policy = str(settings[resource].result()["cleanup.policy"].value)
        except KafkaException:
            policy = None
        found[name] = TopicFacts(name, len(topic.partitions), replication, policy, offline)
    return found


def group_mixing(project: Project, client: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Whether workers of the other kind use the group: ours and Apache's refuse each other."""
    group = project.group_id
    try:
        leader = find_leader(client, group, project.topics.config, 0.0)
    except ConnectError as error:
        found = error.diagnostics[0]
        if found.code != _OF_APACHE:
            raise
        if project.uses_runtime:
            yield found
        return
    if not project.uses_runtime and leader is not None:
        what = f"a runtime of ours leads the group, at {leader.identity}"
        hint = "stop it, or write target: runtime"
        yield Diagnostic("doctor.mixed-group", what, group, hint=hint)
    elif not project.uses_runtime:
        what = "no worker of Apache's is in the group"
        hint = "start the workers, or check cluster.group.id"
        yield warning("doctor.no-workers", what, group, hint=hint)
