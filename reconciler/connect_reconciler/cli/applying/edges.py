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
from connect_reconciler.cluster.choose import open_cluster
from connect_reconciler.cluster.port import Cluster
from connect_reconciler.cluster.readback import ConfigTopic
from connect_reconciler.cluster.rest_alone import UnkeyedCluster
from connect_reconciler.cluster.rest_client import PATIENT, RestClient
from connect_reconciler.cluster.statuses import StatusTopic
from connect_reconciler.ledger.lease import Lease
from connect_reconciler.ledger.ledger import Ledger
from connect_reconciler.observe.homes import Homes, worker_properties
from connect_reconciler.observe.kafka_view import KafkaView, fingerprint_key_given
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
            client = stack.enter_context(RestClient(project.target, retries=PATIENT))
            yield edges_over_rest(client, desired, settings, fingerprint_key_given())
            return
        check_lease_rights(project, properties)
        cluster = _cluster(project, properties)
        stack.callback(cluster.close)
        logs = KafkaLogs(properties)
        stack.callback(logs.close)
        if lease is None:
            lease = lease_for(project, properties, logs, settings.by)
            stack.callback(lease.release)
        ledger = Ledger.open(logs, project.topics.ledger, project.group_id)
        stack.callback(ledger.close)
        read_back = ConfigTopic(logs.reader(project.topics.config))
        stack.callback(read_back.close)
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

    ours = project.target is None
    return Evidence(read_back, StatusTopic(reader), ours=ours, tasks_follow=follow)


def _cluster(project: Project, properties: Mapping[str, str]) -> Cluster:
    if project.target is not None:
        return UnkeyedCluster(RestClient(project.target, retries=PATIENT))
    return open_cluster(project, properties, PATIENT)
