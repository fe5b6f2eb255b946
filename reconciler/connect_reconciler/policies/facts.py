"""What policies can look at: the plan, one connector's change, and the time. Pure.

All of it is maps, lists, texts and numbers. Secrets are not among them: a sensitive value reads
`(sensitive)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from connect_reconciler.plan.actions import (
    Action,
    AlterOffsets,
    Create,
    FieldChange,
    OffsetMove,
    ResetOffsets,
    UpdateConfig,
)
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.sensitive import SENSITIVE
from connect_reconciler.plan.summary import grouped, kinds, summarize
from connect_reconciler.plan.values import Plain, Value

Facts: TypeAlias = dict[str, Any]

NAMES = ("plan", "change", "now")


def plan_facts(plan: Plan) -> Facts:
    """`plan`: project, cluster, env, `does` with a count for each kind of change, and changes."""
    return {
        "project": plan.project,
        "cluster": plan.group_id,
        "env": plan.env or "",
        "does": dict(summarize(plan)),
        "changes": [change_facts(actions) for actions in grouped(plan)],
    }


def change_facts(actions: tuple[Action, ...]) -> Facts:
    """`change`: one connector's, as `docs/policies.md` lists them."""
    moves = [
        move
        for action in actions
        if isinstance(action, AlterOffsets | ResetOffsets)
        for move in action.moves
    ]
    configs = [action.config for action in actions if isinstance(action, Create | UpdateConfig)]
    fields = [
        change
        for action in actions
        if isinstance(action, UpdateConfig)
        for change in action.changes
    ]
    counts = [move.counts for move in moves]
    return {
        "connector": actions[0].connector,
        "does": list(kinds(actions)),
        "config": _config(configs[-1]) if configs else {},
        "keys": [_key(change) for change in fields],
        "offsets": [_move(move) for move in moves],
        "again": sum(each.again for each in counts if each is not None),
        "skipped": sum(each.skipped for each in counts if each is not None),
        "uncounted": any(each is None for each in counts),
    }


def now_facts(now_ms: int, timezone: str) -> Facts:
    """`now`: weekday in English and small letters, hour, minute and date in the policy's zone."""
    time = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(ZoneInfo(timezone))
    return {
        "weekday": _WEEKDAYS[time.weekday()],
        "hour": time.hour,
        "minute": time.minute,
        "date": time.date().isoformat(),
    }


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _key(change: FieldChange) -> Facts:
    return {
        "key": change.key,
        "old": None if change.old is None else _text(change.old),
        "new": None if change.new is None else _text(change.new),
        "consequence": change.consequence,
    }


def _move(move: OffsetMove) -> Facts:
    return {
        "partition": dict(move.entry.partition),
        "before": None
        if move.before is None or move.before.offset is None
        else dict(move.before.offset),
        "after": None if move.entry.offset is None else dict(move.entry.offset),
        "direction": move.direction,
    }


def _config(config: Mapping[str, Value]) -> dict[str, str]:
    return {key: _text(value) for key, value in config.items()}


def _text(value: Value) -> str:
    return value.text if isinstance(value, Plain) else SENSITIVE
