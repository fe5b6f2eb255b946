"""A project's cluster, of whichever kind: verbs ask it, and never ask which kind it is.

There are three kinds: our runtime, found through Kafka (`runtime`); Apache's Connect over REST with
its Kafka (`connect`); and Connect over REST alone (`rest_only`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeAlias

from connect_reconciler.backend.followed_topics import ConfigTopic, StatusTopic
from connect_reconciler.backend.lease import Lease, Waits, silently
from connect_reconciler.backend.observe.connector_clusters import ConnectorClusters
from connect_reconciler.backend.plugins import known_plugins
from connect_reconciler.backend.port import Cluster, Holding, LedgerWriter, ReadBack
from connect_reconciler.backend.rest.answers import LOGIN_HINT
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.refusals import HASTY
from connect_reconciler.drift.model import LiveWithHistory
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.live import Live
from connect_runtime.herder.verbs import ConnectorStatus
from connect_runtime.storage.snapshots import ConnectorState
from connect_specs.desired import Desired, Project, RestTarget
from connect_specs.plugin_definitions import Definitions

# Of questions beside the way to a plan
_CONNECT_S = 3.0
_ANSWER_S = 15.0

# A context in which the first signal ends whatever waits
AtOnce: TypeAlias = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Followed:
    """The config and status topics of the workers whose tasks run.

    `ours`: our runtime runs them. It writes task configs only once the connector runs with its
    config, ends tasks before it starts them with other configs, and repeats no status.
    `tasks_follow`: each new config makes the workers write task configs anew.
    """

    configs: ConfigTopic
    statuses: StatusTopic
    ours: bool
    tasks_follow: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Connection:
    """What an apply reads and writes through while it is open. `clusters` are the Kafka clusters
    that sinks read; `followed` is None where nothing runs, or no Kafka can be asked."""

    cluster: Cluster
    ledger: LedgerWriter
    lease: Holding
    read_back: ReadBack
    clusters: ConnectorClusters | None = None
    followed: Followed | None = None


@dataclass(frozen=True, slots=True)
class Statuses:
    """What connectors are asked to do, and what those do that have a status, by name. `leader`
    None: nobody runs them. `unread`: why some could not be read."""

    leader: str | None
    connectors: Mapping[str, ConnectorState]
    told: Mapping[str, ConnectorStatus]
    unread: str | None = None


class Backend(ABC):
    """`kafka` holds client properties in Java's names; empty where no Kafka is known."""

    def __init__(self, project: Project, kafka: Mapping[str, str]) -> None:
        self.project = project
        self.kafka = kafka

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the cluster is, as a reader knows it: its URL, or its group."""

    # --- reading ---

    @abstractmethod
    def observe(self, desired: Desired) -> Live:
        """The cluster as it is now, read once; nothing is created or changed.

        Raises Unreachable within 10 s, LogBlocked where an open transaction hides records, Invalid
        where REST and topics are those of different clusters.
        """

    @abstractmethod
    def observe_with_history(self, desired: Desired) -> LiveWithHistory:
        """The same with what drift needs: since when it is so, and what was left behind."""

    @abstractmethod
    def statuses(self) -> Statuses:
        """All connectors with their statuses. Raises Unreachable, RequestError."""

    @abstractmethod
    def ledger(self) -> LedgerSnapshot:
        """The ledger topic with its journals; empty where there is none. Raises Unreachable."""

    @abstractmethod
    def rest(self) -> RestClient | None:
        """The cluster's REST API; None where nobody answers.

        For questions beside the way to a plan: it gives up soon, and asks nothing again.
        """

    @abstractmethod
    def ensure_kafka(self, within_s: float | None = None) -> None:
        """Raises Unreachable where Kafka is to be asked, and does not answer in time."""

    def config(self, name: str) -> Mapping[str, str] | None:
        """A connector's config; None where there is no such connector. Raises RequestError.

        To be asked after `ensure_one_cluster`.
        """
        with closing(self.cluster()) as cluster:
            return cluster.config(name)

    @contextmanager
    def plugins(self) -> Iterator[Definitions]:
        """All that is known of plugins. Raises Invalid for a lock that cannot be read."""
        with known_plugins(self.project, self.rest) as found:
            yield found

    # --- changing ---

    @abstractmethod
    def ensure_one_cluster(self, name: str) -> None:
        """Raises Invalid where REST and topics are those of different clusters, Unreachable where
        neither can be asked about this connector."""

    @abstractmethod
    def cluster(self, waits: Waits = silently) -> Cluster:
        """The cluster, by whichever way leads there. This process leads until it is closed, where
        nobody does. `waits` is called before another process that leads is waited for.

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
        waits: Waits = silently,
    ) -> AbstractContextManager[Connection]:
        """What an apply of `by` needs; `lease` is one that was taken over for it. What is waited
        for before the ledger is opened is within `at_once`. `waits` is called before another apply
        is waited for.

        Raises LeaseRefused while another apply runs, and as `cluster` does.
        """

    @abstractmethod
    def ensure_lease(self) -> None:
        """Raises Invalid where there is no lease to wait for or to take over."""

    @abstractmethod
    def take_over(self, say: Callable[[str], None]) -> AbstractContextManager[Lease]:
        """The lease, whoever holds it now: that apply is fenced, and waited for until it lets go.

        Raises Invalid where there is no lease, LeaseRefused if the other apply does not let go.
        """


def now_ms() -> int:
    """The time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def hasty(target: RestTarget, login_hint: str = LOGIN_HINT, *, direct: bool = False) -> RestClient:
    """A client that gives up soon. `direct`: through no proxy."""
    short = replace(
        target,
        connect_s=min(target.connect_s, _CONNECT_S),
        answer_s=min(target.answer_s, _ANSWER_S),
    )
    return RestClient(short, retries=HASTY, login_hint=login_hint, direct=direct)
