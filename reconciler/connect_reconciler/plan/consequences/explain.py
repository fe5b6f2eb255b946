"""Gives every changed key its consequence and its effects: a project's rules first, then ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from connect_reconciler.model.actions import FieldChange
from connect_reconciler.model.config_values import Secret
from connect_reconciler.model.live import Live
from connect_reconciler.model.reasons import Effects, effect
from connect_reconciler.plan.consequences.connect_keys import CONNECT_RULES
from connect_reconciler.plan.consequences.connector_keys import CONNECTOR_RULES
from connect_reconciler.plan.consequences.rule import Rule, Setting
from connect_reconciler.plan.diff import ConnectorDiff
from connect_specs.desired import ConsequenceRule
from connect_specs.states import TargetState

RULES: tuple[Rule, ...] = (*CONNECT_RULES, *CONNECTOR_RULES)

# Connect restarts tasks for any change of a config, also of unknown keys
_ANY_KEY = Rule("*", "restart")


def explained(
    changes: ConnectorDiff,
    live: Live,
    worker: Mapping[str, str],
    own: Iterable[ConsequenceRule],
) -> ConnectorDiff:
    """The changed keys with what each does. The first rule that holds decides; `own` come first."""
    setting = Setting.of(changes, live, worker)
    rules = (*map(_rule, own), *RULES, _ANY_KEY)
    idle = _idle(changes)
    config = tuple(_explained(change, setting, rules, idle=idle) for change in changes.config)
    if changes.rename is None:
        return replace(changes, config=config)
    of_old = Setting.of(changes, live, worker, changes.rename.live)
    moved = tuple(_explained(change, of_old, rules, idle=idle) for change in changes.moved)
    return replace(changes, config=config, moved=moved)


def summary(changes: ConnectorDiff) -> Effects:
    """What the change of the config does as a whole: its tasks first, then each effect once."""
    return tuple(dict.fromkeys(chain(_tasks(changes), *(each.effects for each in changes.config))))


def _explained(
    change: FieldChange, setting: Setting, rules: Iterable[Rule], *, idle: bool
) -> FieldChange:
    hidden = isinstance(change.old, Secret) or isinstance(change.new, Secret)
    for rule in rules:
        # A rule that looks at values would take a hidden one for none
        applies = rule.covers(change.key, setting) and not (hidden and rule.looks_at_values)
        effects = rule.effects(setting) if applies else None
        if effects is not None:
            nothing = idle and rule.consequence == "restart"
            return replace(
                change, consequence="none" if nothing else rule.consequence, effects=effects
            )
    return change


def _rule(own: ConsequenceRule) -> Rule:
    says = tuple(effect("text", text=line) for line in own.says.splitlines() if line)
    return Rule(own.key, own.consequence, says, own.kind, own.connector_class)


def _idle(changes: ConnectorDiff) -> bool:
    """Whether no task runs when the config is written, so that none restarts."""
    stopped = changes.live is None or changes.live.target is TargetState.STOPPED
    return stopped or changes.goal is not TargetState.RUNNING


def _tasks(changes: ConnectorDiff) -> Effects:
    if changes.live is None or changes.live.target is TargetState.STOPPED:
        return (effect("counts-later-stopped"),)
    if changes.pin is not None or changes.goal is TargetState.STOPPED:
        return ()
    if changes.goal is TargetState.PAUSED:
        return (effect("counts-later-paused"),)
    return (effect("tasks-restart"),)
