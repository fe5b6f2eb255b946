"""Checks of the state that a plan finds: applies that ended early, and connectors that failed or
report errors. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect_reconciler import actions as act
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import HalfDone, Owned
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import ConfigRedactor, config_fingerprint
from connect_reconciler.plan.diff import ConnectorDiff, Context
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import listed

_OUTCOMES = {
    True: "it took place",
    False: "it did not take place",
    None: "whether it took place cannot be told",
}
# Reasons that a warning gives at most
_REASONS = 5
# Said whatever the plan changes
UNFINISHED = "plan.unfinished-apply"


def interrupted_applies(context: Context, actions: tuple[act.Action, ...]) -> Iterator[Diagnostic]:
    """Warns of actions that applies left half done, judged by the cluster's present state."""
    yield from unfinished(context.live, context.desired.project)


def failed_connectors(context: Context, actions: tuple[act.Action, ...]) -> Iterator[Diagnostic]:
    """Warns of connectors that should run, failed, and are not restarted by the plan."""
    names = [name for name, diff in context.changes.items() if _stays_failed(diff)]
    if names:
        message = f"failed: {listed(names)}; this plan does not restart what failed"
        live = context.live.connectors
        reasons = _reasons({name: live[name].failure for name in names})
        hint = "`connect status` shows why, `connect restart --failed` restarts what failed"
        yield warning("plan.failed", message, why=reasons, hint=hint)


def running_with_errors(context: Context, actions: tuple[act.Action, ...]) -> Iterator[Diagnostic]:
    """Warns of connectors of the project that run and report an error: they may make no tasks, or
    repeat the same poll."""
    errors = {
        name: diff.live.error
        for name, diff in context.changes.items()
        if diff.spec is not None and diff.live is not None and diff.live.error
    }
    if errors:
        message = f"running with an error: {listed(list(errors))}"
        hint = "`connect status` shows all errors"
        yield warning("plan.running-with-error", message, why=_reasons(errors), hint=hint)


def _reasons(by_name: Mapping[str, str]) -> str:
    reasons = [f"{name}: {reason}" for name, reason in by_name.items() if reason]
    text = "; ".join(reasons[:_REASONS])
    if len(reasons) > _REASONS:
        text += f"; `connect status` shows {len(reasons) - _REASONS} more"
    return text


def unfinished(live: Live, project: str) -> Iterator[Diagnostic]:
    """Warns of each action that an apply was in the middle of, and of an apply without one.

    Without a journal it warns of each connector that an apply of `project` left stopped.
    """
    for apply in live.ledger.unfinished:
        label = f"apply {apply.id}" + (f" by {apply.by}" if apply.by else "")
        if not apply.steps:
            text = f"{label} is running or ended early; this plan goes on from there"
            yield warning(UNFINISHED, text)
        for step in apply.steps:
            text = f"{label} ended in the middle of `{act.verb_of(step.action)} {step.connector}`"
            text += f": {_OUTCOMES[took_place(step, live)]}"
            yield warning(UNFINISHED, text, step.connector)

    for name, owned in sorted(live.ledger.connectors.items()):
        connector = live.connectors.get(name)
        stopped = connector is not None and connector.target is TargetState.STOPPED
        recorded = live.rest_alone or owned.resuming is not None
        if recorded and stopped and owned.project == project and owned.restore_to is not None:
            yield _left_stopped(name, owned, owned.restore_to)


def _left_stopped(name: str, owned: Owned, target: TargetState) -> Diagnostic:
    text = f"{name} is stopped: an apply that stopped it did not make it {target.value} again"
    reason = ""
    if owned.resuming is not None:
        text = f"{name} is stopped: an apply ended as it made it {target.value} again, or someone"
        text += " stopped it since"
        reason = "it has the offsets that it had then, so nothing tells the one from the other"
    hint = "to keep it stopped, write state: stopped into its spec"
    return warning(UNFINISHED, text, name, reason, hint)


def _stays_failed(diff: ConnectorDiff) -> bool:
    live = diff.live
    if diff.spec is None or live is None or diff.config or diff.moves_offsets:
        return False
    return live.failed and diff.goal is TargetState.RUNNING


def took_place(step: HalfDone, live: Live) -> bool | None:
    """Returns whether the cluster carried out the action; None if nothing shows it."""
    connector, action = live.connectors.get(step.connector), act.ACTIONS.get(step.action)
    if action is None:
        return None
    if action is act.Create:
        return connector is not None
    if action.deletes:
        return connector is None
    if connector is None or step.snapshot is None:
        return None
    if action.asks_for is not None:
        if connector.target is not action.asks_for:
            return False
        # A rename stops its old name, by a name of its own, also where that is stopped already
        is_renamed = step.action != action.__name__
        was_stopped = is_renamed and step.snapshot.target is action.asks_for
        return None if was_stopped else True
    if action is act.UpdateConfig and step.snapshot.config is not None:
        key = live.ledger.fingerprint_key
        values = ConfigRedactor(step.connector, key).values(without_reserved(connector.config))
        return config_fingerprint(values, connector=step.connector, key=key) != config_fingerprint(
            step.snapshot.config, connector=step.connector, key=key
        )
    if issubclass(action, act.PinAction) and step.snapshot.offsets is not None:
        return connector.offsets != step.snapshot.offsets
    return None
