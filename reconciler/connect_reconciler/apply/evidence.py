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
from connect_reconciler.backend.backend import Followed
from connect_reconciler.backend.followed_topics import Position, Reported
from connect_reconciler.backend.observe.kafka_view import View
from connect_reconciler.backend.port import Cluster, Found, ReadBack
from connect_reconciler.model.offsets import sink_offset, sink_partition
from connect_reconciler.plan.offsets.sink_positions import sink_partitions, sink_start
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.diagnostics import Failed, Unreachable


@dataclass(frozen=True, slots=True)
class Since:
    """Positions in the status topic from which on statuses count. `first`: from before the first
    change; `last`: from the last read of the task configs, which had that `generation`; `tasks`:
    for tasks, None while their configs are unchanged. `speaks`: the connector will report again.
    `before`: what each task said before the first change, without tasks that were gone since."""

    first: Position
    last: Position
    generation: int | None
    tasks: Position | None = None
    speaks: bool = False
    before: Mapping[int, InstanceStatus] = field(default_factory=dict)


def noted(
    since: Since | None,
    at: Position,
    generation: int | None,
    tasks: Mapping[int, InstanceStatus],
) -> Since:
    """The positions after the task configs were read again, with the statuses read up to `at`,
    which are those of `tasks`.

    Tasks whose configs did not exist at the read before had reported nothing by then.
    """
    if since is None:
        return Since(at, at, generation, before=tasks)
    before = {number: part for number, part in since.before.items() if number in tasks}
    since = replace(since, before=before)
    if generation == since.generation:
        return replace(since, last=at)
    return replace(since, last=at, generation=generation, tasks=since.last)


@dataclass(slots=True)
class Evidence:
    """What is known of changed connectors. Used by many threads, one for each connector."""

    followed: Followed
    _since: dict[str, Since] = field(default_factory=dict)

    def note(self, name: str, *, speaks: bool) -> None:
        """Called before each change. `speaks`: after it the connector reports its state, even an
        unchanged one. Raises ConnectError."""
        at = self.followed.statuses.read()
        self.followed.configs.read()
        since = self._noted(name, at)
        self._since[name] = replace(since, speaks=since.speaks or speaks)

    def changed(self, name: str) -> None:
        """Called after each change, which may have waited for a rebalance: a status that a task
        wrote meanwhile is of its old config. Raises ConnectError."""
        self.note(name, speaks=False)

    def read(self) -> None:
        """Reads the new records of all noted connectors. Raises ConnectError."""
        at = self.followed.statuses.read()
        self.followed.configs.read()
        for name in self._since:
            self._since[name] = self._noted(name, at)

    def look(self, name: str, *, long_ago: bool) -> Observation:
        """A noted connector as it was read last. `long_ago`: the change was so long ago that its
        task configs are current by now, even if they were not written again."""
        since, found = self._since[name], self.followed.configs.known(name)
        statuses = self.followed.statuses
        told, later = statuses.told(name), statuses.told_since(name, since.first)
        if found is None or told.connector is None:
            return Observation(None, 0, tasks_current=False, unread=statuses.unread)
        status = ConnectorStatus(name, told.connector, told.tasks, "unknown")
        current = found.made or (long_ago and not self.followed.tasks_follow())
        outdated = frozenset(self._outdated(name, since, told, later))
        # A task starts again with its new config, however long that takes
        restarting = frozenset() if since.tasks is None else outdated - {CONNECTOR}
        unsure = frozenset() if since.tasks is None else self._unsure(name, since, told) - outdated
        proven = bool(found.tasks) and current and told.polled - unsure >= set(range(found.tasks))
        return Observation(
            status,
            found.tasks,
            current,
            outdated,
            restarting,
            unsure,
            proven,
            statuses.unread,
        )

    def _noted(self, name: str, at: Position) -> Since:
        found: Found | None = self.followed.configs.known(name)
        generation = None if found is None else found.generation
        return noted(self._since.get(name), at, generation, self.followed.statuses.told(name).tasks)

    def _outdated(self, name: str, since: Since, told: Reported, later: Reported) -> set[int]:
        """The numbers of tasks, or CONNECTOR, whose status is from before the change."""
        outdated: set[int] = set()
        if later.connector is None and told.connector is not None:
            silent = since.speaks and not self.followed.ours
            if silent or told.connector.state is State.FAILED:
                outdated.add(CONNECTOR)
        counts, statuses = later, self.followed.statuses
        if since.tasks is not None:
            counts = statuses.told_since(name, since.tasks)
        for number, part in told.tasks.items():
            if number not in counts.tasks and (since.tasks is not None or _failed(part)):
                outdated.add(number)
        return outdated

    def _unsure(self, name: str, since: Since, told: Reported) -> frozenset[int]:
        """The tasks whose status may be of their old config."""
        restarted = self.followed.statuses.restarted_since(name, since.first)
        return frozenset(
            number
            for number, before in since.before.items()
            if (part := told.tasks.get(number)) is not None
            and number not in restarted
            # what had failed was not running any more
            and not (before.worker_id == part.worker_id and (self.followed.ours or _failed(before)))
        )


def _failed(part: InstanceStatus) -> bool:
    return part.state is State.FAILED


def lags_of(
    cluster: Cluster,
    view_of: Callable[[str, Mapping[str, str]], View],
    read_back: ReadBack,
    worker: Mapping[str, str],
) -> Callable[[str], Lags]:
    """Reads a sink's lags in partitions that exist. `view_of` gives the Kafka cluster that a sink
    reads, by its name and config; that it cannot be asked is Failed. Raises ConnectError.

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
        found = read_back(name)
        config = {} if found is None else found.config
        reads = set(committed)
        try:
            view = view_of(name, config)
            if sink_start(config, worker) == "earliest":
                reads |= sink_partitions(config, view.topics())
            ranges = view.log_ranges(reads)
        except Unreachable as error:
            raise Failed(*error.diagnostics) from error
        # What was deleted by age cannot be read any more
        return {
            at: Lag(max(committed.get(at, 0), log.earliest), log.latest)
            for at, log in ranges.items()
        }

    return lags
