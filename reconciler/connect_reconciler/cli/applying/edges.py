"""What an apply reaches the world through, opened in the order that keeps two applies apart.

The cluster first, because a new one has no topics yet; then the lease; and the ledger last, because
opening it ends whatever apply wrote before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from connect_reconciler.apply.edges import Edges, Settings
from connect_reconciler.apply.evidence import Evidence
from connect_reconciler.apply.lag import standings_of
from connect_reconciler.apply.rest_edges import edges_over_rest
from connect_reconciler.apply.waiting import Limits
from connect_reconciler.cli.applying.choices import Choices
from connect_reconciler.cli.applying.leasing import check_lease_rights, lease_for, who
from connect_reconciler.cli.applying.telling import telling
from connect_reconciler.cli.signals import at_once
from connect_reconciler.cluster.choose import open_cluster
from connect_reconciler.cluster.confirmed import ConfirmedCluster
from connect_reconciler.cluster.port import Cluster
from connect_reconciler.cluster.readback import ConfigTopic
from connect_reconciler.cluster.rest_alone import UnkeyedCluster
from connect_reconciler.cluster.rest_client import RestClient
from connect_reconciler.cluster.retries import PATIENT
from connect_reconciler.cluster.statuses import StatusTopic
from connect_reconciler.ledger.lease import Lease
from connect_reconciler.ledger.ledger import Ledger
from connect_reconciler.observe.homes import Homes, worker_properties
from connect_reconciler.observe.kafka_view import KafkaView, fingerprint_key_given
from connect_reconciler.observe.ledger import ledger_seen
from connect_reconciler.observe.same_cluster import connectors_of, ensure_same_cluster
from connect_reconciler.plan.versions import tasks_follow
from connect_runtime.kafka.log import KafkaLogs
from connect_specs.diagnostics import Failed

if TYPE_CHECKING:
    from connect_specs.desired import Desired, Project


_COMMITS, _COMMITS_MS = "offset.flush.interval.ms", "60000"


@contextmanager
def edges_for(
    project: Project,
    desired: Desired,
    properties: Mapping[str, str],
    stop: Callable[[], bool],
    choices: Choices | None = None,
    lease: Lease | None = None,
) -> Iterator[Edges]:
    """The edges of one apply; `lease` is one that was taken over for it.

    Raises LeaseRefused while another one is at work.
    """
    chosen = choices or Choices()
    settings = Settings(
        by=who(),
        stop=stop,
        parallelism=chosen.parallelism,
        fail_fast=chosen.fail_fast,
        limits=Limits(
            health_s=chosen.health_timeout,
            well_s=chosen.healthy_for,
            settle_s=chosen.settle,
            commits_s=int(project.worker.get(_COMMITS, _COMMITS_MS)) / 1000,
        ),
    )
    with ExitStack() as stack:
        if project.target is not None and not properties:
            settings = replace(settings, progress=stack.enter_context(telling()))
            with at_once():
                client = stack.enter_context(RestClient.checked(project.target, PATIENT))
            yield edges_over_rest(client, desired, settings, fingerprint_key_given())
            return
        # not yet an action that a signal would have to wait for
        with at_once():
            check_lease_rights(project, properties)
            logs = KafkaLogs(properties)
            stack.callback(logs.close)
            cluster = _cluster(project, desired, properties, logs, stack)
            if lease is None:
                lease = lease_for(project, properties, logs, settings.by)
                stack.callback(lease.release)
        ledger = Ledger.open(logs, project.topics.ledger, project.group_id)
        stack.callback(ledger.close)
        read_back = _read_back(project, logs, stack)
        settings = replace(settings, progress=stack.enter_context(telling()))
        homes = Homes(project, worker_properties(project, properties), KafkaView(properties))
        standings = standings_of(cluster, homes.view_of_sink, read_back, project.worker)
        evidence = _evidence(project, cluster, logs, read_back)
        yield Edges(cluster, ledger, lease, read_back, settings, standings, evidence)


def _evidence(
    project: Project, cluster: Cluster, logs: KafkaLogs, read_back: ConfigTopic
) -> Evidence | None:
    """None where no tasks run, or nobody has made the status topic that connect.yaml tells of."""
    if not cluster.runs_tasks:
        return None
    try:
        reader = logs.reader(project.topics.status)
    except Failed as error:
        if error.diagnostics[0].code == "topic.missing":
            return None
        raise

    def follow() -> bool:
        return not isinstance(cluster, UnkeyedCluster) or tasks_follow(cluster.version)

    # A runtime of ours may be named as the target, too
    ours = not isinstance(cluster, UnkeyedCluster) or cluster.is_ours()
    return Evidence(read_back, StatusTopic(reader), ours=ours, tasks_follow=follow)


def _cluster(
    project: Project,
    desired: Desired,
    properties: Mapping[str, str],
    logs: KafkaLogs,
    stack: ExitStack,
) -> Cluster:
    """Raises Invalid where the workers of the target are those of another Connect cluster."""
    if project.target is None:
        cluster = open_cluster(project, properties, PATIENT)
        stack.callback(cluster.close)
        return cluster
    rest = stack.enter_context(RestClient.checked(project.target, PATIENT))
    owned = ledger_seen(project, properties).state.connectors
    ensure_same_cluster(project, properties, rest, connectors_of(desired, owned))
    return ConfirmedCluster(rest, _read_back(project, logs, stack), project.topics.config)


def _read_back(project: Project, logs: KafkaLogs, stack: ExitStack) -> ConfigTopic:
    read_back = ConfigTopic(logs.reader(project.topics.config))
    stack.callback(read_back.close)
    return read_back
