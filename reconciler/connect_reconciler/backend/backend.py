"""A project's cluster, of any kind: verbs do not distinguish the kinds. With the ports of an apply:
the cluster, reading a connector back, the ledger and the lease.

There are three kinds: our runtime, found through Kafka (`runtime`); Apache's Connect over REST with
its Kafka (`on_kafka`); and Connect over REST alone (`rest_only`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from connect_reconciler.backend.followed_topics import ConfigTopic, StatusTopic, StoredConnector
from connect_reconciler.backend.lease import Lease, OnWait, no_progress, taken_over
from connect_reconciler.backend.observe.connector_offsets import ConnectorClusters
from connect_reconciler.backend.plugins import (
    ChainedDefinitions,
    ClusterDefinitions,
    local_definitions,
)
from connect_reconciler.backend.rest.answers import LOGIN_HINT
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.refusals import HASTY
from connect_reconciler.drift.model import LiveWithHistory
from connect_reconciler.ledger.journal import Ending, Journal, JournalEntry
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.live import Live
from connect_runtime.herder.verbs import ConnectorStatus
from connect_runtime.kafka.clients import check_reachable
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import ConnectorState
from connect_specs.desired import Desired, OffsetEntry, Project, RestTarget, TargetState
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.plugin_definitions import Definitions

_REACH_S = 8.0
# Timeouts of optional requests
_CONNECT_S = 3.0
_ANSWER_S = 15.0

# A context in which the first signal ends all waits
AtOnce: TypeAlias = Callable[[], AbstractContextManager[None]]


class Cluster(Protocol):
    """The cluster as an apply changes it. All raise RequestError with Connect's status and text.

    Two adapters pass one contract suite: `runtime.InProcessCluster` asks the herder that this
    process leads with, `http.HttpCluster` a Connect REST API. Neither decides anything.

    An HTTP call whose answer never came raises `OutcomeUnknown`; one that was never sent, and a
    read without an answer, raises `Unreachable`.
    """

    @property
    def runs_tasks(self) -> bool:
        """Returns True if tasks run while this cluster is used; if not, waits for health are
        skipped."""
        ...

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None: ...
    def update_config(self, name: str, config: Mapping[str, str]) -> None: ...
    def config(self, name: str) -> Mapping[str, str] | None: ...
    def status(self, name: str) -> ConnectorStatus | None: ...
    def set_target(self, name: str, target: TargetState) -> None: ...
    def restart(self, name: str, *, only_failed: bool) -> None:
        """Restarts the connector and its tasks, or those of them that failed."""
        ...

    def delete(self, name: str) -> None: ...
    def offsets(self, name: str) -> Sequence[OffsetEntry]: ...
    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str: ...
    def reset_offsets(self, name: str) -> str: ...
    def close(self) -> None: ...


# Reads one connector; None where there is none. Raises ConnectError
ReadConnector: TypeAlias = Callable[[str], StoredConnector | None]


class LedgerWriter(Protocol):
    """The ledger as an apply writes it; `backend.ledger.Ledger` is the one in a topic.

    `records` are the ledger topic's, made for `topic`. Raises LeaseLost, NotRecorded. Called from
    several threads at a time, from one for each connector.
    """

    @property
    def topic(self) -> str: ...
    @property
    def state(self) -> LedgerState:
        """Returns the ledger's state, with all that was written here."""
        ...

    def begin(self, journal: Journal, *, new_fingerprint_key: bytes | None) -> None: ...
    def started(
        self,
        step: JournalEntry,
        records: Sequence[NewRecord] = (),
        *,
        upcoming: Sequence[NewRecord] = (),
    ) -> None:
        """Records that an action starts. Returns once the entry and `records` are durable.

        `upcoming` are the records of `done`: a ledger in the connectors' configs is written with
        them, or before they run.
        """
        ...

    def done(self, step: JournalEntry, records: Sequence[NewRecord] = ()) -> None: ...
    def correct(self, records: Sequence[NewRecord]) -> None: ...
    def failed(self, step: JournalEntry) -> None:
        """Records that the action was not done, or that its outcome is unknown."""
        ...

    def finish(
        self, ending: Ending, *, exit_code: int, now_ms: int, proven: Collection[str] = ()
    ) -> None:
        """Closes the journal. `proven` are the connectors that were seen healthy."""
        ...

    def prove(self, project: str, proven: Collection[str]) -> None:
        """Records that connectors which earlier applies of the project changed are healthy."""
        ...


class LeaseHandle(Protocol):
    """The right to be the only apply; `backend.lease.Lease` is the one that Kafka grants."""

    def keep(self) -> None:
        """Raises LeaseLost if the right is gone. Asked between actions and while waiting."""
        ...


@dataclass(frozen=True, slots=True)
class FollowedTopics:
    """The config and status topics of the workers whose tasks run.

    `ours`: our runtime runs them. It writes task configs only once the connector runs with its
    config, ends tasks before it starts them with other configs, and repeats no status.
    `tasks_follow`: each new config makes the workers write new task configs.
    """

    configs: ConfigTopic
    statuses: StatusTopic
    ours: bool
    tasks_follow: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Connection:
    """The ports of an apply while it is open. `clusters` are the Kafka clusters that sinks read;
    `followed` is None if nothing runs, or no Kafka can be asked."""

    cluster: Cluster
    ledger: LedgerWriter
    lease: LeaseHandle
    read_connector: ReadConnector
    clusters: ConnectorClusters | None = None
    followed: FollowedTopics | None = None


