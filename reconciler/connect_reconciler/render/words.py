"""The words for what a plan does, the same in every rendering: its first line, the question before
an apply, kinds of changes, consequences, and why each action is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_reconciler.model import actions as act
from connect_reconciler.model.plan import EMBEDDED, TARGETED, Plan, Target, summarize
from connect_reconciler.model.reasons import Reason, ReasonCode
from connect_reconciler.plan.offsets.sink_positions import position_text
from connect_specs.counting import counted
from connect_specs.desired import Consequence


@dataclass(frozen=True, slots=True)
class Details:
    """The config keys that an action adds, changes or removes, and the offsets that it moves."""

    fields: tuple[act.FieldChange, ...] = ()
    moves: tuple[act.OffsetMove, ...] = ()


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
# What a reviewer is to see first, in the first line too
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
    """The first line: `orders [prod] → https://connect.prod:8083, group orders: 12 to create`."""
    where = target_text(plan.target, plan.group_id)
    between = ", " if plan.target is None else " → "
    return f"{project_text(plan)}{between}{where}: {outcome(plan)}"


def target_text(target: Target | None, group_id: str) -> str:
    """`https://connect.prod:8083, group orders`; of an unknown target only the group."""
    parts = []
    if target is not None and target.rest:
        parts.append(target.rest)
    if target is not None and target.kafka == EMBEDDED:
        parts.append("embedded Kafka")
    elif target is not None and target.kafka:
        servers = target.kafka.split(",")
        more = f" and {len(servers) - _NAMED} more" if len(servers) > _NAMED else ""
        parts.append(f"Kafka {','.join(servers[:_NAMED])}{more}")
    return ", ".join([*parts, f"group {group_id}"])


def project_text(plan: Plan) -> str:
    """`orders [prod]`, or `orders` where there is no environment."""
    return plan.project if plan.env is None else f"{plan.project} [{plan.env}]"


def outcome(plan: Plan) -> str:
    """`1 rewind, 2 to create, 1 to change`, or that there is nothing to do; and of which part of
    the project that is said."""
    back = "" if plan.rolls_back is None else f"rollback of apply {plan.rolls_back}: "
    parts = [each.what for each in plan.warnings if each.code == TARGETED]
    if parts and plan.empty:
        return f"{back}no changes; {parts[0]}"
    return back + "; ".join([_whole(plan), *parts])


def counts_text(plan: Plan) -> str:
    """`1 rewind, 2 to create`: what a reviewer is to see first comes first."""
    found = summarize(plan)
    order = dict.fromkeys((*_FIRST, *found))
    return ", ".join(_count(kind, found[kind]) for kind in order if kind in found)


def question(plan: Plan) -> str:
    """What whoever applies the plan is asked."""
    what = "Apply to"
    if plan.rolls_back is not None:
        what = f"Roll back apply {plan.rolls_back} of"
    return f"{what} {project_text(plan)}: {counts_text(plan)}?"


def _whole(plan: Plan) -> str:
    if plan.empty:
        return NO_CHANGES if plan.rolls_back is None else NOTHING_TO_ROLL_BACK
    counts = counts_text(plan)
    if not plan.errors:
        return counts
    refused = f"{counted(len(plan.errors), 'error')}, so nothing can be applied"
    return f"{counts}; {refused}" if counts else refused


def kind_words(kind: act.ChangeKind) -> str:
    """The kind as a connector's heading says it."""
    return _KIND_WORDS.get(kind, kind)


def effects(action: act.Action) -> tuple[str, ...]:
    """What the action does to the data, without the effects that are shown beside its keys."""
    beside = {effect for each in details(action).fields for effect in each.effects}
    return tuple(effect for effect in action.effects if effect and effect not in beside)


def details(action: act.Action) -> Details:
    """What the action writes and moves, one by one."""
    match action:
        case act.Create(renamed_from=None, config=config):
            keys = sorted(config.keys() - {"name"})
            return Details(fields=tuple(act.FieldChange(key, None, config[key]) for key in keys))
        case act.ConfigAction(changes=changes):
            return Details(fields=changes)
        case act.OffsetsAction(moves=moves):
            return Details(moves=moves)
        case _:
            return Details()


