"""What a check of a plan can look at. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connect_reconciler.model.live import Live
from connect_reconciler.plan.diff import ConnectorDiff
from connect_reconciler.plan.offsets.group_readers import Readers
from connect_specs.desired import DeleteLimits, Desired
from connect_specs.diagnostics import Location

_NAMED = 5


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


def place_of(changes: ConnectorDiff) -> Location | str:
    """Where the connector's spec is; the connector's name if it has none."""
    return changes.spec.where if changes.spec else changes.name


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"{', '.join(known[:_NAMED])}{more}"
