"""Are the Kafka and the REST API of connect.yaml those of one Connect cluster?

What is there is read from topics, and changes go through REST. With those of two clusters an update
would create a second copy elsewhere, and a delete would find nothing to delete.

One side may know of a change before the other: only what stays different is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from connect_reconciler.backend.observe.kafka_view import KeepingView
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.connection import shown_url
from connect_reconciler.model.ledger import LedgerState
from connect_runtime.kafka.election import ApacheGroup, find_leader
from connect_runtime.storage import config_topic, status_topic
from connect_runtime.storage.snapshots import ConfigSnapshot, StatusSnapshot
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid, Location, warning
from connect_specs.plain_text import listed

# A rebalance, before which a worker tells of what was, takes a few seconds
_SETTLES_S: Final = 10.0
_EVERY_S: Final = 0.5

Sign: TypeAlias = tuple[
    Literal["no-topic", "no-member", "in-rest", "in-topic", "worker", "no-status"], str
]


@dataclass(frozen=True, slots=True)
class KafkaSide:
    """What Kafka holds. `workers`: by connector who has it, empty where nobody does; None without a
    config topic. `members`: whether anybody is in the group, None where we may not ask; `statuses`:
    whether there is a status topic."""

    cluster_id: str
    workers: Mapping[str, str] | None
    members: bool | None
    statuses: bool = True


@dataclass(frozen=True, slots=True)
class RestSide:
    """What a worker reports; `cluster_id` is empty where it does not report one."""

    cluster_id: str
    workers: Mapping[str, str]
    version: str = ""


def signs(kafka: KafkaSide, rest: RestSide) -> frozenset[Sign]:
    """Everything in which the two differ."""
    if kafka.workers is None:
        return frozenset({("no-topic", "")})
    stored, told = kafka.workers, rest.workers
    found: set[Sign] = {("in-rest", name) for name in told.keys() - stored.keys()}
    found |= {("in-topic", name) for name in stored.keys() - told.keys()}
    found |= {("worker", name) for name in _placed(kafka, rest) if stored[name] != told[name]}
    if kafka.members is False:
        found.add(("no-member", ""))
    # A worker tells of statuses what it has read in that topic
    running = {name for name in told.keys() & stored.keys() if told[name]}
    if kafka.statuses and running and not any(stored[name] for name in running):
        found.add(("no-status", ""))
    return frozenset(found)


def problem_of(
    lasting: Collection[Sign],
    kafka: KafkaSide,
    rest: RestSide,
    concerned: Collection[str],
    project: Project,
) -> Diagnostic | None:
    """What is wrong, if all of `lasting` stays so. `concerned` are the connectors that matter.

    Where a login may see some connectors only, REST leaves out the others: these do not matter.
    """
    problems = _Problems(project)
    if rest.cluster_id and rest.cluster_id != kafka.cluster_id:
        return problems.other_kafka(kafka, rest)
    kinds = {kind for kind, _ in lasting}
    if "no-topic" in kinds:
        return problems.no_config_topic()
    only_rest = sorted(name for kind, name in lasting if kind == "in-rest")
    only_topic = sorted(name for kind, name in lasting if kind == "in-topic")
    common = (kafka.workers or {}).keys() & rest.workers.keys()
    if only_rest or (only_topic and (not common or set(only_topic) & set(concerned))):
        return problems.other_connectors(only_rest, only_topic)
    elsewhere = sorted(name for kind, name in lasting if kind == "worker")
    if elsewhere and set(elsewhere) >= set(_placed(kafka, rest)):
        return problems.other_workers(elsewhere[0], kafka, rest)
    if "no-member" in kinds:
        return problems.empty_group()
    return problems.other_statuses() if "no-status" in kinds else None


def _placed(kafka: KafkaSide, rest: RestSide) -> list[str]:
    """The connectors of which both sides say who has them."""
    stored = kafka.workers or {}
    return [name for name, worker in rest.workers.items() if worker and stored.get(name)]


@dataclass(frozen=True, slots=True)
class _Problems:
    """What is wrong, with what either side says and the lines of connect.yaml."""

    project: Project

    def other_kafka(self, kafka: KafkaSide, rest: RestSide) -> Diagnostic:
        what = f"the workers at {self._url()} use another Kafka than cluster.kafka leads to"
        why = f"REST says {rest.cluster_id}, and {self._kafka()} is {kafka.cluster_id}"
        return self._diagnostic("other-kafka", what, why, "target", "kafka")

    def no_config_topic(self) -> Diagnostic:
        topic = self.project.topics.config
        what = f"there is no topic {topic} on {self._kafka()}"
        why = f"the workers of group {self.project.group_id} would keep their connectors there"
        return self._diagnostic("no-config-topic", what, why, "group.id", "topics", "kafka")

    def other_connectors(self, only_rest: list[str], only_topic: list[str]) -> Diagnostic:
        said = []
        if only_rest:
            said.append(f"REST tells of {listed(only_rest)}, which {self._topic()} does not hold")
        if only_topic:
            said.append(f"{self._topic()} holds {listed(only_topic)}, which REST does not know")
        return self._other_group("; ".join(said))

    def other_workers(self, name: str, kafka: KafkaSide, rest: RestSide) -> Diagnostic:
        stored = (kafka.workers or {})[name]
        said = f"{name} is on {rest.workers[name]} as REST tells, and on {stored}"
        return self._other_group(f"{said} as {self.project.topics.status} tells")

    def empty_group(self) -> Diagnostic:
        group = self.project.group_id
        what = f"no worker is in the group {group}, and one answers at {self._url()}"
        why = "group.id is not the one in the properties of these workers"
        return self._diagnostic("empty-group", what, why, "group.id", "target")

    def other_statuses(self) -> Diagnostic:
        topic = self.project.topics.status
        what = f"topic {topic} is not the status topic of the workers at {self._url()}"
        why = "REST tells how its connectors are, and the topic holds no status of any of them"
        return self._diagnostic("other-status-topic", what, why, "topics", "group.id")

    def _other_group(self, why: str) -> Diagnostic:
        group = self.project.group_id
        what = f"the workers at {self._url()} are not those of group {group}"
        return self._diagnostic("other-group", what, why, "target", "group.id", "topics")

    def _diagnostic(self, code: str, what: str, why: str, *fields: str) -> Diagnostic:
        """`fields` of the cluster are what may be wrong, the likeliest first."""
        places = self.project.cluster_locations
        found = [(each, places[each]) for each in fields if each in places]
        named = [f"cluster.{each} ({place.file}:{place.line})" for each, place in found]
        hint = f"nothing was changed; correct {' or '.join(named or ['connect.yaml'])}"
        where = found[0][1] if found else Location(self.project.file.name)
        return Diagnostic(f"cluster.{code}", what, where, why, hint)

    def _url(self) -> str:
        target = self.project.target
        return "" if target is None else shown_url(target)

    def _kafka(self) -> str:
        return (self.project.kafka or {}).get("bootstrap.servers", "Kafka")

    def _topic(self) -> str:
        return f"topic {self.project.topics.config}"


def connectors_of(desired: Desired, ledger: LedgerState) -> frozenset[str]:
    """The connectors that matter to a project: in its specs, or owned by it."""
    renamed = {spec.renamed_from for spec in desired.connectors.values() if spec.renamed_from}
    return ledger.owned_by(desired.project) | desired.connectors.keys() | renamed


def not_compared(error: ConnectError) -> Diagnostic:
    """The warning of a plan that was made while no worker answered."""
    first = error.diagnostics[0]
    what = "whether the workers are those of this group.id is not known"
    why = f"{first.what}: {first.why}" if first.why else first.what
    hint = "an apply asks them first"
    return warning("cluster.not-compared", what, first.where, why, hint)


def ensure_same_cluster(
    project: Project,
    client: Mapping[str, str],
    rest: RestClient,
    concerned: Collection[str],
    *,
    read: KafkaSide | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> RestSide:
    """What REST reports, if both are of one cluster, as far as that can be known. `read` is what
    was just read from Kafka.

    Raises Invalid where they are not, Unreachable or RequestError where REST does not answer.
    """
    lasting: frozenset[Sign] | None = None
    deadline = clock() + _SETTLES_S
    while True:
        kafka, read = read or kafka_side(project, client), None
        try:
            told = rest_side(rest)
        except ConnectError:
            if kafka.workers is not None:
                raise
            told = RestSide("", {})
        found = signs(kafka, told)
        lasting = found if lasting is None else lasting & found
        problem = problem_of(lasting, kafka, told, concerned, project)
        if problem is None:
            return told
        # Of all that may differ, a cluster's id alone never passes
        if problem.code == "cluster.other-kafka" or clock() >= deadline:
            raise Invalid(problem)
        sleep(_EVERY_S)


def kafka_side(project: Project, client: Mapping[str, str]) -> KafkaSide:
    """Raises Unreachable, LogBlocked."""
    view, topics = KeepingView(client), project.topics
    view.read([topics.config, topics.status], (topics.status,))
    return kafka_side_read(project, client, view)


def kafka_side_read(project: Project, client: Mapping[str, str], view: KeepingView) -> KafkaSide:
    """The same from config and status topic as `view` has read them. Raises Unreachable."""
    found, cluster_id = _has_members(project, client), view.cluster_id()
    configs, told = view.kept[project.topics.config], view.kept[project.topics.status]
    if configs is None:
        return KafkaSide(cluster_id, None, found)
    status = status_topic.reduce_all(StatusSnapshot(), told or ())
    names = config_topic.reduce_all(ConfigSnapshot(), configs).connectors
    known = {name: each.worker_id for name, each in status.connectors.items()}
    workers = {name: known.get(name, "") for name in names}
    return KafkaSide(cluster_id, workers, found, statuses=told is not None)


def _has_members(project: Project, client: Mapping[str, str]) -> bool | None:
    try:
        return find_leader(client, project.group_id, project.topics.config, 0.0) is not None
    except ApacheGroup:
        return True
    except ConnectError:
        # A login may read the topics and not see the group
        return None


def rest_side(rest: RestClient) -> RestSide:
    """Raises Unreachable, also where what answers is not Connect; RequestError."""
    about, names = rest.about(), rest.must("/connectors", shapes.names)
    # Leaves out what has no status yet
    path, parse = "/connectors?expand=status", shapes.expanded_statuses
    statuses = rest.must(path, parse) if names else {}
    workers = {name: each.connector.worker_id for name, each in statuses.items()}
    return RestSide(about.kafka_cluster_id, dict.fromkeys(names, "") | workers, about.version)
