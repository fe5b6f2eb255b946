"""The facts that policies judge: the plan, one connector's change, and the time. Pure.

Facts are maps, lists, texts and numbers. Secrets are not among them: a sensitive value reads
`(sensitive)`. A number that is not known is left out, so that a rule which uses it without asking
whether it is known cannot be evaluated, and counts as violated.

`SHAPES` says which fields and words facts have, whatever the plan: a mistyped one is found when a
policy is read, and not on the day it matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, get_args
from zoneinfo import ZoneInfo

from connect_reconciler import actions as act
from connect_reconciler.actions.changes import GRAVE
from connect_reconciler.actions.plan import KINDS, Plan, grouped, kinds, summarize
from connect_reconciler.model.config_values import Plain, Value
from connect_reconciler.plan.offsets.sink_positions import position_text
from connect_specs.desired import Consequence, Position
from connect_specs.secrets import SENSITIVE

Facts: TypeAlias = dict[str, Any]

# Fields by name, a list of one shape, the words that a text can be, or None for anything
Shape: TypeAlias = "dict[str, Shape] | list[Shape] | frozenset[str] | None"

NAMES: Final = ("plan", "change", "now")
WEEKDAYS: Final = (
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
)


def plan_facts(plan: Plan, unknown_keys: Mapping[str, Sequence[str]]) -> Facts:
    """Returns `plan`: project, cluster, env, `does` with a count for each kind of change, and
    changes. `unknown_keys` by connector."""
    return {
        "project": plan.project,
        "cluster": plan.group_id,
        "env": plan.env or "",
        "does": dict(summarize(plan)),
        "changes": [
            change_facts(actions, unknown_keys.get(actions[0].group, ()))
            for actions in grouped(plan)
        ],
    }


def change_facts(actions: tuple[act.Action, ...], unknown_keys: Sequence[str]) -> Facts:
    """Returns `change`: one connector's, as `docs/policies.md` lists them."""
    pins = [action for action in actions if isinstance(action, act.PinAction)]
    moves = [move for action in pins for move in action.moves]
    to = next((pin.to for pin in pins if isinstance(pin, act.AlterOffsets)), None)
    configs = [action.config for action in actions if isinstance(action, act.ConfigAction)]
    fields = [
        change
        for action in actions
        if isinstance(action, act.ConfigAction)
        for change in action.field_changes
    ]
    return {
        "connector": actions[0].group,
        "does": list(kinds(actions)),
        "config": _config(configs[-1]) if configs else {},
        "keys": [_key(change) for change in fields],
        "unknown_keys": list(unknown_keys),
        "offsets": [_move(move) | _rule(to) for move in moves],
        **_amounts(moves, fields),
    }


def _amounts(moves: Iterable[act.OffsetMove], fields: Iterable[act.FieldChange]) -> Facts:
    """Returns the records that the change repeats and passes over, in offsets, if all of them are
    known in offsets."""
    counts = [move.counts for move in moves]
    measured = [
        count
        for count in counts
        if count and (count.unit == "offset" or count.redelivered == count.skipped == 0)
    ]
    if len(measured) < len(counts) or any(field.consequence in GRAVE for field in fields):
        return {"amount_known": False, "exact": False}
    return {
        "amount_known": True,
        "exact": all(count.exact for count in measured),
        "again": sum(count.redelivered for count in measured),
        "skipped": sum(count.skipped for count in measured),
    }


def now_facts(now_ms: int, timezone: str) -> Facts:
    """Returns `now` in the policy's zone: weekday in English small letters, hour, minute, date."""
    time = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(ZoneInfo(timezone))
    return {
        "weekday": WEEKDAYS[time.weekday()],
        "hour": time.hour,
        "minute": time.minute,
        "date": time.date().isoformat(),
    }


def _key(change: act.FieldChange) -> Facts:
    return {
        "key": change.key,
        "old": None if change.old is None else _text(change.old),
        "new": None if change.new is None else _text(change.new),
        "consequence": change.consequence,
    }


def _move(move: act.OffsetMove) -> Facts:
    return {
        "partition": dict(move.entry.partition),
        "before": None
        if move.before is None or move.before.offset is None
        else dict(move.before.offset),
        "after": None if move.entry.offset is None else dict(move.entry.offset),
        "direction": move.direction,
        **_counted(move.counts),
    }


def _rule(to: Position | None) -> Facts:
    """Returns the place that a pin leads to, while the offsets of a move are an estimate."""
    return {} if to is None else {"to": position_text(to)}


def _counted(counts: act.Counts | None) -> Facts:
    if counts is None:
        return {}
    return {
        "again": counts.redelivered,
        "skipped": counts.skipped,
        "unit": counts.unit,
        "exact": counts.exact,
    }


def _config(config: Mapping[str, Value]) -> dict[str, str]:
    return {key: _text(value) for key, value in config.items()}


def _text(value: Value) -> str:
    return value.text if isinstance(value, Plain) else SENSITIVE


# --- what facts look like ---

_CHANGE: Final[dict[str, Any]] = {
    "connector": "orders",
    "does": ["change", "rewind"],
    "config": {"connector.class": "FileStreamSink", "tasks.max": "2"},
    "keys": [{"key": "tasks.max", "old": "1", "new": "2", "consequence": "restart"}],
    "unknown_keys": ["tasks.maxx"],
    "offsets": [
        {
            "partition": {"kafka_topic": "orders", "kafka_partition": 0},
            "before": {"kafka_offset": 9},
            "after": {"kafka_offset": 5},
            "direction": "back",
            "unit": "offset",
            "again": 4,
            "skipped": 0,
            "exact": True,
            "to": "earliest",
        }
    ],
    "amount_known": True,
    "again": 4,
    "skipped": 0,
    "exact": True,
}
# Facts with every field, to try an expression on: one that fails on types here fails on any plan
SAMPLE: Final[dict[str, Any]] = {
    "plan": {
        "project": "shop",
        "cluster": "shop",
        "env": "prod",
        "does": dict.fromkeys(KINDS, 1),
        "changes": [_CHANGE],
    },
    "change": _CHANGE,
    "now": {"weekday": "friday", "hour": 17, "minute": 30, "date": "2026-11-20"},
}

# Texts that are words of a closed list, by their fields
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "does": frozenset(KINDS),
    "consequence": frozenset(get_args(Consequence)),
    "direction": frozenset(get_args(act.Direction)),
    "unit": frozenset(get_args(act.Unit)),
    "weekday": frozenset(WEEKDAYS),
}
# Maps whose keys are the connector's own
_OPEN: Final = ("config", "partition", "before", "after")


def _shape(field: str, sample: object) -> Shape:
    """Returns the shape of all facts in this field, of which a sample has one."""
    match sample:
        case dict() if field not in _OPEN:
            return {name: _shape(name, value) for name, value in sample.items()}
        case list():
            return [_shape(field, sample[0])]
        case _:
            return _WORDS.get(field)


SHAPES: Final = {name: _shape(name, value) for name, value in SAMPLE.items()}
