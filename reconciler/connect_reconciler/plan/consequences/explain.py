"""Consequence and effects of every changed key: by rules, a project's first, and by changes that
were made outside connect since the last apply. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

import yaml

from connect_reconciler.actions import FieldChange
from connect_reconciler.model.config_values import Secret, without_reserved
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import ConfigRedactor, is_mask
from connect_reconciler.plan.consequences import computed
from connect_reconciler.plan.consequences.rule import Rule, RuleContext
from connect_reconciler.plan.diff import ConnectorDiff
from connect_specs.desired import ConsequenceRule, TargetState
from connect_specs.plain_text import time_text

_FILE = Path(__file__).with_name("rules.yaml")


def _rules() -> Iterator[Rule]:
    """Yields the rules for Connect's own keys and those of well-known connectors."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for row in yaml.load(_FILE.read_text(), loader):
        match, says = row["match"], row.get("says", "")
        effect = tuple(says.splitlines()) if isinstance(says, str) else says
        yield Rule(
            match["key"],
            getattr(computed, row["computed"]) if "computed" in row else effect,
            row.get("consequence", "restart"),
            match.get("kind"),
            match.get("class", "*"),
            row.get("default", ""),
        )


RULES: tuple[Rule, ...] = tuple(_rules())

# Connect restarts tasks for any change of a config, also of unknown keys
_ANY_KEY = Rule("*")


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
    renamed = tuple(_explained(change, of_rename, rules, idle=idle) for change in diff.moved)
    return replace(diff, config=config, moved=renamed)


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
    return Rule(rule.key, effects, rule.consequence, rule.kind, rule.connector_class)


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


# --- changes made outside connect: unmarked, a manual change that a plan reverts looks as if the
# specs had changed ---


def outside_marked(diff: ConnectorDiff, live: Live, project: str) -> ConnectorDiff:
    """Returns the diff with an effect at each key that was changed outside since the last apply."""
    owned, connector = diff.owned, diff.live
    if owned is None or connector is None or owned.project != project:
        return diff
    config = without_reserved(connector.config)
    changes = []
    for change in diff.config:
        key = change.key
        if changed_outside(key, owned, config, diff.redactor):
            desired = (diff.written or {}).get(key)
            reverts = diff.redactor.is_recorded(key, desired, owned.config.get(key))
            mark = _mark(live.keys_since.get((diff.name, key)), reverts=reverts)
            change = replace(change, effects=(mark, *change.effects))
        changes.append(change)
    return replace(diff, config=tuple(changes))


def outside_state(diff: ConnectorDiff, live: Live) -> tuple[str, ...]:
    """Returns the same effect of a target state, for the action that sets another one."""
    owned, connector = diff.owned, diff.live
    if owned is None or connector is None or owned.state is None or owned.restore_to is not None:
        return ()
    if connector.target in (owned.state, diff.goal):
        return ()
    since = live.targets_since.get(diff.name)
    return (_mark(since, reverts=owned.state is diff.goal),)


def changed_outside(
    key: str, owned: Owned, config: Mapping[str, str], redactor: ConfigRedactor
) -> bool:
    """Returns whether the key's value in the cluster is not the one that was applied last."""
    value = config.get(key)
    if not owned.config or (value is not None and is_mask(value)):
        # The applied value, or the present one, is unknown
        return False
    return not redactor.is_recorded(key, value, owned.config.get(key))


def _mark(since_ms: int | None, *, reverts: bool) -> str:
    since = "" if since_ms is None else f" since {time_text(since_ms)}"
    if reverts:
        return f"changed outside{since}, reverted by this plan"
    return f"changed outside{since}, and in the specs: overwritten by this plan"
