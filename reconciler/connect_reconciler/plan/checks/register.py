"""The register of checks: what makes a plan, or a connector's part of it, impossible or doubtful.

To add a check, write a function that yields diagnostics, and add its name to one of the lists here.
Diagnostics say themselves whether they are errors or warnings, and what an error blocks. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from connect_reconciler.actions import Action
from connect_reconciler.plan.checks import (
    groups,
    hidden_values,
    ownership,
    pins,
    renames,
    unfinished,
    unsupported,
)
from connect_reconciler.plan.diff import ConnectorDiff, Context
from connect_specs.diagnostics import Diagnostic

PlanCheck: TypeAlias = Callable[[Context, tuple[Action, ...]], Iterator[Diagnostic]]
ConnectorCheck: TypeAlias = Callable[[ConnectorDiff, Context], Iterator[Diagnostic]]

# Run once, with the actions of the plan. Diagnostics are shown in this order.
PLAN_CHECKS: Final[tuple[PlanCheck, ...]] = (
    unsupported.by_target,
    unsupported.ledger_not_compacted,
    unsupported.masked_values,
    hidden_values.hidden_values,
    ownership.environment_changed,
    ownership.no_specs_left,
    ownership.too_many_deletes,
    unfinished.interrupted_applies,
    unfinished.failed_connectors,
    unfinished.running_with_errors,
)
# Run for each connector that differs or may differ. If an error blocks the connector, checks after
# it are not run, and nothing else is reported of the connector.
CONNECTOR_CHECKS: Final[tuple[ConnectorCheck, ...]] = (
    ownership.owned_by_other,
    ownership.owner_unseen,
    ownership.protected,
    unsupported.name_not_addressable,
    ownership.other_environment,
    renames.not_possible,
    renames.conflicting_group,
    groups.lease_group,
    groups.carried_offsets_in_use,
    renames.nothing_to_rename,
    renames.reversed_rename,
    groups.shared_records,
    groups.read_by_strangers,
    pins.reused_id,
    pins.unknown_kind,
    pins.wrong_offsets,
    pins.too_large,
    pins.ledger_lost,
    groups.pinned_offsets_in_use,
)
# Run for each connector with a pin to apply, unless an error blocks its offsets.
PIN_CHECKS: Final[tuple[ConnectorCheck, ...]] = (
    pins.perhaps_applied,
    pins.other_type,
    pins.without_effect,
    groups.moves_of_others,
)


def check_whole(context: Context, actions: tuple[Action, ...]) -> tuple[Diagnostic, ...]:
    """Returns the diagnostics of the plan as a whole."""
    return tuple(diagnostic for check in PLAN_CHECKS for diagnostic in check(context, actions))


def check_connectors(context: Context) -> tuple[tuple[ConnectorDiff, ...], list[Diagnostic]]:
    """Runs the checks of each connector, and of its pin unless an error blocks it. Returns the
    diffs that no error blocks, without pins that one blocks, and all diagnostics."""
    allowed: list[ConnectorDiff] = []
    diagnostics: list[Diagnostic] = []
    for diff in context.changes.values():
        problems = _until_blocked(diff, context)
        diagnostics += problems
        if _blocks(problems, "connector"):
            continue
        if _blocks(problems, "offsets"):
            diff = replace(diff, pin=None)
        if diff.pin is not None:
            diagnostics += [problem for check in PIN_CHECKS for problem in check(diff, context)]
        allowed.append(diff)
    return tuple(allowed), diagnostics


def _until_blocked(diff: ConnectorDiff, context: Context) -> list[Diagnostic]:
    diagnostics: list[Diagnostic] = []
    for check in CONNECTOR_CHECKS:
        problems = list(check(diff, context))
        if _blocks(problems, "connector"):
            return problems
        diagnostics += problems
    return diagnostics


def _blocks(problems: Iterable[Diagnostic], blocked: str) -> bool:
    return any(problem.severity == "error" and problem.blocks == blocked for problem in problems)
