"""A Connect cluster in memory: logs, groups, a clock and runtimes, all moved by the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.herder.verbs import ConnectorStatus
from connect_runtime.kafka.groups import GroupActive
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage import assignments_topic, config_topic, offsets_topic, status_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.memory import MemoryLogs
from connect_runtime.storage.snapshots import (
    AssignmentSnapshot,
    ConfigSnapshot,
    OffsetSnapshot,
    StatusSnapshot,
)
from connect_specs.diagnostics import Diagnostic
from connect_specs.names import ClusterTopics
from support.election import Ballot
from support.launcher import MemoryAttempt, MemoryLauncher

T = TypeVar("T")

GROUP_ID = "memory"
TOPICS = ClusterTopics.of(GROUP_ID)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Later(Executor):
    """A pool whose calls wait until the test runs them."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self.waiting.append(lambda: future.set_result(fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        """Runs all that wait, in order."""
        while self.waiting:
            self.waiting.pop(0)()


class MemoryGroups:
    """Stands for `SinkGroups`. `active` holds groups that have members."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[tuple[str, int], int]] = {}
        self.active: set[str] = set()

    def offsets(self, sink: ConnectorClients) -> Mapping[tuple[str, int], int]:
        return dict(self.committed.get(sink.group, {}))

    def alter(self, sink: ConnectorClients, offsets: Mapping[tuple[str, int], int]) -> None:
        self._check(sink.group)
        self.committed.setdefault(sink.group, {}).update(offsets)

    def forget(self, sink: ConnectorClients, partitions: Sequence[tuple[str, int]]) -> None:
        self._check(sink.group)
        for partition in partitions:
            self.committed.get(sink.group, {}).pop(partition, None)

    def delete(self, sink: ConnectorClients) -> None:
        self._check(sink.group)
        self.committed.pop(sink.group, None)

    def _check(self, group: str) -> None:
        if group in self.active:
            raise GroupActive(Diagnostic("group.active", "The group has members", group))


class MemoryRuntime:
    """A runtime without REST and Spark. Nothing in it moves but by `tick`, `calls.run` and
    `launcher.step`."""

    def __init__(self, cluster: MemoryCluster, url: str, slots: int) -> None:
        self.url = url
        self.candidate = cluster.ballot.candidate()
        self.launcher = MemoryLauncher(cluster.logs, slots)
        self.calls = Later()
        self._clock = cluster.clock
        self.connect = ConnectCluster(
            url,
            WorkerSettings(
                GROUP_ID, TOPICS, url.removeprefix("http://"), cluster.worker, graceful_s=5.0
            ),
            logs=cluster.logs,
            groups=cluster.groups,
            election=self.candidate,
            launcher=self.launcher,
            check=lambda name, config: None,
            leader=lambda: None,
            clock=cluster.clock,
            pool=self.calls,
        )
        self.verbs = self.connect
        self.herder = self.connect.herder

    def tick(self) -> None:
        self.herder.tick(self._clock())
        # whoever does not lead takes no executors from the leader
        assert self.herder.leading or not self.launcher.leads

    def move(self) -> None:
        """One round of everything."""
        self.tick()
        self.calls.run()
        self.launcher.step()
        self.tick()


class MemoryCluster:
    """What outlives every runtime, and the runtimes. `logs`: other logs than plain ones. `worker`:
    the runtimes' properties."""

    def __init__(
        self, logs: MemoryLogs | None = None, worker: Mapping[str, str] | None = None
    ) -> None:
        self.worker = worker or {}
        self.clock = Clock()
        self.logs = logs or MemoryLogs(now_s=self.clock)
        self.groups = MemoryGroups()
        self.ballot = Ballot(self.clock)
        self.runtimes: list[MemoryRuntime] = []
        for topic in (TOPICS.config, TOPICS.offsets, TOPICS.status, TOPICS.assignments):
            self.logs.create_topic(topic)

    def runtime(self, slots: int = 8) -> MemoryRuntime:
        """One more runtime, that has read the topics and does not lead."""
        made = MemoryRuntime(self, f"http://w{len(self.runtimes)}:8083", slots)
        self.runtimes.append(made)
        made.tick()
        return made

    def leader(self, slots: int = 8) -> MemoryRuntime:
        """One more runtime, that leads."""
        made = self.runtime(slots)
        self.ballot.elect(made.candidate)
        made.tick()
        return made

    def running(self, *configs: Mapping[str, str], slots: int = 8) -> MemoryRuntime:
        """One more leader, that has created these connectors; all has come to rest."""
        leader = self.leader(slots)
        for config in configs:
            leader.verbs.create(config["name"], config, None)
        self.settle()
        return leader

    def settle(self, rounds: int = 400) -> None:
        """Lets everything happen, a second at a time, until nothing has for a while."""
        quiet = 0
        for _ in range(rounds):
            before = self.ends()
            for runtime in self.runtimes:
                runtime.move()
                for attempt in runtime.launcher.attempts:
                    attempt.reap()
            self.clock.now += 1.0
            quiet = quiet + 1 if self.ends() == before else 0
            # longer than the longest backoff, and than a superseded attempt may take to end
            if quiet > 90:
                return
        raise AssertionError("the cluster does not come to rest")

    def pass_time(self, seconds: int) -> None:
        """Moves all runtimes once in each of so many seconds."""
        for _ in range(seconds):
            for runtime in self.runtimes:
                runtime.move()
            self.clock.now += 1

    def ends(self) -> tuple[int, ...]:
        """The ends of the topics that the herder writes."""
        topics = (TOPICS.config, TOPICS.status, TOPICS.assignments)
        return tuple(len(self.logs.partitions(topic)[0]) for topic in topics)

    @property
    def attempts(self) -> list[MemoryAttempt]:
        """All attempts of all runtimes."""
        return [attempt for runtime in self.runtimes for attempt in runtime.launcher.attempts]

    def records(self, topic: str) -> list[LogRecord]:
        """All committed records."""
        return list(self.logs.reader(topic).read_to_end(1))

    def written(self, topic: str, since: int = 0) -> list[tuple[str, str | None]]:
        """Keys and values, as text, of records from offset `since` on."""
        return [
            ((r.key or b"").decode(), None if r.value is None else r.value.decode())
            for r in self.records(topic)
            if r.offset >= since
        ]

    @property
    def config(self) -> ConfigSnapshot:
        return config_topic.reduce_all(ConfigSnapshot(), self.records(TOPICS.config))

    @property
    def status(self) -> StatusSnapshot:
        return status_topic.reduce_all(StatusSnapshot(), self.records(TOPICS.status))

    @property
    def assignments(self) -> AssignmentSnapshot:
        records = self.records(TOPICS.assignments)
        return assignments_topic.reduce_all(AssignmentSnapshot(), records)

    @property
    def offsets(self) -> OffsetSnapshot:
        return offsets_topic.reduce_all(OffsetSnapshot(), self.records(TOPICS.offsets))


def shown(status: ConnectorStatus) -> list[str]:
    """Returns the state of a connector, and those of its tasks."""
    return [status.connector.state.value, *(task.state.value for task in status.tasks.values())]
