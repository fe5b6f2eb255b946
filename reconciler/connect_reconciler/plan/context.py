"""All that is known while a plan is made: what checks and builders of actions look at. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_reconciler.model.live import Live
from connect_reconciler.plan.diff import ConnectorDiff
from connect_specs.desired import DeleteLimits, Desired, Overrides
from connect_specs.diagnostics import Location
from connect_specs.names import sink_group

# Names of sinks by consumer group. Offsets belong to the group: what a rename moves or forgets
# there is every reader's.
Readers: TypeAlias = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Context:
    """All that is known while a plan is made.

    `desired` and `whole` are the project and the cluster. `live` is the cluster without connectors
    that the plan is not about, and `changes` has the others by name. `worker` holds the worker's
    properties as far as they are known, `readers` the sinks by consumer group.
    """

    desired: Desired
    whole: Live
    live: Live
    changes: Mapping[str, ConnectorDiff]
    worker: Mapping[str, str]
    readers: Readers
    group_id: str
    env: str | None
    deletes: DeleteLimits
    overrides: Overrides | None

    def other_readers(self, group: str, *names: str) -> tuple[str, ...]:
        """Returns the connectors that read with the group besides those of these names."""
        return tuple(sorted(self.readers.get(group, frozenset()) - {*names}))


def readers_of(changes: Iterable[ConnectorDiff], live: Live, worker: Mapping[str, str]) -> Readers:
    """Returns the sinks that read now or once the plan is carried out. One that is deleted reads
    until then."""
    readers: dict[str, set[str]] = {}
    for connector in live.connectors.values():
        if connector.kind == "sink":
            group = sink_group(connector.name, connector.config, worker)
            readers.setdefault(group, set()).add(connector.name)
    for diff in changes:
        if diff.kind == "sink" and diff.written is not None:
            readers.setdefault(sink_group(diff.name, diff.written, worker), set()).add(diff.name)
    return {group: frozenset(names) for group, names in readers.items()}


def place_of(changes: ConnectorDiff) -> Location | str:
    """Returns the place of the connector's spec; the connector's name if it has none."""
    return changes.spec.where if changes.spec else changes.name
