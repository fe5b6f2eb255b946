"""Observes a changed connector in the config and status topics, and a sink's lag.

A status from before a change looks like one from after it. The connector's status counts only if it
was written since the first change; so does a task's, if its config was written again since. Tasks
whose configs are unchanged go on, and report nothing. No clock decides that, only the order in
which records were read.

A task that still runs with its old config may report around the time when the new one is written:
one that is resumed, or that another worker takes over. So the status of a task that existed before
is unsure, unless the worker that reports it has stopped it since the first change (UNASSIGNED).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from connect_reconciler.apply.health import CONNECTOR, Lag, Lags, Observation
from connect_reconciler.backend.backend import Cluster, FollowedTopics, ReadConnector
from connect_reconciler.backend.followed_topics import Position, ReportedStatuses
from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_reconciler.model.offsets import sink_offset, sink_partition
from connect_reconciler.plan.offsets.sink_positions import sink_partitions, sink_start
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.diagnostics import Failed, Unreachable


@dataclass(frozen=True, slots=True)
class StatusMark:
    """Positions in the status topic from which on a connector's statuses count.

    `first` is from before the first change, `last` from the last read of the task configs, which
    had that `generation`; `tasks` is for tasks, None while their configs are unchanged.
    `expects_status`: the connector will report again. `earlier` are the statuses of its tasks from
    before the first change, without tasks that were gone since.
    """

    first: Position
    last: Position
    generation: int | None
    tasks: Position | None = None
    expects_status: bool = False
    earlier: Mapping[int, InstanceStatus] = field(default_factory=dict)


def marked(
    mark: StatusMark | None,
    at: Position,
    generation: int | None,
    tasks: Mapping[int, InstanceStatus],
) -> StatusMark:
    """Returns the mark after the task configs were read again, with the statuses read up to `at`,
    which are those of `tasks`.

    Tasks whose configs did not exist at the read before had reported nothing by then.
    """
    if mark is None:
        return StatusMark(at, at, generation, earlier=tasks)
    earlier = {number: status for number, status in mark.earlier.items() if number in tasks}
    mark = replace(mark, earlier=earlier)
    if generation == mark.generation:
        return replace(mark, last=at)
    return replace(mark, last=at, generation=generation, tasks=mark.last)


@dataclass(slots=True)
class StatusObserver:
    """Observes changed connectors. Used by many threads, one for each connector."""

    followed: FollowedTopics
    _marks: dict[str, StatusMark] = field(default_factory=dict)

    def mark(self, name: str, *, expects_status: bool = False) -> None:
        """Marks the place before a change, and after it, since it may have waited for a rebalance:
        a status that a task wrote until then is of its old config. `expects_status`: after the
        change the connector reports its state, even an unchanged one. Raises ConnectError."""
        self._read((name,))
        mark = self._marks[name]
        expects_status = mark.expects_status or expects_status
        self._marks[name] = replace(mark, expects_status=expects_status)

    def read(self) -> None:
        """Reads the new records of all marked connectors. Raises ConnectError."""
        self._read(tuple(self._marks))

    def observe(self, name: str, *, long_ago: bool) -> Observation:
        """Returns a marked connector as it was read last. `long_ago`: the change was so long ago
        that its task configs are current by now, even if they were not written again."""
        mark, stored = self._marks[name], self.followed.configs.known(name)
        statuses = self.followed.statuses
        reported, later = statuses.statuses_of(name), statuses.statuses_since(name, mark.first)
        if stored is None or reported.connector is None:
            return Observation(None, 0, tasks_current=False, unread=statuses.unread)
        status = ConnectorStatus(name, reported.connector, reported.tasks, "unknown")
        current = stored.tasks_current or (long_ago and not self.followed.tasks_follow())
        outdated = frozenset(self._outdated(name, mark, reported, later))
        # A task starts again with its new config, however long that takes
        restarting = frozenset() if mark.tasks is None else outdated - {CONNECTOR}
        unsure = frozenset() if mark.tasks is None else self._unsure(name, mark, reported)
        unsure -= outdated
        working = reported.polled - unsure
        proven = bool(stored.tasks) and current and working >= set(range(stored.tasks))
        return Observation(
            status,
            stored.tasks,
            current,
            outdated,
            restarting,
            unsure,
            proven,
            statuses.unread,
        )

    def _read(self, names: tuple[str, ...]) -> None:
        configs, statuses = self.followed.configs, self.followed.statuses
        at = statuses.read()
        configs.read()
        for name in names:
            stored, tasks = configs.known(name), statuses.statuses_of(name).tasks
            generation = None if stored is None else stored.generation
            self._marks[name] = marked(self._marks.get(name), at, generation, tasks)

    def _outdated(
        self, name: str, mark: StatusMark, reported: ReportedStatuses, later: ReportedStatuses
    ) -> set[int]:
        """Returns the numbers of tasks, or CONNECTOR, whose status is from before the change."""
        outdated: set[int] = set()
        if later.connector is None and reported.connector is not None:
            silent = mark.expects_status and not self.followed.ours
            if silent or reported.connector.state is State.FAILED:
                outdated.add(CONNECTOR)
        if mark.tasks is not None:
            later = self.followed.statuses.statuses_since(name, mark.tasks)
        for number, status in reported.tasks.items():
            if number not in later.tasks and (mark.tasks is not None or _failed(status)):
                outdated.add(number)
        return outdated

    def _unsure(self, name: str, mark: StatusMark, reported: ReportedStatuses) -> frozenset[int]:
        """Returns the tasks whose status may be of their old config."""
        restarted = self.followed.statuses.restarted_since(name, mark.first)
        return frozenset(
            number
            for number, earlier in mark.earlier.items()
            if (status := reported.tasks.get(number)) is not None
            and number not in restarted
            # what had failed was not running any more
            and not (
                earlier.worker_id == status.worker_id and (self.followed.ours or _failed(earlier))
            )
        )


def _failed(status: InstanceStatus) -> bool:
    return status.state is State.FAILED


def lags_of(
    cluster: Cluster,
    view_of: Callable[[str, Mapping[str, str]], KafkaPort],
    read_connector: ReadConnector,
    worker: Mapping[str, str],
) -> Callable[[str], Lags]:
    """Returns a function that reads a sink's lags in partitions that exist. `view_of` gives the
    Kafka cluster that a sink reads, by its name and config; raises Failed if it cannot be asked.
    Raises ConnectError.

    In a partition without a committed offset a sink starts at the log's start. If it starts
    elsewhere, the partition is left out: only its tasks know where that was.
    """

    def lags(name: str) -> Lags:
        committed = {
            at: offset
            for entry in cluster.offsets(name)
            if (at := sink_partition(entry.partition)) is not None
            and (offset := sink_offset(entry.offset)) is not None
        }
        stored = read_connector(name)
        config = {} if stored is None else stored.config
        partitions = set(committed)
        try:
            view = view_of(name, config)
            if sink_start(config, worker) == "earliest":
                partitions |= sink_partitions(config, view.topics())
            ranges = view.log_ranges(partitions)
        except Unreachable as error:
            raise Failed(*error.diagnostics) from error
        # Records that were deleted by age cannot be read
        return {
            at: Lag(max(committed.get(at, 0), log.earliest), log.latest)
            for at, log in ranges.items()
        }

    return lags
