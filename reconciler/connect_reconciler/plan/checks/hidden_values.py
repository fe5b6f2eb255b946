"""Values that are hidden because the cluster's plugins could not be asked for their types. Pure.

A plan is shown without them. What would keep or write values is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connect_reconciler import actions as act
from connect_reconciler.model.config_values import Secret
from connect_reconciler.model.live import Live
from connect_reconciler.plan.context import Context
from connect_specs.diagnostics import Diagnostic, Unreachable, warning
from connect_specs.plain_text import counted

_WHY = "the plugins could not be listed"
_WHY_KEYS = "the keys of their plugins could not be listed"
HINT = "ask again; `connect plugins lock` keeps the types in plugins.lock.json"


def hidden_values(context: Context, actions: tuple[act.Action, ...]) -> Iterator[Diagnostic]:
    """How many values of the plan are hidden, and the requests that failed."""
    shown = {(action.connector, key) for action in actions for key in _secret(action)}
    untyped = context.live.untyped_keys
    hidden = [name for name, key in shown if key in untyped.get(name, {})]
    if hidden:
        what, why = hidden_sentence(len(hidden), context.live, hidden)
        yield warning("plan.values-hidden", what, why=why, hint=HINT)


def _secret(action: act.Action) -> Iterator[str]:
    """The keys of the values that the plan would show if they were not secret."""
    if isinstance(action, act.Create):
        yield from (key for key, value in action.config.items() if isinstance(value, Secret))
    if isinstance(action, act.UpdateConfig):
        for each in action.changes:
            if isinstance(each.old, Secret) or isinstance(each.new, Secret):
                yield each.key


def hidden_sentence(count: int, live: Live, names: Iterable[str]) -> tuple[str, str]:
    """What a report says of hidden values of these connectors, and why."""
    why = requests(live, names)
    what = _WHY_KEYS if "/config" in why else _WHY
    return f"{counted(count, 'value')} hidden: {what}", why


def requests(live: Live, names: Iterable[str]) -> str:
    """The requests that failed, so that types of keys of these connectors are not known."""
    found = (why for name in names for why in live.untyped_keys.get(name, {}).values())
    return "; ".join(sorted(dict.fromkeys(found)))


def ensure_typed(live: Live, names: Iterable[str], what: str) -> None:
    """Raises Unreachable if types of keys of these connectors are not known; `what` would then be
    done with values that may be secret."""
    concerned = sorted(name for name in names if live.untyped_keys.get(name))
    if concerned:
        why = requests(live, concerned)
        text = f"{what}: which values of {', '.join(concerned)} are secret is not known"
        raise Unreachable(Diagnostic("cluster.types-unknown", text, why=why, hint=HINT))
