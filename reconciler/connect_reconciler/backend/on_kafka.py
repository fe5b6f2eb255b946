"""Backends that read the cluster's topics: the shared part, and Apache's Connect, which is changed
over REST.

A change that REST accepted counts once the config topic holds it. If it does not arrive there, the
workers that were asked are those of another cluster: this ends the apply before more goes there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace

from connect_reconciler.backend.backend import (
    AtOnce,
    Backend,
    Cluster,
    Connection,
    FollowedTopics,
    ReadConnector,
    now_ms,
)
from connect_reconciler.backend.followed_topics import ConfigTopic, StatusTopic, StoredConnector
from connect_reconciler.backend.http import HttpCluster, RestBackend
from connect_reconciler.backend.lease import (
    Lease,
    OnWait,
    acquired,
    check_lease_rights,
    no_progress,
)
from connect_reconciler.backend.ledger import Ledger
from connect_reconciler.backend.observe.connector_offsets import (
    ConnectorClusters,
    worker_properties,
)
from connect_reconciler.backend.observe.kafka_view import (
    KafkaPort,
    KafkaView,
    fingerprint_key_given,
)
from connect_reconciler.backend.observe.observe import Topics, observe_topics, read_topics
from connect_reconciler.backend.observe.same_cluster import (
    connectors_of,
    ensure_same_cluster,
    not_compared,
)
from connect_reconciler.backend.rest.answers import NotConnect
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.refusals import PATIENT
from connect_reconciler.drift.model import LiveWithHistory, history_of
from connect_reconciler.ledger.topic import LedgerSnapshot, reduce_all
from connect_reconciler.model.config_values import LEDGER_KEY, without_reserved
from connect_reconciler.model.live import Feature, Live, knows
from connect_reconciler.model.secrets import masked_keys, same_spec
from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.errors import is_denied
from connect_runtime.kafka.groups import idle_groups
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.config_topic import subject
from connect_specs.desired import Desired, OffsetEntry, Project, RestTarget, TargetState
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Invalid, Unreachable

_PREFIX = "connect-"
# A leader answers once it has written
_ARRIVES_S = 15.0
_NOT_FOUND = 404


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
        # last, because opening it fences the apply before
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
        if not isinstance(cluster, HttpCluster):
            return None
        try:
            statuses = StatusTopic(logs.reader(self.project.topics.status))
        except Failed as error:
            if error.diagnostics[0].code == "topic.missing":
                return None
            raise
        stack.callback(statuses.close)
        # A runtime of ours may be named as the target, too
        ours = self.project.uses_runtime or cluster.is_ours()
        feature = Feature.TASKS_FOLLOW
        return FollowedTopics(
            configs, statuses, ours, lambda: ours or knows(cluster.version, feature)
        )


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


class NotArrived(Unreachable):
    """REST accepted a change that the config topic does not show."""


class ConnectBackend(RestBackend, KafkaBackend):
    def __init__(self, project: Project, kafka: Mapping[str, str], target: RestTarget) -> None:
        super().__init__(project, kafka, target)
        self._compared = False
        # The client of an apply that is open
        self._patient: RestClient | None = None

    def _with_workers(self, desired: Desired, live: Live, topics: Topics) -> Live:
        # If no worker answers, topics are enough for a plan, with a warning
        concerned = connectors_of(desired, live.ledger)
        with self.rest() as client:
            try:
                rest_side = ensure_same_cluster(
                    self.project, self.kafka, client, concerned, topics=topics
                )
            except (Invalid, NotConnect):
                raise
            except ConnectError as error:
                if self._patient is None:
                    return replace(live, warnings=(*live.warnings, not_compared(error)))
                # An apply needs the answer: it is about to write there
                rest_side = ensure_same_cluster(self.project, self.kafka, self._patient, concerned)
        self._compared = True
        return replace(live, version=rest_side.version)

    def ensure_one_cluster(self, name: str) -> None:
        if not self._compared:
            with RestClient(self.target) as client:
                ensure_same_cluster(self.project, self.kafka, client, (name,))
            self._compared = True

    def _cluster_to_change(
        self, desired: Desired, logs: KafkaLogs, stack: ExitStack, waits: OnWait
    ) -> Cluster:
        client = stack.enter_context(RestClient.checked(self.target, PATIENT))
        if not self._compared:
            concerned = connectors_of(desired, self.ledger().state)
            ensure_same_cluster(self.project, self.kafka, client, concerned)
            self._compared = True
        self._patient = client
        stack.callback(self._closed)
        topic = self.project.topics.config
        read_back = ConfigTopic(logs.reader(topic))
        stack.callback(read_back.close)
        return ConfirmedCluster(client, read_back, topic)

    def _closed(self) -> None:
        self._patient = None


class ConfirmedCluster(HttpCluster):
    """`read_back` reads `topic`, the config topic. All changes raise NotArrived, Unreachable.

    A ledger entry that a config still holds from a time without Kafka is removed before offsets
    move: it would lack pins if Kafka were removed from connect.yaml again.
    """

    def __init__(self, client: RestClient, read_back: ReadConnector, topic: str) -> None:
        super().__init__(client)
        self._read_back = read_back
        self._topic = topic

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        stored = self._read_back(name)
        super().create(name, config, state)
        self._confirm(name, stored, lambda current: _has(current, config) and _is(current, state))

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        stored = self._read_back(name)
        super().update_config(name, config)
        self._confirm(name, stored, lambda current: _has(current, config))

    def set_target(self, name: str, target: TargetState) -> None:
        stored = self._read_back(name)
        super().set_target(name, target)
        self._confirm(name, stored, lambda current: _is(current, target))

    def delete(self, name: str) -> None:
        stored = self._read_back(name)
        try:
            super().delete(name)
        except RequestError as error:
            if error.status == _NOT_FOUND:
                # That nothing was there to delete must be true of this cluster
                self._confirm(
                    name, stored, lambda current: current is None, answer="knows no such connector"
                )
            raise
        self._confirm(name, stored, lambda current: current is None)

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        self._drop_entry(name)
        return super().alter_offsets(name, offsets)

    def reset_offsets(self, name: str) -> str:
        self._drop_entry(name)
        return super().reset_offsets(name)

    def _drop_entry(self, name: str) -> None:
        config = self.config(name) or {}
        if LEDGER_KEY not in config:
            return
        if knows(self.version, Feature.PATCH_CONFIG):
            self.patch_config(name, {LEDGER_KEY: None})
        elif not masked_keys(config):
            self.update_config(name, without_reserved(config))

    def _confirm(
        self,
        name: str,
        stored: StoredConnector | None,
        arrived: Callable[[StoredConnector | None], bool],
        *,
        answer: str = "has accepted a change",
    ) -> None:
        """Waits until a change arrives, or another one that was written over it. Raises
        NotArrived."""

        def written() -> bool:
            current = self._read_back(name)
            return arrived(current) or not _is_unwritten(current, stored)

        if not self._client.wait_for(written, _ARRIVES_S):
            raise self._not_arrived(name, answer)

    def _not_arrived(self, name: str, answer: str) -> NotArrived:
        problem = f"the REST API {answer}, and topic {self._topic} does not show that"
        reason = f"it did not come within {_ARRIVES_S:.0f} s: these workers are of another cluster"
        hint = (
            f"look for {name} on those workers, and undo what was changed there; "
            "then correct cluster.target or cluster.group.id in connect.yaml"
        )
        return NotArrived(Diagnostic("cluster.not-arrived", problem, name, reason, hint))


def _has(current: StoredConnector | None, config: Mapping[str, str]) -> bool:
    return current is not None and same_spec(current.config, config)


def _is(current: StoredConnector | None, state: TargetState) -> bool:
    return current is not None and current.target is state


def _is_unwritten(current: StoredConnector | None, stored: StoredConnector | None) -> bool:
    """Returns True if nothing was written since; tasks may come and go."""
    if current is None or stored is None:
        return current is stored
    rewritten = current.written_at != stored.written_at
    return not rewritten and current.config == stored.config and current.target is stored.target
