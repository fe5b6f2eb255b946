"""Looks at Kafka and at the REST API, and hands both to the checks. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from connect_reconciler.cluster import shapes
from connect_reconciler.cluster.choose import rest_client
from connect_reconciler.cluster.connection import shown_url
from connect_reconciler.cluster.rest_client import RestClient, connector_path
from connect_reconciler.doctor.compare import compare, failed, left_over, unreadable
from connect_reconciler.doctor.facts import Finding, Places, RestSide, TopicsSide
from connect_reconciler.doctor.kafka import brokers_of, group_mixing, topic_facts
from connect_reconciler.doctor.setup import check_topics, check_version
from connect_reconciler.ledger.config_entry import load_ledger
from connect_reconciler.ledger.topic import LedgerUnreadable
from connect_reconciler.observe.homes import Homes, worker_properties
from connect_reconciler.observe.kafka_view import KafkaView
from connect_reconciler.observe.ledger import ledger_seen
from connect_reconciler.observe.offsets import offsets_now
from connect_reconciler.observe.rest import connectors_over_rest
from connect_reconciler.observe.same_cluster import kafka_side, problem_of, rest_side, signs
from connect_runtime.client_overrides import Kind
from connect_runtime.herder.errors import RequestError
from connect_runtime.kafka.clients import check_reachable
from connect_runtime.storage import config_topic, offsets_topic, status_topic
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    OffsetSnapshot,
    State,
    StatusSnapshot,
)
from connect_specs.desired import OffsetEntry, Project
from connect_specs.diagnostics import ConnectError, Diagnostic

_AT_ONCE = 8
_AGAIN_S = 1.0
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. `looked_at` says at what, in words."""

    findings: tuple[Finding, ...]
    looked_at: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return not any(finding.level == "error" for finding in self.findings)


def examine(
    project: Project, client: Mapping[str, str], sleep: Callable[[float], None] = time.sleep
) -> Report:
    """Looks again where the two sides differ: one may have been read just before a change.

    Raises Unreachable where the only way to the cluster is a Kafka that does not answer.
    """
    if client and project.target is None:
        check_reachable(client)
    findings: list[Finding] = []
    looked_at: list[str] = []
    if client:
        findings += _or_error(lambda: group_mixing(project, client))
        findings += _or_error(lambda: _ledger(project, client))
    try:
        rest = rest_client(project, client)
    except ConnectError:
        # Who uses the group was told above
        rest = None
    if rest is None:
        findings += _or_error(lambda: _topics_alone(project, client, looked_at))
        return Report(tuple(findings), tuple(looked_at))
    with rest:
        if client:
            findings += _or_error(lambda: _both(project, client, rest, looked_at, sleep))
        else:
            findings += _or_error(lambda: _rest_alone(project, rest, looked_at))
    return Report(tuple(findings), tuple(looked_at))


def _or_error(check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What cannot be looked at is a finding, too."""
    try:
        return list(check())
    except ConnectError as error:
        return [Finding("error", diagnostic) for diagnostic in error.diagnostics]


def _topics_alone(
    project: Project, client: Mapping[str, str], looked_at: list[str]
) -> Iterator[Finding]:
    topics = _topics_side(project, client)
    _tell_topics(topics, looked_at)
    yield from check_topics(project, topics)
    yield from left_over(topics)
    yield from unreadable(topics)


def _rest_alone(project: Project, rest: RestClient, looked_at: list[str]) -> Iterator[Finding]:
    side = _rest_side(rest)
    _tell_rest(side, looked_at)
    yield from check_version(side.version, _address(project))
    yield from failed(side)
    found: list[Finding] = []

    def unreadable(error: LedgerUnreadable, name: str) -> None:
        found.extend(Finding("error", each) for each in error.diagnostics)

    load_ledger({name: info.config for name, info in side.infos.items()}, unreadable)
    yield from found


def _both(
    project: Project,
    client: Mapping[str, str],
    rest: RestClient,
    looked_at: list[str],
    sleep: Callable[[float], None],
) -> Iterator[Finding]:
    topics, side = _topics_side(project, client), _rest_side(rest)
    _tell_topics(topics, looked_at)
    _tell_rest(side, looked_at)
    yield from check_topics(project, topics)
    yield from check_version(side.version, _address(project))
    differences = tuple(compare(topics, side))
    for _ in range(_LOOKS - 1):
        if not differences:
            break
        sleep(_AGAIN_S)
        topics, side = _topics_side(project, client), _rest_side(rest)
        again = {finding.diagnostic.what for finding in compare(topics, side)}
        differences = tuple(each for each in differences if each.diagnostic.what in again)
    if differences and project.target is not None:
        kafka, told = kafka_side(project, client), rest_side(rest)
        # Nothing else that differs is worth a look then
        if problem := problem_of(signs(kafka, told), kafka, told, (), project):
            yield Finding("error", problem)
            return
    yield from differences
    yield from left_over(topics)
    yield from unreadable(topics)
    yield from failed(side)


def _topics_side(project: Project, client: Mapping[str, str]) -> TopicsSide:
    view, names = KafkaView(client), project.topics
    cluster_id = view.cluster_id()
    with ThreadPoolExecutor(3, thread_name_prefix="doctor") as pool:
        config, status, offsets = pool.map(
            view.records, (names.config, names.status, names.offsets)
        )
    configs = config_topic.reduce_all(ConfigSnapshot(), config)
    stored = offsets_topic.reduce_all(OffsetSnapshot(), offsets)
    homes = Homes(project, worker_properties(project, client), view)
    held = {
        name: homes.clients(name, state.config, _kind(name, state.config, stored))
        for name, state in configs.connectors.items()
    }
    homes.reach(held.values())
    found = offsets_now(held, {}, stored, homes)
    return TopicsSide(
        cluster_id=cluster_id,
        brokers=brokers_of(client),
        topics=topic_facts(client, names),
        config=configs,
        status=status_topic.reduce_all(StatusSnapshot(), status),
        stored=stored,
        offsets=found.offsets,
        unknown=found.unknown,
        places=Places.index(config, offsets),
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
        offsets={name: entries for name, entries in offsets.items() if entries is not None},
    )


def _offsets(rest: RestClient, name: str) -> tuple[OffsetEntry, ...] | None:
    try:
        found: tuple[OffsetEntry, ...] | None = rest.read(
            connector_path(name, "offsets"), shapes.offsets
        )
    except RequestError:
        return None
    return found


def _ledger(project: Project, client: Mapping[str, str]) -> Iterator[Finding]:
    ledger = ledger_seen(project, client)
    for journal in ledger.applies.values():
        if journal.ending is None:
            what = f"apply {journal.id} of {journal.by} has not ended, or ended early"
            hint = "if it is not at work, run apply again: it goes on from there"
            diagnostic = Diagnostic("doctor.unfinished", what, project.topics.ledger, hint=hint)
            yield Finding("warning", diagnostic)


def _tell_topics(side: TopicsSide, looked_at: list[str]) -> None:
    topics, connectors = len(side.topics), len(side.config.connectors)
    counts = f"{_count(topics, 'topic')}, {_count(connectors, 'connector')}"
    looked_at.append(f"Kafka {side.cluster_id}: {counts}")


def _tell_rest(side: RestSide, looked_at: list[str]) -> None:
    looked_at.append(f"REST, Connect {side.version}: {_count(len(side.infos), 'connector')}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _address(project: Project) -> str:
    return project.group_id if project.target is None else shown_url(project.target)
