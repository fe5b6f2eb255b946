"""The words for what a plan does, the same in every rendering: its first line, the question before
an apply, kinds of changes, consequences, and why each action is done.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler import actions as act
from connect_reconciler.actions.plan import EMBEDDED, TARGETED, Plan, Target, summarize
from connect_specs.desired import Consequence
from connect_specs.plain_text import counted

# Brokers that a line names
_NAMED = 2

NO_CHANGES = "no changes, the cluster matches the specs"
NOTHING_TO_ROLL_BACK = "no changes, the cluster is as it was before that apply"

CONSEQUENCES: Mapping[Consequence, str] = {
    "none": "",
    "restart": "",  # said once, of the whole config
    "new-group": "new consumer group",
    "new-offsets-topic": "new offsets topic",
    "redelivery": "re-delivery",
    "reread": "re-read",
}

# The connector then reads from another position, or delivers records twice
GRAVE: tuple[Consequence, ...] = ("new-group", "new-offsets-topic", "redelivery", "reread")
# Changes that a reviewer is to see first, in the first line too
_FIRST: tuple[act.ChangeKind, ...] = ("delete", "rewind", "skip", "reset", "rename")

_COUNTED: Mapping[act.ChangeKind, tuple[str, str]] = {
    "rewind": ("rewind", "rewinds"),
    "skip": ("skip", "skips"),
    "reset": ("offset reset", "offset resets"),
}
_KIND_WORDS: Mapping[act.ChangeKind, str] = {
    "change": "change config",
    "set-offsets": "set offsets",
    "reset": "reset offsets",
}


def summary_line(plan: Plan) -> str:
    """Returns the first line: `orders [prod] → https://connect:8083, group orders: 1 to create`."""
    target = target_text(plan.target, plan.group_id)
    between = ", " if plan.target is None else " → "
    return f"{project_text(plan)}{between}{target}: {outcome(plan)}"


def target_text(target: Target | None, group_id: str) -> str:
    """Returns `https://connect.prod:8083, group orders`; of an unknown target only the group."""
    places = []
    if target is not None and target.rest:
        places.append(target.rest)
    if target is not None and target.kafka == EMBEDDED:
        places.append("embedded Kafka")
    elif target is not None and target.kafka:
        servers = target.kafka.split(",")
        more = f" and {len(servers) - _NAMED} more" if len(servers) > _NAMED else ""
        places.append(f"Kafka {','.join(servers[:_NAMED])}{more}")
    return ", ".join([*places, f"group {group_id}"])


def project_text(plan: Plan) -> str:
    """Returns `orders [prod]`, or `orders` where there is no environment."""
    return plan.project if plan.env is None else f"{plan.project} [{plan.env}]"


def outcome(plan: Plan) -> str:
    """Returns `1 rewind, 2 to create, 1 to change`, or that there is nothing to do; and the part of
    the project that this concerns."""
    back = "" if plan.rolls_back is None else f"rollback of apply {plan.rolls_back}: "
    scopes = [problem.what for problem in plan.warnings if problem.code == TARGETED]
    if scopes and plan.empty:
        return f"{back}no changes; {scopes[0]}"
    return back + "; ".join([_changes_text(plan), *scopes])


def counts_text(plan: Plan) -> str:
    """Returns `1 rewind, 2 to create`: the changes that a reviewer is to see first come first."""
    counts = summarize(plan)
    order = dict.fromkeys((*_FIRST, *counts))
    return ", ".join(_count(kind, counts[kind]) for kind in order if kind in counts)


def question(plan: Plan) -> str:
    """Returns the question to the user who applies the plan."""
    verb = "Apply to"
    if plan.rolls_back is not None:
        verb = f"Roll back apply {plan.rolls_back} of"
    return f"{verb} {project_text(plan)}: {counts_text(plan)}?"


def _changes_text(plan: Plan) -> str:
    if plan.empty:
        return NO_CHANGES if plan.rolls_back is None else NOTHING_TO_ROLL_BACK
    counts = counts_text(plan)
    if not plan.errors:
        return counts
    refused = f"{counted(len(plan.errors), 'error')}, so nothing can be applied"
    return f"{counts}; {refused}" if counts else refused


def kind_words(kind: act.ChangeKind) -> str:
    """Returns the kind in the words of a connector's heading."""
    return _KIND_WORDS.get(kind, kind)


def effects(action: act.Action) -> tuple[str, ...]:
    """Returns the action's effects on the data, without those that are shown beside its keys."""
    field_effects = {effect for change in action.shown_fields for effect in change.effects}
    return tuple(effect for effect in action.effects if effect and effect not in field_effects)


def harmless(move: act.OffsetMove) -> bool:
    """Returns whether the move redelivers nothing and jumps over nothing."""
    return move.direction in ("same", "start")


def _count(kind: act.ChangeKind, count: int) -> str:
    if kind in _COUNTED:
        return f"{count} {_COUNTED[kind][count != 1]}"
    return f"{count} to {'set offsets' if kind == 'set-offsets' else kind}"


# --- reasons ---


def step(action: act.Action) -> str:
    """Returns the action and its reason, once: of a new state only the state, of changed keys only
    that they change, of a rename the old name is in the heading."""
    if action.reason_code == "state":
        return action.reason
    verb = "recreate" if recreates(action) else action.imperative
    reason = reason_beside(action)
    return f"{verb}: {reason}" if reason else verb


def reason_beside(action: act.Action) -> str:
    """Returns the reason, unless other parts of a rendering hold it; a creation's is in the
    heading."""
    renames = isinstance(action, act.Stop) and action.renamed_to is not None
    elsewhere = isinstance(action, act.Create | act.UpdateConfig | act.CopyOffsets)
    return "" if renames or elsewhere else action.reason


def recreates(action: act.Action) -> bool:
    """Returns True if a connector is created that was there before."""
    return isinstance(action, act.Create) and action.reason_code == "deleted-outside"