@dataclass(frozen=True, slots=True)
class LiveStatuses:
    """The target states of connectors, and the statuses of those that have one, by name. `leader`
    None: there is none. `unread`: why some could not be read."""

    leader: str | None
    connectors: Mapping[str, ConnectorState]
    statuses: Mapping[str, ConnectorStatus]
    unread: str | None = None


class Backend(ABC):
    """`kafka` holds client properties in Java's names; empty where no Kafka is known."""

    def __init__(self, project: Project, kafka: Mapping[str, str]) -> None:
        self.project = project
        self.kafka = kafka

    @property
    @abstractmethod
    def address(self) -> str:
        """Returns the cluster's address for people: its URL, or its group."""

    # --- reading ---

    @abstractmethod
    def observe(self, desired: Desired) -> Live:
        """Observes the cluster once; nothing is created or changed.

        Raises Unreachable within 10 s, LogBlocked where an open transaction hides records, Invalid
        where REST and topics are those of different clusters.
        """

    def observe_with_history(self, desired: Desired) -> LiveWithHistory:
        """Observes the cluster with the history that drift needs, and what deleted connectors left,
        as far as they are known."""
        return LiveWithHistory(self.observe(desired))

    @abstractmethod
    def statuses(self) -> LiveStatuses:
        """Reads all connectors with their statuses. Raises Unreachable, RequestError."""

    @abstractmethod
    def ledger(self) -> LedgerSnapshot:
        """Reads the ledger topic with its journals; empty if there is none. Raises Unreachable."""

    @abstractmethod
    def rest(self) -> RestClient | None:
        """Opens the cluster's REST API; None if no worker answers.

        This is for optional requests: it gives up soon, and repeats nothing.
        """

    def ensure_kafka(self, within_s: float = _REACH_S) -> None:
        """Raises Unreachable where Kafka is to be asked, and does not answer in time."""
        if self.kafka:
            check_reachable(self.kafka, within_s)

    def config(self, name: str) -> Mapping[str, str] | None:
        """Reads a connector's config; None if there is no such connector. Raises RequestError.

        Call `ensure_one_cluster` first.
        """
        with closing(self.cluster()) as cluster:
            return cluster.config(name)

    @contextmanager
    def plugins(self) -> Iterator[Definitions]:
        """Opens the definitions of all plugins, those of the cluster included, which is asked once
        they are needed. Raises Invalid for a lock that cannot be read."""
        with ExitStack() as stack:

            def connect() -> RestClient | None:
                client = self.rest()
                return None if client is None else stack.enter_context(client)

            cluster = ClusterDefinitions(connect)
            near = local_definitions(self.project, cluster)
            ours = self.project.uses_runtime
            yield ChainedDefinitions((near, cluster) if ours else (cluster, near))

    # --- changing ---

    def ensure_one_cluster(self, name: str) -> None:
        """Raises Invalid where REST and topics are those of different clusters, Unreachable where
        neither can be asked about this connector."""
        self.ensure_kafka()

    @abstractmethod
    def cluster(self, waits: OnWait = no_progress) -> Cluster:
        """Opens the cluster. This process leads until it is closed, if no other does. `waits` is
        called before another process that leads is waited for.

        Raises LeaseRefused while another process leads without REST, Unreachable.
        """

    @abstractmethod
    def connection(
        self,
        desired: Desired,
        by: str,
        *,
        lease: Lease | None = None,
        at_once: AtOnce = nullcontext,
        waits: OnWait = no_progress,
    ) -> AbstractContextManager[Connection]:
        """Opens the ports for an apply of `by`; `lease` was taken over for it. Waits before the
        ledger is opened are within `at_once`. `waits` is called before another apply is waited for.

        Raises LeaseRefused while another apply runs, and as `cluster` does.
        """

    def ensure_lease(self) -> None:
        """Raises Invalid where there is no lease to wait for or to take over."""
        if not self.kafka:
            problem = "over REST alone there is no lease, and no other apply is known of"
            hint = "leave out --takeover and --lock-timeout, or add cluster.kafka to connect.yaml"
            raise Invalid(Diagnostic("apply.no-lease", problem, str(self.project.file), hint=hint))

    def take_over(self, say: Callable[[str], None]) -> AbstractContextManager[Lease]:
        """Takes the lease over: the apply that holds it is fenced, and waited for until it lets go.

        Raises Invalid where there is no lease, LeaseRefused if the other apply does not let go.
        """
        self.ensure_lease()
        return taken_over(self.project, self.kafka, say)


def now_ms() -> int:
    """Returns the time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def short_timeout_client(
    target: RestTarget, login_hint: str = LOGIN_HINT, *, direct: bool = False
) -> RestClient:
    """Returns a client that gives up soon. `direct`: through no proxy."""
    short = replace(
        target,
        connect_s=min(target.connect_s, _CONNECT_S),
        answer_s=min(target.answer_s, _ANSWER_S),
    )
    return RestClient(short, retries=HASTY, login_hint=login_hint, direct=direct)
