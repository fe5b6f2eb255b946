"""Which rights does a plan need on sinks' groups and topics, where this process moves offsets?

Pure. Kafka is asked before the first action: a sink whose offsets cannot be moved would be left
stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler.plan.actions import (
    AlterOffsets,
    CarryOffsets,
    DeleteOld,
    OffsetMove,
    ResetOffsets,
)
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.offsets.moves import sink_partition
from connect_reconciler.plan.plan import Plan
from connect_runtime.connector_clients import ConnectorClients
from connect_runtime.kafka.rights import DELETE, READ, Rights
from connect_specs.desired import Desired, Project
from connect_specs.names import sink_group


def rights_to_move(
    plan: Plan, desired: Desired, live: Live, project: Project
) -> tuple[Rights, Rights]:
    """On topics, and on groups, of the cluster that the worker is on: those of a sink with a login
    of its own are for Kafka to refuse."""
    topics: dict[str, tuple[str, ...]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for action in plan.actions:
        if isinstance(action, DeleteOld):
            # An apply that was killed may have deleted it before it could say so
            old = live.connectors.get(action.old)
            away = old is not None and _has_own_login(old.config)
            if old is not None and action.reset and old.kind == "sink" and not away:
                groups[sink_group(old.name, old.config, project.worker)] = (DELETE,)
            continue
        if not isinstance(action, (AlterOffsets, CarryOffsets, ResetOffsets)):
            continue
        named = set(_topics(action.moves))
        if not named:
            continue
        config = desired.connectors[action.connector].config
        if _has_own_login(config):
            continue
        group = sink_group(action.connector, config, project.worker)
        if isinstance(action, ResetOffsets):
            groups[group] = (DELETE,)
            continue
        topics |= dict.fromkeys(named, (READ,))
        forgets = any(move.entry.offset is None for move in action.moves)
        groups[group] = (READ, DELETE) if forgets else (READ,)
    return topics, groups


def _has_own_login(config: Mapping[str, str]) -> bool:
    return ConnectorClients("", "", {}, "", config, "sink").own_login


def _topics(moves: Iterable[OffsetMove]) -> Iterator[str]:
    for move in moves:
        at = sink_partition(move.entry.partition)
        if at is not None:
            yield at[0]
