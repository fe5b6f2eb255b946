"""Which way leads to this project's cluster right now?

A Connect cluster of Apache's is asked over REST. Of ours, the living leader is asked over its REST
API; where nobody leads, this process does, until it has finished. It never leads beside another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from connect_reconciler.cluster.answers import LOGIN_HINT
from connect_reconciler.cluster.http import HttpCluster
from connect_reconciler.cluster.in_process import InProcessCluster
from connect_reconciler.cluster.port import Cluster
from connect_reconciler.cluster.rest_client import RestClient
from connect_reconciler.cluster.retries import HASTY, Retries
from connect_reconciler.cluster.runtime_target import login_hint, runtime_target
from connect_reconciler.ledger.lease import LeaseRefused, identity
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.assembly import ConnectHerder, Edges
from connect_runtime.herder.herder import Herder
from connect_runtime.herder.worker import WorkerSettings
from connect_runtime.joining import ensure_topics
from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.election import Election, Leader, find_leader
from connect_runtime.kafka.errors import is_denied
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.sink_groups import SinkGroups
from connect_runtime.validation.validate import check
from connect_runtime.worker_config import from_project
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Unreachable

# A leader that was killed is still named for 6 s; one that just won has yet to read its topics.
_CHOOSE_S = 15.0
_ELECTION_S = 2.0
_JOIN_S = 10.0
_EVERY_S = 0.2
_ASK_S = 3.0
_ANSWER_S = 15.0


def open_cluster(
    project: Project, client: Mapping[str, str], retries: Retries | None = None
) -> Cluster:
    """The cluster, by whichever way leads there. `client` holds properties under Java's names,
    `retries` how long a Connect cluster is waited for.

    Raises LeaseRefused while another process leads without REST, Unreachable.
    """
    if project.target is not None:
        return HttpCluster(RestClient.checked(project.target, retries))
    check_reachable(client)
    deadline = time.monotonic() + _CHOOSE_S
    while True:
        leader = _leader(project, client)
        if leader is None:
            found: Cluster | None = _lead(project, client)
        else:
            found = _over_http(project, leader.identity)
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise _taken(leader, project.group_id)
        time.sleep(_EVERY_S)


def rest_client(project: Project, client: Mapping[str, str]) -> RestClient | None:
    """The REST API of a Connect cluster or of the living leader; None where nobody answers.

    For questions beside the way to a plan: it gives up soon, and asks nothing again.
    """
    target, hint = project.target, LOGIN_HINT
    if target is None:
        leader = _leader(project, client)
        if leader is None or not leader.identity.startswith(("http://", "https://")):
            return None
        target, hint = runtime_target(project, leader.identity), login_hint(project)
    short = replace(
        target, connect_s=min(target.connect_s, _ASK_S), answer_s=min(target.answer_s, _ANSWER_S)
    )
    direct = project.target is None
    return RestClient(short, retries=HASTY, login_hint=hint, direct=direct)


def _leader(project: Project, client: Mapping[str, str]) -> Leader | None:
    return find_leader(client, project.group_id, project.topics.config, _ELECTION_S)


def _over_http(project: Project, url: str) -> HttpCluster | None:
    """None where nobody answers at this leader's address, or it has none."""
    if not url.startswith(("http://", "https://")):
        return None
    target, hint = runtime_target(project, url), login_hint(project)
    cluster = HttpCluster(RestClient(target, login_hint=hint, direct=True))
    if cluster.ready():
        return cluster
    cluster.close()
    return None


def _taken(leader: Leader | None, group_id: str) -> ConnectError:
    if leader is None:
        what = "no leader can be elected"
        return Unreachable(Diagnostic("cluster.no-leader", what, group_id))
    if leader.identity.startswith(("http://", "https://")):
        what = f"the leader does not answer at {leader.identity}"
        hint = "check that this address can be reached from here, and the runtime's log"
        return Unreachable(Diagnostic("cluster.leader-silent", what, group_id, hint=hint))
    what = f"another apply is at work: {leader.identity}"
    return LeaseRefused(Diagnostic("apply.leased", what, group_id, hint="wait until it has ended"))


def _lead(project: Project, client: Mapping[str, str]) -> InProcessCluster | None:
    """Leads in this process; None if another one won the election."""
    worker, _ = from_project(replace(project, kafka=client), None, resolve=False)
    who = identity(time.time_ns() // 1_000_000)
    with ExitStack() as stack:
        logs = KafkaLogs(client)
        stack.callback(logs.close)
        # made only if a connector whose offsets move holds a reference
        providers = ConfigProviders(worker.properties)
        stack.callback(providers.close)
        ensure_topics(worker, logs)
        herder = ConnectHerder(
            who,
            WorkerSettings(project.group_id, project.topics, who, worker.properties),
            Edges(
                logs=logs,
                groups=SinkGroups(),
                election=Election(client, project.group_id, project.topics.config, who),
                launcher=None,
                check=lambda name, config: check(config, worker),
                leader=lambda: None,
                providers=providers,
            ),
        )
        stack.callback(herder.stop)
        herder.start()
        if not _wait(lambda: _leads(herder.herder), _JOIN_S):
            return None
        return InProcessCluster(herder.verbs, stack.pop_all().close)


def _leads(herder: Herder) -> bool:
    """Raises what stands in the way, if it is a right that this login lacks: it will not pass."""
    if herder.obstacle is not None and is_denied(herder.obstacle):
        raise herder.obstacle
    return herder.leading


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
