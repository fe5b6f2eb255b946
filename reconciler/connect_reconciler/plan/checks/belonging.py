"""Do these specs belong to this ledger? They may be another environment's or another repository's,
and a ledger may have been lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.reserved import LEDGER_KEY
from connect_specs.desired import Desired, Pin
from connect_specs.diagnostics import Diagnostic


def environment_error(changes: Changes, desired: Desired, env: str | None) -> Diagnostic | None:
    """A connector without a spec may have one in the environment that it was applied with."""
    other = _other_environment(changes, desired, env)
    if other is None or changes.existence != "delete":
        return None
    return Diagnostic(
        "plan.other-environment",
        f"{changes.name} was applied with --env {other}, and has no spec {_with(env)}",
        changes.name,
        why="it would be deleted, although its spec may be there in that environment",
        hint=f"plan with --env {other}; environments on one cluster need projects of their own",
    )


def environment_warning(
    changes: Changes, desired: Desired, env: str | None
) -> Iterator[Diagnostic]:
    """A config that differs may differ only because the environment does."""
    other = _other_environment(changes, desired, env)
    if other is not None and changes.config:
        yield Diagnostic(
            "plan.other-environment",
            f"{changes.name} was applied with --env {other} before, and its config changes to that"
            f" {_with(env)}",
            changes.spec.where if changes.spec else changes.name,
        )


def pin_forgotten(changes: Changes, pin: Pin, live: Live) -> Iterator[Diagnostic]:
    """A warning where nothing tells whether the pin of a live connector was applied before."""
    connector = changes.live
    if changes.existence != "adopt" or connector is None:
        return
    why = "the ledger does not know the connector: it was never applied, or the ledger was lost"
    if LEDGER_KEY in connector.config:
        why = f"what its config says under {LEDGER_KEY} cannot be read, or is of another connector"
    elif live.rest_alone:
        why = "whoever writes the whole config takes the ledger in it away"
    yield Diagnostic(
        "plan.pin-perhaps-applied",
        f"pin {pin.id} of {changes.name} is applied once more if it was before: no ledger says",
        pin.where or changes.name,
        why=why,
        hint="take the pin out of the spec if it was applied",
    )


def _other_environment(changes: Changes, desired: Desired, env: str | None) -> str | None:
    """The environment that it was applied with, if that is another, and still is one."""
    owned = changes.owned
    if owned is None or not _ours(changes, desired) or owned.env in (None, env):
        return None
    return owned.env if owned.env in desired.environments else None


def _ours(changes: Changes, desired: Desired) -> bool:
    return changes.owned is not None and changes.owned.project == desired.project


def _with(env: str | None) -> str:
    return "without an environment" if env is None else f"with --env {env}"
