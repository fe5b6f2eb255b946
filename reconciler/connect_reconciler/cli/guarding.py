"""Is a connector protected against deletion? The ledger says so, wherever it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connect_specs.diagnostics import Diagnostic, Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.cluster.port import Cluster
    from connect_reconciler.plan.live import Owned
    from connect_specs.desired import Project


def ensure_unguarded(
    project: Project, properties: Mapping[str, str], cluster: Cluster, name: str
) -> None:
    """Raises Failed for a connector that prevent_delete protects. Nothing was touched."""
    owned = _owned(project, properties, cluster, name)
    if owned is not None and owned.prevent_delete:
        what = "it is protected against deletion"
        hint = "set prevent_delete: false in its spec and apply, then delete it"
        raise Failed(Diagnostic("delete.protected", what, name, hint=hint))


def _owned(
    project: Project, properties: Mapping[str, str], cluster: Cluster, name: str
) -> Owned | None:
    from connect_reconciler.ledger.config_entry import load_entry
    from connect_reconciler.observe.ledger import ledger_seen
    from connect_reconciler.plan.reserved import LEDGER_KEY

    if properties:
        owned = ledger_seen(project, properties).state.connectors.get(name)
        if owned is not None:
            return owned
    # Of a connector that was applied to by REST alone only its config tells
    entry = (cluster.config(name) or {}).get(LEDGER_KEY)
    return None if entry is None else load_entry(name, entry).owned
