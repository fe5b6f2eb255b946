"""The order of connectors in a plan, and the preconditions of their actions.

R6 stops come before starts: a replication slot, server id or group can have one owner only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from connect_reconciler import actions as act
from connect_reconciler.actions.connector_state import States
from connect_reconciler.plan.action_builder import ActionBuilder
from connect_reconciler.plan.context import Context
from connect_reconciler.plan.diff import ConnectorDiff
from connect_reconciler.plan.rename_builder import RenameBuilder
from connect_reconciler.plan.staleness import states_before
from connect_specs.desired import content_hash


def ordered(diffs: Iterable[ConnectorDiff], context: Context) -> tuple[act.Action, ...]:
    """Returns the actions of all connectors, grouped by connector, with their preconditions."""
    groups = [(diff.name, _with_preconditions(diff, context)) for diff in diffs]
    groups.sort(key=lambda group: (rank(group[1]), group[0]))
    return tuple(action for _, actions in groups for action in actions)


def rank(actions: tuple[act.Action, ...]) -> int:
    """Returns the place of a connector's actions by R6, within which names decide, and an apply
    takes several connectors at a time.

    Deleting first loses nothing: offsets outlive a connector. A rename ends in a delete, and is
    none.
    """
    if any(isinstance(action, act.Delete | act.Forget) and not action.holds for action in actions):
        return 0
    if actions and isinstance(actions[0], act.Create):
        return 3
    if any(isinstance(action, act.Stop) and not action.holds for action in actions):
        return 1
    return 1 if any(isinstance(action, act.Pause) for action in actions) else 2


def _with_preconditions(diff: ConnectorDiff, context: Context) -> tuple[act.Action, ...]:
    builder = ActionBuilder(diff, context)
    if diff.rename is not None:
        builder = RenameBuilder(diff, context, diff.rename)
    steps = tuple(builder.steps())
    states = _states_before(steps, diff, context)
    actions: list[act.Action] = []
    for step in steps:
        action = replace(step, requires=tuple(step.preconditions(states)))
        actions.append(action)
        states = action.predict(states)
    return tuple(actions)


def _states_before(steps: tuple[act.Action, ...], diff: ConnectorDiff, context: Context) -> States:
    """Returns the group's connectors as they were observed, with the parts of the spec that
    preconditions name."""
    pin = diff.spec.pin if diff.spec else None
    observed = states_before(steps, context.live, project=context.desired.project)
    return {
        name: replace(
            state,
            sensitive=diff.redactor.named,
            spec_pin=None if pin is None else (pin.id, content_hash(pin)),
            renamed_from=None if diff.rename is None else diff.rename.old,
        )
        for name, state in observed.items()
    }
