"""Why an action is done, in words: the sentence for each reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from connect_reconciler.model.actions import (
    Action,
    CarryOffsets,
    ConfigAction,
    Create,
    PinAction,
    Protect,
    StopOld,
    UpdateConfig,
    old_name,
    verb,
)
from connect_reconciler.model.reasons import Reason, ReasonCode
from connect_reconciler.plan.offsets.sink_positions import position_text


def step(action: Action) -> str:
    """What the action does and why, once: of a new state only the state, of changed keys only that
    they change, of a rename the old name is in the heading."""
    if reason_code(action) == "state":
        return reason_text(action)
    done = "recreate" if recreates(action) else verb(action)
    why = reason_beside(action)
    return f"{done}: {why}" if why else done


def reason_code(action: Action) -> ReasonCode | None:
    """The reason's code; of a file without codes only those that are drawn in another way."""
    text = action.reason.text
    return action.reason.code or ("state" if text.startswith("state: ") else _WRITTEN.get(text))


_WRITTEN: Mapping[str, ReasonCode] = {"new": "new", "deleted outside connect": "deleted-outside"}


def reason_beside(action: Action) -> str:
    """The reason, unless other parts of a rendering say it; a creation's is in the heading."""
    told = isinstance(action, Create | UpdateConfig | StopOld | CarryOffsets)
    return "" if told else reason_text(action)


def recreates(action: Action) -> bool:
    """Whether a connector is created that was there before."""
    return isinstance(action, Create) and reason_code(action) == "deleted-outside"


def reason_text(action: Action) -> str:
    """The reason as a sentence; of a plan that was loaded, the file's own."""
    reason, name = action.reason, action.connector
    if reason.code is None or reason.text:
        return reason.text
    old = action.renamed_from if isinstance(action, Create) else old_name(action)
    keys = len(action.changes) if isinstance(action, ConfigAction) else 0
    match reason.code:
        case "new":
            return "new"
        case "deleted-outside":
            return "deleted outside connect"
        case "only-recorded":
            return "an earlier apply recorded it, and it is not on the cluster"
        case "renamed":
            return f"renamed from {old}"
        case "unowned":
            return "on the cluster, and no project owns it"
        case "keys-differ":
            return f"{keys} {'key differs' if keys == 1 else 'keys differ'}"
        case "state" if reason.state is None:
            return f"state: {action.asks_for}"
        case "state":
            return f"state: {reason.state} → {action.asks_for}"
        case "state-before":
            return f"it was {action.asks_for} before"
        case "state-of-old-name":
            return f"{reason.old} was {action.asks_for} before"
        case "held-by-an-apply":
            return f"an earlier apply held it stopped; it was {action.asks_for} before"
        case "held-and-now-stopped":
            return "an earlier apply held it stopped; now its spec says so"
        case "for-offsets":
            return "offsets move only while it is stopped"
        case "pin-new" | "pin-drifted":
            return _of_pin(action, reason)
        case "failed":
            return "it failed, and only a restart ends that"
        case "spec-gone":
            return "its spec is gone"
        case "spec-and-connector-gone":
            return "its spec is gone, and so is the connector"
        case "prevent-delete":
            return f"prevent_delete: {'true' if _protects(action) else 'false'}"
        case "continues":
            return f"{name} is to go on where {old} stops"
        case "carried":
            return f"{name} has the offsets of {old}"
        case "was-there":
            return "it was there before"
        case "was-not-there":
            return "it was not there before"
        case "was-only-begun":
            return "its new name was only begun before"
        case "had-this-name":
            return f"its name was {name} before"
        case "keys-were-different":
            return f"{'1 key was' if keys == 1 else f'{keys} keys were'} different before"
        case "was-protected":
            return f"it was {'' if _protects(action) else 'not '}protected against deletion before"
        case "offsets-were-others":
            return "its offsets were others before"
        case _:
            assert_never(reason.code)


def _of_pin(action: Action, reason: Reason) -> str:
    pin = action.pin if isinstance(action, PinAction) else ""
    if reason.code == "pin-drifted":
        return f"its offsets are no longer those of pin {pin}, which holds it stopped"
    if reason.to is None:
        return f"pin {pin} is new"
    moment = "was when this was planned" if reason.resolved else "is now"
    return f"pin {pin} is new, to {position_text(reason.to)} as it {moment}"


def _protects(action: Action) -> bool:
    return isinstance(action, Protect) and action.prevent_delete
