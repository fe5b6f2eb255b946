"""The parts of a backend that are the same on every cluster whose topics can be read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace

from connect_reconciler.backend.backend import (
    AtOnce,
    Backend,
    Cluster,
    Connection,
    FollowedTopics,
    now_ms,
)
from connect_reconciler.backend.followed_topics import ConfigTopic, StatusTopic
from connect_reconciler.backend.lease import (
    Lease,
    OnWait,
    acquired,
    check_lease_rights,
    no_progress,
    taken_over,
)
from connect_reconciler.backend.ledger import Ledger
from connect_reconciler.backend.observe.connector_clusters import (
    ConnectorClusters,
    worker_properties,
)
from connect_reconciler.backend.observe.kafka_view import (
    KafkaPort,
    KafkaView,
    fingerprint_key_given,
)
from connect_reconciler.backend.observe.observe import Topics, observe_topics, read_topics
from connect_reconciler.drift.model import LiveWithHistory
from connect_reconciler.drift.topic_history import history_of
from connect_reconciler.ledger.topic import LedgerSnapshot, reduce_all
from connect_reconciler.model.live import Live
from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.errors import is_denied
from connect_runtime.kafka.groups import idle_groups
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.config_topic import subject
from connect_specs.desired import Desired
from connect_specs.diagnostics import Failed, Unreachable


class KafkaBackend(Backend):
    """Reads the topics, keeps the ledger in one, and holds a lease while it applies."""

    def observe(self, desired: Desired) -> Live:
        live, _ = self._observed(desired, KafkaView(self.kafka))
        return live

    def observe_with_history(self, desired: Desired) -> LiveWithHistory:
        view, names = KafkaView(self.kafka, tolerant=True), self.project.topics
        live, topics = self._observed(desired, view)
        config, offsets, ledger = (
            topics.records.get(name, ()) for name in (names.config, names.offsets, names.ledger)
        )
        once = {about[1] for record in config if (about := subject(record.key))}
        groups = _left_groups(once - live.connectors.keys(), self.kafka, view)
        return LiveWithHistory(
            live, history_of(config, offsets, ledger), groups, view.groups_hidden
        )

    def _observed(self, desired: Desired, view: KafkaView) -> tuple[Live, Topics]:
        key, names = fingerprint_key_given(), self.project.topics
        with self.plugins() as plugins:
            topics = read_topics(names, view)
            live = observe_topics(
                self.project,
                desired,
                topics,
                view,
                now_ms=now_ms,
                fingerprint_key=key,
                plugins=plugins,
                client=self.kafka,
            )
        if names.ledger in topics.records:
            live = replace(live, ledger_policy=view.cleanup_policy(names.ledger))
        return self._with_workers(desired, live, topics), topics

    @abstractmethod
    def _with_workers(self, desired: Desired, live: Live, topics: Topics) -> Live:
        """Returns `live`, which was read from topics, with what a worker reports."""

    def ledger(self) -> LedgerSnapshot:
        records = KafkaView(self.kafka).records(self.project.topics.ledger)
        return reduce_all(LedgerSnapshot(), records)

    def ensure_kafka(self, within_s: float | None = None) -> None:
        if within_s is None:
            check_reachable(self.kafka)
        else:
            check_reachable(self.kafka, within_s)

    @contextmanager
    def connection(
        self,
        desired: Desired,
        by: str,
        *,
        lease: Lease | None = None,
        at_once: AtOnce = nullcontext,
        waits: OnWait = no_progress,
    ) -> Iterator[Connection]:
        # The cluster first, because a new one has no topics yet; then the lease; and the ledger
        # last, because opening it ends whatever apply wrote before
        topics = self.project.topics
        with ExitStack() as stack:
            with at_once():
                logs = KafkaLogs(self.kafka)
                stack.callback(logs.close)
                check_lease_rights(self.project, self.kafka)
                cluster = self._cluster_to_change(desired, logs, stack, waits)
                if lease is None:
                    lease = acquired(self.project, self.kafka, logs, by, waits)
                    stack.callback(lease.release)
            ledger = Ledger.open(logs, topics.ledger, self.project.group_id)
            stack.callback(ledger.close)
            configs = ConfigTopic(logs.reader(topics.config))
            stack.callback(configs.close)
            worker = worker_properties(self.project, self.kafka)
            clusters = ConnectorClusters(self.project, worker, KafkaView(self.kafka))
            followed = self._followed(cluster, configs, logs, stack)
            yield Connection(cluster, ledger, lease, configs, clusters, followed)

    @abstractmethod
    def _cluster_to_change(
        self, desired: Desired, logs: KafkaLogs, stack: ExitStack, waits: OnWait
    ) -> Cluster:
        """Opens the cluster, waiting for it if needed. The stack closes it."""

    def _followed(
        self, cluster: Cluster, configs: ConfigTopic, logs: KafkaLogs, stack: ExitStack
    ) -> FollowedTopics | None:
        """Opens the topics to follow; None if no tasks run, or without the status topic that
        connect.yaml names."""
        if not cluster.runs_tasks:
            return None
        try:
            statuses = StatusTopic(logs.reader(self.project.topics.status))
        except Failed as error:
            if error.diagnostics[0].code == "topic.missing":
                return None
            raise
        stack.callback(statuses.close)
        return FollowedTopics(
            configs, statuses, self._is_ours(cluster), lambda: self._tasks_follow(cluster)
        )

    def _is_ours(self, cluster: Cluster) -> bool:
        """Returns True if our runtime runs the connectors."""
        return True

    def _tasks_follow(self, cluster: Cluster) -> bool:
        """Returns True if each new config makes the workers write task configs anew."""
        return True

    def ensure_lease(self) -> None:
        """Does nothing: Kafka grants leases."""

    def take_over(self, say: Callable[[str], None]) -> AbstractContextManager[Lease]:
        return taken_over(self.project, self.kafka, say)


_PREFIX = "connect-"


def _left_groups(gone: Set[str], client: Mapping[str, str], view: KafkaPort) -> dict[str, int]:
    """Returns the partitions of each idle group `connect-<name>` of a connector that was here once.

    Other Connect clusters on the same Kafka have groups named like that, too.
    """
    if not gone:
        return {}
    try:
        idle = idle_groups(client)
    except Unreachable as error:
        if not is_denied(error):
            raise
        return {}
    names = sorted(name for name in gone if _PREFIX + name in idle)
    committed = view.group_offsets([_PREFIX + name for name in names]) if names else {}
    counts = {name: len(committed.get(_PREFIX + name, {})) for name in names}
    return {name: count for name, count in counts.items() if count}
