"""May a verb change this connector? The ledger says who owns it and whether it is protected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from connect_specs.diagnostics import Diagnostic, Failed, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.ledger.topic import LedgerUnreadable
    from connect_reconciler.plan.live import Owned
    from connect_specs.desired import Project

Force = Annotated[bool, typer.Option("--force", help="Also a connector that another project owns.")]


@dataclass(frozen=True, slots=True)
class Known:
    """A connector as a verb finds it. `config` None: it is not there; `owned` None: nobody owns
    it."""

    name: str
    config: Mapping[str, str] | None
    owned: Owned | None


def known(project: Project, properties: Mapping[str, str], name: str) -> Known:
    """What topics and REST say of the connector now; nothing is changed, and nobody leads for it.

    Raises LedgerUnreadable, Unreachable.
    """
    from connect_reconciler.observe.ledger import ledger_seen

    config = _config(project, properties, name)
    owned = None
    if properties:
        owned = ledger_seen(project, properties).state.connectors.get(name)
    # Of a connector that was applied to by REST alone only its config tells
    if owned is None and config is not None:
        owned = _owned_by_config(name, config)
    return Known(name, config, owned)


def ensure_ours(project: Project, properties: Mapping[str, str], name: str, *, force: bool) -> None:
    """Raises Invalid for a connector of another project, unless forced. Nothing was touched."""
    if not force:
        ensure_owner(known(project, properties, name), project)


def ensure_owner(found: Known, project: Project) -> None:
    """Raises Invalid for a connector that another project owns."""
    owned = found.owned
    if owned is None or owned.project == project.name:
        return
    what = f"it belongs to project {owned.project}, and this is project {project.name}"
    hint = f"change it from project {owned.project}, or use --force"
    raise Invalid(Diagnostic("connector.owned-by-other", what, found.name, hint=hint))


def ensure_unguarded(found: Known) -> None:
    """Raises Failed for a connector that prevent_delete protects."""
    if found.owned is not None and found.owned.prevent_delete:
        what = "it is protected against deletion"
        hint = "set prevent_delete: false in its spec and apply, then delete it"
        raise Failed(Diagnostic("delete.protected", what, found.name, hint=hint))


def _config(project: Project, properties: Mapping[str, str], name: str) -> Mapping[str, str] | None:
    from connect_reconciler.cli.clusters import cluster_at
    from connect_reconciler.observe.kafka_view import KafkaView
    from connect_runtime.kafka.clients import check_reachable
    from connect_runtime.storage import config_topic
    from connect_runtime.storage.snapshots import ConfigSnapshot

    if project.target is not None:
        with cluster_at(project, properties, name, reads=True) as cluster:
            return cluster.config(name)
    check_reachable(properties)
    records = KafkaView(properties).records(project.topics.config)
    connector = config_topic.reduce_all(ConfigSnapshot(), records).connectors.get(name)
    return None if connector is None else connector.config


def _owned_by_config(name: str, config: Mapping[str, str]) -> Owned | None:
    from connect_reconciler.ledger.config_entry import load_ledger

    def refused(error: LedgerUnreadable, _: str) -> None:
        raise error

    return load_ledger({name: config}, refused).connectors.get(name)
