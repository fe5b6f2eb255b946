"""Checks that the Kafka and the REST API of connect.yaml are those of one Connect cluster.

The cluster is read from topics, and changed through REST. With those of two clusters an update
would create a second copy elsewhere, and a delete would find nothing to delete.

One side may show a change before the other: only lasting differences count.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from connect_reconciler.backend.observe.kafka_view import KafkaView
from connect_reconciler.backend.observe.observe import Topics, read_topics
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.connection import shown_url
from connect_reconciler.model.ledger import LedgerState
from connect_runtime.kafka.election import ApacheGroup, find_leader
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid, Location, warning
from connect_specs.plain_text import listed

# A rebalance takes a few seconds, and workers report the state before it
_SETTLES_S: Final = 10.0
_EVERY_S: Final = 0.5

Sign: TypeAlias = tuple[
    Literal["no-topic", "no-member", "in-rest", "in-topic", "worker", "no-status"], str
]


@dataclass(frozen=True, slots=True)
class KafkaSide:
    """The cluster as Kafka's topics show it. `workers` are worker ids by connector, empty without
    an owner; None without a config topic. `members`: the group has members; None if that may not be
    read. `statuses`: there is a status topic."""

    cluster_id: str
    workers: Mapping[str, str] | None
    members: bool | None
    statuses: bool = True


@dataclass(frozen=True, slots=True)
class RestSide:
    """The cluster as a worker reports it; `cluster_id` is empty if it does not report one."""

    cluster_id: str
    workers: Mapping[str, str]
    version: str = ""


def signs(kafka: KafkaSide, rest_side: RestSide) -> frozenset[Sign]:
    """Returns all differences between the two."""
    if kafka.workers is None:
        return frozenset({("no-topic", "")})
    stored, reported = kafka.workers, rest_side.workers
    differences: set[Sign] = {("in-rest", name) for name in reported.keys() - stored.keys()}
    differences |= {("in-topic", name) for name in stored.keys() - reported.keys()}
    differences |= {
        ("worker", name) for name in _placed(kafka, rest_side) if stored[name] != reported[name]
    }
    if kafka.members is False:
        differences.add(("no-member", ""))
    # A worker reports the statuses that it has read in that topic
    running = {name for name in reported.keys() & stored.keys() if reported[name]}
    if kafka.statuses and running and not any(stored[name] for name in running):
        differences.add(("no-status", ""))
    return frozenset(differences)


def problem_of(
    lasting: Collection[Sign],
    kafka: KafkaSide,
    rest_side: RestSide,
    concerned: Collection[str],
    project: Project,
) -> Diagnostic | None:
    """Returns the problem, if all `lasting` differences stay. `concerned` are the connectors that
    matter.

    If a login may see some connectors only, REST leaves out the others: these do not matter.
    """
    topics, group = project.topics, project.group_id
    url = "" if project.target is None else shown_url(project.target)
    servers = (project.kafka or {}).get("bootstrap.servers", "Kafka")
    problem_at = partial(_diagnostic, project)
    if rest_side.cluster_id and rest_side.cluster_id != kafka.cluster_id:
        problem = f"the workers at {url} use another Kafka than cluster.kafka leads to"
        reason = f"REST says {rest_side.cluster_id}, and {servers} is {kafka.cluster_id}"
        return problem_at("other-kafka", problem, reason, "target", "kafka")
    names: dict[str, list[str]] = defaultdict(list)
    for kind, name in sorted(lasting):
        names[kind].append(name)
    if "no-topic" in names:
        problem = f"there is no topic {topics.config} on {servers}"
        reason = f"the workers of group {group} would keep their connectors there"
        return problem_at("no-config-topic", problem, reason, "group.id", "topics", "kafka")
    other_group = f"the workers at {url} are not those of group {group}"
    only_rest, only_topic, misplaced = names["in-rest"], names["in-topic"], names["worker"]
    common = (kafka.workers or {}).keys() & rest_side.workers.keys()
    if only_rest or (only_topic and (not common or set(only_topic) & set(concerned))):
        reasons = []
        if only_rest:
            reasons.append(
                f"REST tells of {listed(only_rest)}, which topic {topics.config} does not hold"
            )
        if only_topic:
            reasons.append(
                f"topic {topics.config} holds {listed(only_topic)}, which REST does not know"
            )
        reason = "; ".join(reasons)
        return problem_at("other-group", other_group, reason, "target", "group.id", "topics")
    if misplaced and set(misplaced) >= set(_placed(kafka, rest_side)):
        name, stored = misplaced[0], (kafka.workers or {})[misplaced[0]]
        reason = (
            f"{name} is on {rest_side.workers[name]} as REST tells,"
            f" and on {stored} as {topics.status} tells"
        )
        return problem_at("other-group", other_group, reason, "target", "group.id", "topics")
    if "no-member" in names:
        problem = f"no worker is in the group {group}, and one answers at {url}"
        reason = "group.id is not the one in the properties of these workers"
        return problem_at("empty-group", problem, reason, "group.id", "target")
    if "no-status" in names:
        problem = f"topic {topics.status} is not the status topic of the workers at {url}"
        reason = "REST tells how its connectors are, and the topic holds no status of any of them"
        return problem_at("other-status-topic", problem, reason, "topics", "group.id")
    return None


def _placed(kafka: KafkaSide, rest_side: RestSide) -> list[str]:
    """Returns the connectors for which both sides name a worker."""
    stored = kafka.workers or {}
    return [name for name, worker in rest_side.workers.items() if worker and stored.get(name)]


def _diagnostic(project: Project, code: str, problem: str, reason: str, *fields: str) -> Diagnostic:
    """Returns a diagnostic with the `fields` of the cluster that may be wrong, the likeliest
    first."""
    places = project.cluster_locations
    likely = [(name, places[name]) for name in fields if name in places]
    names = [f"cluster.{name} ({location.file}:{location.line})" for name, location in likely]
    hint = f"nothing was changed; correct {' or '.join(names or ['connect.yaml'])}"
    location = likely[0][1] if likely else Location(project.file.name)
    return Diagnostic(f"cluster.{code}", problem, location, reason, hint)


def connectors_of(desired: Desired, ledger: LedgerState) -> frozenset[str]:
    """Returns the connectors that matter to a project: in its specs, or owned by it."""
    renamed = {spec.renamed_from for spec in desired.connectors.values() if spec.renamed_from}
    return ledger.owned_by(desired.project) | desired.connectors.keys() | renamed


def not_compared(error: ConnectError) -> Diagnostic:
    """Returns the warning of a plan that was made while no worker answered."""
    first = error.diagnostics[0]
    problem = "whether the workers are those of this group.id is not known"
    reason = f"{first.what}: {first.why}" if first.why else first.what
    hint = "an apply asks them first"
    return warning("cluster.not-compared", problem, first.where, reason, hint)


def ensure_same_cluster(
    project: Project,
    client: Mapping[str, str],
    worker: RestClient,
    concerned: Collection[str],
    *,
    topics: Topics | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> RestSide:
    """Returns REST's side, if both are of one cluster, as far as that can be known. `topics` are
    those that were just read, if any.

    Raises Invalid where they are not, Unreachable or RequestError where REST does not answer.
    """
    lasting: frozenset[Sign] | None = None
    deadline = clock() + _SETTLES_S
    while True:
        kafka, topics = kafka_side(project, client, topics), None
        try:
            reported = rest_side(worker)
        except ConnectError:
            if kafka.workers is not None:
                raise
            reported = RestSide("", {})
        current = signs(kafka, reported)
        lasting = current if lasting is None else lasting & current
        problem = problem_of(lasting, kafka, reported, concerned, project)
        if problem is None:
            return reported
        # Of all that may differ, a cluster's id alone never passes
        if problem.code == "cluster.other-kafka" or clock() >= deadline:
            raise Invalid(problem)
        sleep(_EVERY_S)


def kafka_side(
    project: Project, client: Mapping[str, str], topics: Topics | None = None
) -> KafkaSide:
    """Returns Kafka's side from the `topics`, which are read now if they are None. Raises
    Unreachable, LogBlocked."""
    names = project.topics
    if topics is None:
        topics = read_topics(names, KafkaView(client), (names.config, names.status))
    has_members = _has_members(project, client)
    if names.config not in topics.records:
        return KafkaSide(topics.cluster_id, None, has_members)
    statuses = topics.status.connectors
    workers = {
        name: statuses[name].worker_id if name in statuses else ""
        for name in topics.config.connectors
    }
    return KafkaSide(topics.cluster_id, workers, has_members, names.status in topics.records)


def _has_members(project: Project, client: Mapping[str, str]) -> bool | None:
    try:
        return find_leader(client, project.group_id, project.topics.config, 0.0) is not None
    except ApacheGroup:
        return True
    except ConnectError:
        # A login may read the topics and not see the group
        return None


def rest_side(worker: RestClient) -> RestSide:
    """Reads REST's side. Raises Unreachable, also if Connect does not answer there;
    RequestError."""
    about, names = worker.about(), worker.must("/connectors", shapes.names)
    # Leaves out what has no status yet
    path, parse = "/connectors?expand=status", shapes.expanded_statuses
    statuses = worker.must(path, parse) if names else {}
    workers = {name: status.connector.worker_id for name, status in statuses.items()}
    return RestSide(about.kafka_cluster_id, dict.fromkeys(names, "") | workers, about.version)
