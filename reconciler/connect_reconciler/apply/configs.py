"""The configs that an apply writes, with their secrets read again from the specs. Pure.

A plan holds fingerprints only. A value that is not the one that the plan was made with makes the
plan stale, before anything is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_reconciler.plan.actions import Create, UpdateConfig
from connect_reconciler.plan.diff import managed_state, written_config
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.renames.rename import base_config
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.sensitive import Veil, fingerprint, reveal
from connect_reconciler.plan.values import Secret
from connect_specs.desired import Desired
from connect_specs.diagnostics import Diagnostic, Stale
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class SpecPart:
    """What the ledger keeps of a spec besides its config; of none, for a connector without."""

    state: TargetState | None = None
    prevent_delete: bool = False


def spec_part(desired: Desired, name: str) -> SpecPart:
    """The part of the connector's spec, if it has one."""
    spec = desired.connectors.get(name)
    return SpecPart() if spec is None else SpecPart(managed_state(spec), spec.prevent_delete)


def reveal_configs(plan: Plan, desired: Desired, live: Live) -> dict[str, dict[str, str]]:
    """The whole config by connector, for each that the plan writes. Raises Stale with all problems.

    By connector, because a plan writes each config once.
    """
    found: dict[str, dict[str, str]] = {}
    problems: list[Diagnostic] = []
    for action in plan.actions:
        if not isinstance(action, Create | UpdateConfig):
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


def cover_of(desired: Desired, live: Live, name: str, key: bytes | None) -> Veil:
    """What covers the connector's secrets in the ledger and in every text; under its old name, too,
    what the spec that renames it calls sensitive."""
    named = live.password_keys.get(name, frozenset())
    texts: tuple[str, ...] = ()
    for spec in desired.connectors.values():
        if name in (spec.name, spec.renamed_from):
            named |= frozenset(spec.sensitive) | live.password_keys.get(spec.name, frozenset())
            texts += spec.secrets
    return Veil(name, key, named, texts)


def _texts(
    action: Create | UpdateConfig, desired: Desired, live: Live, key: bytes | None
) -> Mapping[str, str]:
    """The spec's values. A plan that leads back may keep a secret that only the cluster has now."""
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
