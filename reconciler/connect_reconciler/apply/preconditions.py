"""What must hold before an apply's first action: a fresh plan, its secrets, and the rights to move
offsets. Pure.

A plan holds fingerprints only, so the configs that an apply writes are read again from the specs. A
value that differs from the one that was planned makes the plan stale, before anything is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler import actions as act
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.config_values import Secret, without_reserved
from connect_reconciler.model.live import Live
from connect_reconciler.model.offsets import sink_partition
from connect_reconciler.model.secrets import fingerprint, reveal
from connect_reconciler.plan.diff import base_config, written_config
from connect_reconciler.plan.staleness import check_plan
from connect_runtime.kafka.client_checks import DELETE, READ, Rights
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, Invalid, Stale
from connect_specs.names import sink_group


def ensure_fresh(plan: Plan, desired: Desired, project: Project, live: Live) -> None:
    """Raises Invalid for a plan with errors, Stale for one that is out of date."""
    if plan.errors:
        raise Invalid(*plan.errors)
    if (plan.project, plan.group_id) != (project.name, project.group_id):
        what = f"the plan is for project {plan.project} on {plan.group_id}"
        raise Stale(Diagnostic("stale.project", what, f"{project.name} on {project.group_id}"))
    if plan.env != project.env:
        what = f"the plan is for {_environment(plan.env)}"
        hint = "apply it without --env" if plan.env is None else f"apply it with --env {plan.env}"
        raise Stale(Diagnostic("stale.environment", what, _environment(project.env), hint=hint))
    problems = check_plan(plan, live)
    if problems:
        raise Stale(*problems)
    reveal_configs(plan, desired, live)


def reveal_configs(plan: Plan, desired: Desired, live: Live) -> dict[str, dict[str, str]]:
    """The whole config of each connector whose config the plan writes; a plan writes each config
    once. Raises Stale with all problems."""
    found: dict[str, dict[str, str]] = {}
    problems: list[Diagnostic] = []
    for action in plan.actions:
        if not isinstance(action, act.ConfigAction):
            continue
        name = action.connector
        key = live.ledger.fingerprint_key
        texts = _texts(action, desired, live, key)
        try:
            found[name] = reveal(action.config, texts, connector=name, key=key)
        except Stale as error:
            problems.extend(error.diagnostics)
    if problems:
        raise Stale(*problems)
    return found


def rights_to_move(
    plan: Plan, desired: Desired, live: Live, project: Project
) -> tuple[Rights, Rights]:
    """The rights on topics and on groups that the plan needs where this process moves offsets.

    Kafka is asked before the first action: a sink whose offsets cannot be moved would be left
    stopped. Only of the worker's cluster: for sinks with a login of their own Kafka decides later.
    """
    topics: dict[str, tuple[str, ...]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for action in plan.actions:
        if isinstance(action, act.Delete):
            # An apply that was killed may have deleted it before it could record that
            old = live.connectors.get(action.connector)
            elsewhere = old is not None and _has_own_login(old.config)
            if old is not None and action.reset_offsets and old.kind == "sink" and not elsewhere:
                groups[sink_group(old.name, old.config, project.worker)] = (DELETE,)
            continue
        if not isinstance(action, act.OffsetsAction):
            continue
        named = set(_topics(action.moves))
        if not named:
            continue
        config = desired.connectors[action.connector].config
        if _has_own_login(config):
            continue
        group = sink_group(action.connector, config, project.worker)
        if isinstance(action, act.ResetOffsets):
            groups[group] = (DELETE,)
            continue
        topics |= dict.fromkeys(named, (READ,))
        forgets = any(move.entry.offset is None for move in action.moves)
        groups[group] = (READ, DELETE) if forgets else (READ,)
    return topics, groups


def _environment(env: str | None) -> str:
    return "no environment" if env is None else f"environment {env}"


def _texts(
    action: act.ConfigAction, desired: Desired, live: Live, key: bytes | None
) -> Mapping[str, str]:
    """The spec's values. A rollback plan may keep a secret that only the cluster has now."""
    name = action.connector
    spec, connector = desired.connectors.get(name), live.connectors.get(name)
    stored = {} if connector is None else without_reserved(connector.config)
    if spec is None:
        return stored
    kept = {
        config_key: stored[config_key]
        for config_key, value in action.config.items()
        if isinstance(value, Secret)
        and value.fingerprint
        and config_key in stored
        and fingerprint(key, name, config_key, stored[config_key]) == value.fingerprint
    }
    return {**written_config(spec, base_config(spec, live)), **kept}


def _has_own_login(config: Mapping[str, str]) -> bool:
    return ConnectorClients("", "", {}, "", config, "sink").own_login


def _topics(moves: Iterable[act.OffsetMove]) -> Iterator[str]:
    for move in moves:
        at = sink_partition(move.entry.partition)
        if at is not None:
            yield at[0]
