"""What the facts of `facts.py` look like, whatever the plan: their fields, and the words they use.

With it a mistyped field or word is found when a policy is read, and not on the day it matters.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, get_args

from connect_reconciler.plan.actions import Direction, Unit
from connect_reconciler.plan.summary import KINDS
from connect_reconciler.policies.facts import WEEKDAYS
from connect_specs.desired import Consequence

# Fields by name, a list of one shape, the words that a text can be, or None for anything
Shape: TypeAlias = "dict[str, Shape] | list[Shape] | frozenset[str] | None"

_AMOUNTS: Final[dict[str, Shape]] = {"again": None, "skipped": None, "exact": None}
_KEY: Final[dict[str, Shape]] = {
    "key": None,
    "old": None,
    "new": None,
    "consequence": frozenset(get_args(Consequence)),
}
_MOVE: Final[dict[str, Shape]] = {
    "partition": None,
    "before": None,
    "after": None,
    "direction": frozenset(get_args(Direction)),
    "unit": frozenset(get_args(Unit)),
    **_AMOUNTS,
}
_CHANGE: Final[dict[str, Shape]] = {
    "connector": None,
    "does": [frozenset(KINDS)],
    "config": None,
    "keys": [_KEY],
    "offsets": [_MOVE],
    "amount_known": None,
    **_AMOUNTS,
}
_PLAN: Final[dict[str, Shape]] = {
    "project": None,
    "cluster": None,
    "env": None,
    "does": dict.fromkeys(KINDS),
    "changes": [_CHANGE],
}
_NOW: Final[dict[str, Shape]] = {
    "weekday": frozenset(WEEKDAYS),
    "hour": None,
    "minute": None,
    "date": None,
}

SHAPES: Final[dict[str, Shape]] = {"plan": _PLAN, "change": _CHANGE, "now": _NOW}

_SAMPLE_CHANGE: Final[dict[str, Any]] = {
    "connector": "orders",
    "does": ["change", "rewind"],
    "config": {"connector.class": "FileStreamSink", "tasks.max": "2"},
    "keys": [{"key": "tasks.max", "old": "1", "new": "2", "consequence": "restart"}],
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
        }
    ],
    "amount_known": True,
    "again": 4,
    "skipped": 0,
    "exact": True,
}
# Facts to try an expression on: one that fails on types here fails on any plan
SAMPLE: Final[dict[str, Any]] = {
    "plan": {
        "project": "shop",
        "cluster": "shop",
        "env": "prod",
        "does": dict.fromkeys(KINDS, 1),
        "changes": [_SAMPLE_CHANGE],
    },
    "change": _SAMPLE_CHANGE,
    "now": {"weekday": "friday", "hour": 17, "minute": 30, "date": "2026-11-20"},
}
