"""What is not as it should be already: applies that ended early, and connectors that failed or
report errors. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect_reconciler import actions as act
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import HalfDone, Owned
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import ConfigRedactor, config_fingerprint
from connect_reconciler.plan.context import Context
from connect_reconciler.plan.diff import ConnectorDiff
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import listed
from connect_specs.states import TargetState

_TOLD = {
    True: "it took place",
    False: "it did not take place",
    None: "whether it took place cannot be told",
}
# How many reasons a warning gives
_REASONS = 5
# Said whatever the plan changes
UNFINISHED = "plan.unfinished-apply"


def interrupted_applies(context: Context, actions: tuple[act.Action, ...]) -> Iterator[Diagnostic]:
    """What applies that ended early left half done, judged by what is there now."""
    yield from unfinished(context.live, context.desired.project)


def failed_connectors(context: Context, actions: tuple[act.Action, ...]) -> Iterator[Diagnostic]:
    """Connectors that should run, failed, and are not restarted by the plan."""
    names = [name for name, changes in context.changes.items() if _stays_failed(changes)]
    if names:
        what = f"failed: {listed(names)}; this plan does not restart what failed"
        live = context.live.connectors
        why = _reasons({name: live[name].failure for name in names})
        hint = "`connect status` shows why, `connect restart --failed` restarts what failed"
        yield warning("plan.failed", what, why=why, hint=hint)


def running_with_errors(context: Context, actions: tuple[act.Action, ...]) -> Iterator[Diagnostic]:
    """Connectors of the project that run and report an error: they may make no tasks, or repeat the
    same poll."""
    errors = {
        name: changes.live.error
        for name, changes in context.changes.items()
        if changes.spec is not None and changes.live is not None and changes.live.error
    }
    if errors:
        what = f"running with an error: {listed(list(errors))}"
        hint = "`connect status` shows all errors"
        yield warning("plan.running-with-error", what, why=_reasons(errors), hint=hint)


def _reasons(by_name: Mapping[str, str]) -> str:
    reasons = [f"{name}: {reason}" for name, reason in by_name.items() if reason]
    why = "; ".join(reasons[:_REASONS])
    if len(reasons) > _REASONS:
        why += f"; `connect status` shows {len(reasons) - _REASONS} more"
    return why


def unfinished(live: Live, project: str) -> Iterator[Diagnostic]:
    """A line for each action that an apply was in the middle of; one for an apply without.

    Where no journal is kept, a line for each connector that an apply of `project` left stopped.
    """
    for found in live.ledger.unfinished:
        who = f"apply {found.id}" + (f" by {found.by}" if found.by else "")
        if not found.steps:
            what = f"{who} is running or ended early; this plan goes on from there"
            yield warning(UNFINISHED, what)
        for step in found.steps:
            what = f"{who} ended in the middle of `{act.verb_of(step.action)} {step.connector}`"
            what += f": {_TOLD[took_place(step, live)]}"
            yield warning(UNFINISHED, what, step.connector)

    for name, owned in sorted(live.ledger.connectors.items()):
        connector = live.connectors.get(name)
        stopped = connector is not None and connector.target is TargetState.STOPPED
        told = live.rest_alone or owned.resuming is not None
        if told and stopped and owned.project == project and owned.restore_to is not None:
            yield _left_stopped(name, owned, owned.restore_to)


def _left_stopped(name: str, owned: Owned, before: TargetState) -> Diagnostic:
    what = f"{name} is stopped: an apply that stopped it did not make it {before.value} again"
    why = ""
    if owned.resuming is not None:
        what = f"{name} is stopped: an apply ended as it made it {before.value} again, or someone"
        what += " stopped it since"
        why = "it has the offsets that it had then, so nothing tells the one from the other"
    hint = "to keep it stopped, write state: stopped into its spec"
    return warning(UNFINISHED, what, name, why, hint)


def _stays_failed(changes: ConnectorDiff) -> bool:
    live = changes.live
    if changes.spec is None or live is None or changes.config or changes.moves_offsets:
        return False
    return live.failed and changes.goal is TargetState.RUNNING


def took_place(step: HalfDone, live: Live) -> bool | None:
    """Whether the cluster did what was asked; None where nothing tells."""
    connector, action = live.connectors.get(step.connector), act.action_named(step.action)
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
        # A rename stops its old name also where that is stopped already
        was_stopped = action is act.Stop and step.snapshot.target is action.asks_for
        return None if was_stopped else True
    if action is act.UpdateConfig and step.snapshot.config is not None:
        key = live.ledger.fingerprint_key
        now = ConfigRedactor(step.connector, key).values(without_reserved(connector.config))
        return config_fingerprint(now, connector=step.connector, key=key) != config_fingerprint(
            step.snapshot.config, connector=step.connector, key=key
        )
    if issubclass(action, act.PinAction) and step.snapshot.offsets is not None:
        return connector.offsets != step.snapshot.offsets
    return None
