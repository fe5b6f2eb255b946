"""Agreed plans that are made again: of values, and from a backend whose cluster is a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import cast

from connect_reconciler.actions.plan import Plan
from connect_reconciler.backend.backend import Backend
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.remaining import remaining, scope_of
from connect_reconciler.policies.policy import Policy
from connect_reconciler.workflow.planning import FromSpecs
from connect_specs.desired import Desired, Project
from connect_specs.plugin_definitions import Definitions
from support.applying import INSTALLED, PROJECT

_PROJECT = replace(PROJECT, kafka={"bootstrap.servers": "kafka:9092"})


def planned_again(
    saved: Plan, desired: Desired, live: Live, worker: Mapping[str, str] | None = None
) -> Plan:
    """The plan for a saved plan's connectors. Raises Stale unless it is the saved plan."""
    if not saved.actions:
        return replace(saved, warnings=())
    scope = scope_of(saved, desired, live)
    plan = make_plan(
        desired, live, group_id=saved.group_id, worker=worker, scope=scope, env=saved.env
    )
    return remaining(saved, plan.untargeted(), live)


@dataclass(frozen=True)
class _Backend:
    """Stands for a cluster on which nothing answers REST."""

    observe: Callable[[Desired], Live]
    ledger: Callable[[], LedgerSnapshot]
    project: Project = _PROJECT

    def rest(self) -> None:
        return None

    def ensure_kafka(self) -> None:
        """It is there."""

    def plugins(self) -> AbstractContextManager[Definitions]:
        return nullcontext(INSTALLED)


def backend_of(observe: Callable[[Desired], Live], ledger: Callable[[], LedgerSnapshot]) -> Backend:
    """A backend of a cluster that is as `observe` says, with this ledger."""
    return cast(Backend, _Backend(observe, ledger))


def source_of(
    desired: Desired,
    observe: Callable[[Desired], Live],
    ledger: Callable[[], LedgerSnapshot] = LedgerSnapshot,
    *,
    saved: Plan | None = None,
    policies: tuple[Policy, ...] = (),
) -> FromSpecs:
    """The source of plans for these specs, on a cluster that is as `observe` says."""
    backend = backend_of(observe, ledger)
    return FromSpecs(backend=backend, policies=policies, saved=saved, desired=desired)
