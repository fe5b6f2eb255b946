"""Is a plan stale on the cluster as it is now? Pure.

The same preconditions judge the live state before the first action, the state that the plan
predicts before each later one, and what an apply reads just then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler.actions import Action, UpdateConfig
from connect_reconciler.actions.connector_state import States, changed, state_of
from connect_reconciler.actions.plan import Plan, grouped
from connect_reconciler.actions.preconditions import Exists, OfConnector, check
from connect_reconciler.model.config_values import Value
from connect_reconciler.model.live import Live
from connect_reconciler.model.secrets import key_id
from connect_specs.diagnostics import Diagnostic


def states_before(actions: Iterable[Action], live: Live, *, project: str) -> States:
    """Returns the connectors of a group of actions as they were observed."""
    names = sorted(frozenset[str]().union(*(action.names for action in actions)))
    return {name: state_of(name, live, project=project) for name in names}


def unmet(action: Action, states: States) -> tuple[Diagnostic, ...]:
    """Returns why preconditions of an action do not hold in these states."""
    problems = (check(condition, states, action.connector) for condition in action.requires)
    return tuple(problem for problem in problems if problem is not None)


def unmet_configs(action: Action, states: States) -> Iterator[Diagnostic]:
    """Yields problems with the configs that an action relies on, of connectors that are there."""
    for precondition in action.requires:
        name, condition = action.connector, precondition
        if isinstance(precondition, OfConnector):
            name, condition = precondition.connector, precondition.condition
        state = states.get(name)
        if not isinstance(condition, Exists) or state is None or state.config is None:
            continue
        problem = check(condition, states, name)
        if problem is not None:
            yield problem


def check_plan(plan: Plan, live: Live) -> tuple[Diagnostic, ...]:
    """Returns why the plan is stale on this cluster; nothing if all that it relies on holds.

    Each precondition is checked where its action comes, on what the plan predicts from `live`.
    """
    if plan.cluster_id != live.cluster_id:
        text = f"the plan is for the Kafka cluster {plan.cluster_id}, and this is {live.cluster_id}"
        return (Diagnostic("stale.cluster", text),)
    if plan.key_id != key_id(live.ledger.fingerprint_key):
        text = "the plan's fingerprints were made with another key"
        if not plan.key_id:
            text = "the plan was made when the project had no key for fingerprints of secrets yet"
        hint = "make the plan again, with the same CONNECT_FINGERPRINT_KEY if you set one"
        return (Diagnostic("stale.key", text, hint=hint),)
    problems: list[Diagnostic] = []
    for actions in grouped(plan):
        states = states_before(actions, live, project=plan.project)
        states = changed(states, actions[0].group, relied_on=_config_before(actions))
        for action in actions:
            broken = unmet(action, states)
            problems.extend(broken)
            if broken:
                # Whatever follows relies on this action, and would only repeat its problem
                break
            states = action.predict(states)
    return tuple(problems)


def _config_before(actions: Iterable[Action]) -> Mapping[str, Value] | None:
    """Returns the config that a connector has before these actions, if one of them changes it."""
    for action in actions:
        if isinstance(action, UpdateConfig):
            replaced = {change.key: change.old for change in action.changes}
            config = {**action.config, **replaced}
            return {key: value for key, value in config.items() if value is not None}
    return None