def harmless(move: act.OffsetMove) -> bool:
    """Whether the move redelivers nothing and jumps over nothing."""
    return move.direction in ("same", "start")


def _count(kind: act.ChangeKind, count: int) -> str:
    if kind in _COUNTED:
        return f"{count} {_COUNTED[kind][count != 1]}"
    return f"{count} to {'set offsets' if kind == 'set-offsets' else kind}"


# --- reasons ---


def step(action: act.Action) -> str:
    """What the action does and why, once: of a new state only the state, of changed keys only that
    they change, of a rename the old name is in the heading."""
    if reason_code(action) == "state":
        return reason_text(action)
    done = "recreate" if recreates(action) else act.verb(action)
    why = reason_beside(action)
    return f"{done}: {why}" if why else done


def reason_code(action: act.Action) -> ReasonCode | None:
    """The reason's code; of a file without codes only those that are drawn in another way."""
    text = action.reason.text
    return action.reason.code or ("state" if text.startswith("state: ") else _WRITTEN.get(text))


_WRITTEN: Mapping[str, ReasonCode] = {"new": "new", "deleted outside connect": "deleted-outside"}


def reason_beside(action: act.Action) -> str:
    """The reason, unless other parts of a rendering say it; a creation's is in the heading."""
    told = isinstance(action, act.Create | act.UpdateConfig | act.StopOld | act.CarryOffsets)
    return "" if told else reason_text(action)


def recreates(action: act.Action) -> bool:
    """Whether a connector is created that was there before."""
    return isinstance(action, act.Create) and reason_code(action) == "deleted-outside"


def reason_text(action: act.Action) -> str:
    """The reason as a sentence; of a plan that was loaded, the file's own."""
    reason = action.reason
    if reason.code is None or reason.text:
        return reason.text
    count = len(action.changes) if isinstance(action, act.ConfigAction) else 0
    protects = isinstance(action, act.Protect) and action.prevent_delete
    return REASONS[reason.code].format(
        name=action.connector,
        old=action.renamed_from if isinstance(action, act.Create) else act.old_name(action),
        of_old=reason.old,
        state=action.asks_for,
        before="" if reason.state is None else f"{reason.state} → ",
        keys=counted(count, "key"),
        differ="differs" if count == 1 else "differ",
        were="was" if count == 1 else "were",
        protects=str(protects).lower(),
        unprotected="" if protects else "not ",
        pin=action.pin if isinstance(action, act.PinAction) else "",
        to=_to(reason),
    )


REASONS: Mapping[ReasonCode, str] = {
    "new": "new",
    "deleted-outside": "deleted outside connect",
    "only-recorded": "an earlier apply recorded it, and it is not on the cluster",
    "renamed": "renamed from {old}",
    "unowned": "on the cluster, and no project owns it",
    "owner-unseen": "on the cluster; owners cannot be seen without cluster.kafka",
    "keys-differ": "{keys} {differ}",
    "state": "state: {before}{state}",
    "state-before": "it was {state} before",
    "state-of-old-name": "{of_old} was {state} before",
    "held-by-an-apply": "an earlier apply held it stopped; it was {state} before",
    "held-and-now-stopped": "an earlier apply held it stopped; now its spec says so",
    "for-offsets": "offsets move only while it is stopped",
    "pin-new": "pin {pin} is new{to}",
    "pin-drifted": "its offsets are no longer those of pin {pin}, which holds it stopped",
    "failed": "it failed, and only a restart ends that",
    "spec-gone": "its spec is gone",
    "spec-and-connector-gone": "its spec is gone, and so is the connector",
    "prevent-delete": "prevent_delete: {protects}",
    "continues": "{name} is to go on where {old} stops",
    "carried": "{name} has the offsets of {old}",
    # of a rollback
    "was-there": "it was there before",
    "was-not-there": "it was not there before",
    "was-only-begun": "its new name was only begun before",
    "had-this-name": "its name was {name} before",
    "keys-were-different": "{keys} {were} different before",
    "was-protected": "it was {unprotected}protected against deletion before",
    "offsets-were-others": "its offsets were others before",
}


def _to(reason: Reason) -> str:
    if reason.to is None:
        return ""
    return f", to {position_text(reason.to)} once it is stopped"
