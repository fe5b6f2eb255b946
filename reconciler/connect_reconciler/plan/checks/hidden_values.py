"""Values that are hidden because the cluster's plugins could not be asked for their types. Pure.

A plan is shown without them. Commands that would keep or write values are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connect_reconciler import actions as act
from connect_reconciler.model.config_values import Secret
from connect_reconciler.model.live import Live
from connect_reconciler.plan.diff import Context
from connect_specs.diagnostics import Diagnostic, Unreachable, warning
from connect_specs.plain_text import counted

_WHY = "the plugins could not be listed"
_WHY_KEYS = "the keys of their plugins could not be listed"
HINT = "ask again; `connect plugins lock` keeps the types in plugins.lock.json"


def hidden_values(context: Context, actions: tuple[act.Action, ...]) -> Iterator[Diagnostic]:
    """Warns of the number of values that the plan hides, with the requests that failed."""
    pairs = {(action.connector, key) for action in actions for key in _secret(action)}
    untyped = context.live.untyped_keys
    hidden = [name for name, key in pairs if key in untyped.get(name, {})]
    if hidden:
        message, reason = hidden_sentence(len(hidden), context.live, hidden)
        yield warning("plan.values-hidden", message, why=reason, hint=HINT)


def _secret(action: act.Action) -> Iterator[str]:
    """Returns the keys of the values that the plan would show if they were not secret."""
    if isinstance(action, act.Create):
        yield from (key for key, value in action.config.items() if isinstance(value, Secret))
    if isinstance(action, act.UpdateConfig):
        for change in action.changes:
            if isinstance(change.old, Secret) or isinstance(change.new, Secret):
                yield change.key


def hidden_sentence(count: int, live: Live, names: Iterable[str]) -> tuple[str, str]:
    """Returns the sentence of a report for hidden values of these connectors, and its reason."""
    reason = requests(live, names)
    cause = _WHY_KEYS if "/config" in reason else _WHY
    return f"{counted(count, 'value')} hidden: {cause}", reason


def requests(live: Live, names: Iterable[str]) -> str:
    """Returns the requests that failed, so that types of keys of these connectors are not known."""
    failures = (request for name in names for request in live.untyped_keys.get(name, {}).values())
    return "; ".join(sorted(dict.fromkeys(failures)))


def ensure_typed(live: Live, names: Iterable[str], refusal: str) -> None:
    """Raises Unreachable if types of keys of these connectors are not known; `refusal`, the error's
    first words, refuses to do something with values that may be secret."""
    concerned = sorted(name for name in names if live.untyped_keys.get(name))
    if concerned:
        reason = requests(live, concerned)
        text = f"{refusal}: which values of {', '.join(concerned)} are secret is not known"
        raise Unreachable(Diagnostic("cluster.types-unknown", text, why=reason, hint=HINT))
