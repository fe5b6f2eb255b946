"""What do the offset changes of a saved plan mean by now? Pure.

Where they lead to is as it was planned. A connector that ran on since is taken back further: this
is what a reviewer and the project's policies are to be told, not what it was when it was saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect_reconciler.plan.actions import (
    Action,
    AlterOffsets,
    Create,
    ResetOffsets,
    UpdateConfig,
)
from connect_reconciler.plan.consequences.setting import sink_start
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.offset_moves import MoveContext, move, reading, totals
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.predict import OFFSETS_HOME_KEYS
from connect_specs.desired import OffsetEntry


def recounted(plan: Plan, live: Live, worker: Mapping[str, str]) -> Plan:
    """The plan with the effects that its offset changes have on the connectors of now; those of a
    connector that it creates, or that gets its offsets from elsewhere, stay as they are."""
    elsewhere = {action.connector for action in plan.actions if _leaves_offsets(action)}
    return replace(
        plan,
        actions=tuple(
            each if each.connector in elsewhere else _recounted(each, live, worker)
            for each in plan.actions
        ),
    )


def _leaves_offsets(action: Action) -> bool:
    if isinstance(action, UpdateConfig):
        return any(change.key in OFFSETS_HOME_KEYS for change in action.changes)
    return isinstance(action, Create)


def _recounted(action: Action, live: Live, worker: Mapping[str, str]) -> Action:
    connector = live.connectors.get(action.connector)
    if connector is None or not isinstance(action, AlterOffsets | ResetOffsets):
        return action
    start = sink_start(connector.config, worker)
    context = MoveContext.of(
        connector.kind, connector.offsets, live, start, reader=reading(connector)
    )
    entries = [each.entry for each in action.moves]
    if isinstance(action, ResetOffsets):
        entries = [OffsetEntry(each.partition, None) for each in context.before.values()]
    moves = tuple(move(entry, context) for entry in entries)
    return replace(action, moves=moves, effect=totals(moves))
