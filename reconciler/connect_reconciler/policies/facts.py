"""What policies can look at: the plan, one connector's change, and the time. Pure.

All of it is maps, lists, texts and numbers. Secrets are not among them: a sensitive value reads
`(sensitive)`. A number that nobody can tell is not there, so that a rule which asks for it without
asking whether it is known cannot be judged, and lets nothing through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from connect_reconciler.plan.actions import (
    Action,
    AlterOffsets,
    Counts,
    Create,
    FieldChange,
    OffsetMove,
    ResetOffsets,
    UpdateConfig,
)
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.secrets.sensitive import SENSITIVE
from connect_reconciler.plan.summary import grouped, kinds, summarize
from connect_reconciler.plan.values import Plain, Value
from connect_specs.desired import Consequence

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
        if isinstance(action, Create | UpdateConfig)
        for change in action.changes
    ]
    return {
        "connector": actions[0].connector,
        "does": list(kinds(actions)),
        "config": _config(configs[-1]) if configs else {},
        "keys": [_key(change) for change in fields],
        "offsets": [_move(move) for move in moves],
        **_amounts(moves, fields),
    }


def _amounts(moves: Iterable[OffsetMove], fields: Iterable[FieldChange]) -> Facts:
    """What the change repeats and passes over, in offsets, where all of it is known in them."""
    counts = [move.counts for move in moves]
    known = [each for each in counts if each is not None and _in_offsets(each)]
    if len(known) < len(counts) or any(each.consequence in _UNCOUNTED for each in fields):
        return {"amount_known": False, "exact": False}
    return {
        "amount_known": True,
        "exact": all(each.exact for each in known),
        "again": sum(each.again for each in known),
        "skipped": sum(each.skipped for each in known),
    }


# Keys after whose change a connector may read elsewhere than where its offsets were
_UNCOUNTED: frozenset[Consequence] = frozenset(
    {"new-group", "new-offsets-topic", "redelivery", "reread"}
)


def _in_offsets(counts: Counts) -> bool:
    return counts.unit == "offset" or counts.again == counts.skipped == 0


def now_facts(now_ms: int, timezone: str) -> Facts:
    """`now`: weekday in English and small letters, hour, minute and date in the policy's zone."""
    time = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(ZoneInfo(timezone))
    return {
        "weekday": WEEKDAYS[time.weekday()],
        "hour": time.hour,
        "minute": time.minute,
        "date": time.date().isoformat(),
    }


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


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
        **_counted(move.counts),
    }


def _counted(counts: Counts | None) -> Facts:
    if counts is None:
        return {}
    return {
        "again": counts.again,
        "skipped": counts.skipped,
        "unit": counts.unit,
        "exact": counts.exact,
    }


def _config(config: Mapping[str, Value]) -> dict[str, str]:
    return {key: _text(value) for key, value in config.items()}


def _text(value: Value) -> str:
    return value.text if isinstance(value, Plain) else SENSITIVE
