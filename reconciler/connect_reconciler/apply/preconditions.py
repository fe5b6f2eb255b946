"""The rights that an apply needs before its first action. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler import actions as act
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.live import Live
from connect_reconciler.model.offsets import sink_partition
from connect_runtime.kafka.client_checks import DELETE, READ, Rights
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_specs.desired import Desired, Project
from connect_specs.names import sink_group


def rights_to_move(
    plan: Plan, desired: Desired, live: Live, project: Project
) -> tuple[Rights, Rights]:
    """The rights on topics and on groups that the plan needs where this process moves offsets.

    Kafka is asked before the first action: a sink whose offsets cannot be moved would be left
    stopped. Only of the worker's cluster: for sinks with a login of their own Kafka decides later.
    """
    topics: dict[str, tuple[str, ...]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for action in plan.actions:
        if isinstance(action, act.Delete):
            # An apply that was killed may have deleted it before it could record that
            old = live.connectors.get(action.connector)
            elsewhere = old is not None and _has_own_login(old.config)
            if old is not None and action.reset_offsets and old.kind == "sink" and not elsewhere:
                groups[sink_group(old.name, old.config, project.worker)] = (DELETE,)
            continue
        if not isinstance(action, act.OffsetsAction):
            continue
        named = set(_topics(action.moves))
        if not named:
            continue
        config = desired.connectors[action.connector].config
        if _has_own_login(config):
            continue
        group = sink_group(action.connector, config, project.worker)
        if isinstance(action, act.ResetOffsets):
            groups[group] = (DELETE,)
            continue
        topics |= dict.fromkeys(named, (READ,))
        forgets = any(move.entry.offset is None for move in action.moves)
        groups[group] = (READ, DELETE) if forgets else (READ,)
    return topics, groups


def _has_own_login(config: Mapping[str, str]) -> bool:
    return ConnectorClients("", "", {}, "", config, "sink").own_login


def _topics(moves: Iterable[act.OffsetMove]) -> Iterator[str]:
    for move in moves:
        at = sink_partition(move.entry.partition)
        if at is not None:
            yield at[0]
