"""Which sinks read with which consumer group, now or once the plan is carried out? Pure.

Offsets belong to the group: what a rename moves or forgets there is every reader's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from connect_reconciler.model.live import Live
from connect_reconciler.plan.diff import ConnectorDiff
from connect_specs.names import sink_group

Readers: TypeAlias = Mapping[str, frozenset[str]]


def readers_of(changes: Iterable[ConnectorDiff], live: Live, worker: Mapping[str, str]) -> Readers:
    """The names by group. What is deleted reads until then."""
    found: dict[str, set[str]] = {}
    for connector in live.connectors.values():
        if connector.kind == "sink":
            group = sink_group(connector.name, connector.config, worker)
            found.setdefault(group, set()).add(connector.name)
    for each in changes:
        if each.kind == "sink" and each.written is not None:
            found.setdefault(sink_group(each.name, each.written, worker), set()).add(each.name)
    return {group: frozenset(names) for group, names in found.items()}


def other_readers(group: str, readers: Readers, *names: str) -> tuple[str, ...]:
    """Who reads with the group besides connectors of these names."""
    return tuple(sorted(readers.get(group, frozenset()) - {*names}))
