"""What tells how a connector is since an apply changed it, read from config and status topic.

Statuses from before a change look like those after it. Of the connector only what it said since the
first change counts; of its tasks too, if their configs were written anew since. Tasks whose configs
stayed go on, and say nothing. No clock is asked: what was read in which order decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from connect_reconciler.apply.health import CONNECTOR, Look
from connect_reconciler.cluster.readback import ConfigTopic, Found
from connect_reconciler.cluster.statuses import Position, StatusTopic, Told
from connect_runtime.herder.values import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State


@dataclass(frozen=True, slots=True)
class Since:
    """From where on words count. `first`: before the first change; `last`: when the task configs
    were looked at last, which were those of `generation` then; `tasks`: from where on those of
    tasks count, None while their configs are as they were. `speaks`: the connector has to say
    something new."""

    first: Position
    last: Position
    generation: int | None
    tasks: Position | None = None
    speaks: bool = False


def noted(since: Since | None, at: Position, generation: int | None) -> Since:
    """After one more look at the task configs, with the statuses read up to `at` before it.

    Configs that were not there yet at the look before are of tasks that had said nothing by then.
    """
    if since is None:
        return Since(at, at, generation)
    if generation == since.generation:
        return replace(since, last=at)
    return replace(since, last=at, generation=generation, tasks=since.last)


@dataclass(slots=True)
class Evidence:
    """For many threads, one of them for each connector. `ours`: our runtime runs the connectors: it
    makes task configs only once the connector runs with its config, and repeats no status.
    `tasks_follow`: each new config makes task configs be written anew."""

    configs: ConfigTopic
    statuses: StatusTopic
    ours: bool
    tasks_follow: Callable[[], bool]
    _since: dict[str, Since] = field(default_factory=dict)

    def note(self, name: str, *, speaks: bool) -> None:
        """Called before each change. `speaks`: one after which the connector says how it is, even
        if it is as before. Raises ConnectError."""
        at = self.statuses.read()
        self.configs.read()
        since = self._noted(name, at)
        self._since[name] = replace(since, speaks=since.speaks or speaks)

    def changed(self, name: str) -> None:
        """Called after each change, which may have waited for a rebalance: what a task said
        meanwhile, before its new config, is of the old one. Raises ConnectError."""
        at = self.statuses.read()
        self.configs.read()
        self._since[name] = self._noted(name, at)

    def read(self) -> None:
        """Reads what is new of all that were noted. Raises ConnectError."""
        at = self.statuses.read()
        self.configs.read()
        for name in self._since:
            self._since[name] = self._noted(name, at)

    def look(self, name: str, *, long_ago: bool) -> Look:
        """One that was noted, as it was read last. `long_ago`: the change was, so that task configs
        which do not follow it would stand by now."""
        since, found = self._since[name], self.configs.known(name)
        told, later = self.statuses.told(name), self.statuses.told_since(name, since.first)
        if found is None or told.connector is None:
            return Look(None, 0, made=False)
        status = ConnectorStatus(name, told.connector, told.tasks, "unknown")
        made = found.made or (long_ago and not self.tasks_follow())
        late = frozenset(self._late(name, since, told, later))
        # A task begins again with its new config, however long that takes
        anew = frozenset() if since.tasks is None else late - {CONNECTOR}
        return Look(status, found.tasks, made=made, late=late, anew=anew)

    def _noted(self, name: str, at: Position) -> Since:
        found: Found | None = self.configs.known(name)
        return noted(self._since.get(name), at, None if found is None else found.generation)

    def _late(self, name: str, since: Since, told: Told, later: Told) -> set[int]:
        """The parts whose word is from before the change."""
        late: set[int] = set()
        if later.connector is None and told.connector is not None:
            silent = since.speaks and not self.ours
            if silent or told.connector.state is State.FAILED:
                late.add(CONNECTOR)
        counts = later if since.tasks is None else self.statuses.told_since(name, since.tasks)
        for number, part in told.tasks.items():
            if number not in counts.tasks and (since.tasks is not None or _failed(part)):
                late.add(number)
        return late


def _failed(part: InstanceStatus) -> bool:
    return part.state is State.FAILED
