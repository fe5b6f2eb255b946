"""Gives every changed key its consequence and its effects: a project's rules first, then ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from connect_reconciler.actions import FieldChange
from connect_reconciler.model.config_values import Secret
from connect_reconciler.model.live import Live
from connect_reconciler.plan.consequences.connect_keys import CONNECT_RULES
from connect_reconciler.plan.consequences.connector_keys import CONNECTOR_RULES
from connect_reconciler.plan.consequences.rule import Rule, RuleContext
from connect_reconciler.plan.diff import ConnectorDiff
from connect_specs.desired import ConsequenceRule
from connect_specs.states import TargetState

RULES: tuple[Rule, ...] = (*CONNECT_RULES, *CONNECTOR_RULES)

# Connect restarts tasks for any change of a config, also of unknown keys
_ANY_KEY = Rule("*", "restart")


def explained(
    diff: ConnectorDiff,
    live: Live,
    worker: Mapping[str, str],
    project_rules: Iterable[ConsequenceRule],
) -> ConnectorDiff:
    """Returns the diff with the consequence and the effects of each changed key. The first rule
    that holds decides; `project_rules` come first."""
    context = RuleContext.of(diff, live, worker)
    rules = (*map(_rule, project_rules), *RULES, _ANY_KEY)
    idle = _idle(diff)
    config = tuple(_explained(change, context, rules, idle=idle) for change in diff.config)
    if diff.rename is None:
        return replace(diff, config=config)
    of_rename = RuleContext.of(diff, live, worker, diff.rename.live)
    moved = tuple(_explained(change, of_rename, rules, idle=idle) for change in diff.moved)
    return replace(diff, config=config, moved=moved)


def summary(diff: ConnectorDiff) -> tuple[str, ...]:
    """Returns the effects of the config as a whole: its tasks first, then each effect once."""
    return tuple(dict.fromkeys(chain(_tasks(diff), *(change.effects for change in diff.config))))


def _explained(
    change: FieldChange, context: RuleContext, rules: Iterable[Rule], *, idle: bool
) -> FieldChange:
    hidden = isinstance(change.old, Secret) or isinstance(change.new, Secret)
    for rule in rules:
        # A rule that reads values would take a masked one for the value
        applies = rule.covers(change.key, context) and not (hidden and rule.reads_values)
        effects = rule.effects(context) if applies else None
        if effects is not None:
            nothing = idle and rule.consequence == "restart"
            return replace(
                change, consequence="none" if nothing else rule.consequence, effects=effects
            )
    return change


def _rule(rule: ConsequenceRule) -> Rule:
    effects = tuple(filter(None, rule.says.splitlines()))
    return Rule(rule.key, rule.consequence, effects, rule.kind, rule.connector_class)


def _idle(diff: ConnectorDiff) -> bool:
    """Returns whether no task runs when the config is written, so that none restarts."""
    stopped = diff.live is None or diff.live.target is TargetState.STOPPED
    return stopped or diff.goal is not TargetState.RUNNING


def _tasks(diff: ConnectorDiff) -> tuple[str, ...]:
    if diff.live is None or diff.live.target is TargetState.STOPPED:
        return ("counts when it resumes: no tasks run now",)
    if diff.pin is not None or diff.goal is TargetState.STOPPED:
        return ()
    if diff.goal is TargetState.PAUSED:
        return ("counts when it resumes: its tasks are paused",)
    return ("tasks restart",)
