"""Which project owns a connector, and may a verb change or delete it? Found without a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.backend.backend import Backend
    from connect_reconciler.ledger.topic import LedgerUnreadable
    from connect_reconciler.model.ledger import Owned
    from connect_specs.desired import Project
    from connect_specs.states import TargetState


# Owners are also found in configs and specs, so Kafka is not waited for long
_KAFKA_S = 3.0


@dataclass(frozen=True, slots=True)
class Owners:
    """The project that owns each connector, and the target state of each connector in the specs.

    `specs` is None if they cannot be read. `unread` is why the ledger could not be read.
    """

    project: str
    by_name: Mapping[str, str]
    specs: Mapping[str, TargetState] | None
    unread: str = ""

    def holds(self, name: str) -> bool:
        """Whether the project owns the connector or has a spec for it; true if that is unknown."""
        return self.specs is None or name in self.specs or self.owns(name)

    def owns(self, name: str) -> bool:
        """Whether an apply recorded the connector as this project's."""
        return self.by_name.get(name) == self.project


def owners_of(backend: Backend, configs: Mapping[str, Mapping[str, str]]) -> Owners:
    """From the ledger, the configs and the specs, as far as they can be read."""
    from connect_reconciler.ledger.config_entry import with_configs
    from connect_reconciler.model.ledger import LedgerState

    ledger, unread = LedgerState(), ""
    try:
        # A runtime's statuses came from there
        if not backend.project.uses_runtime:
            backend.ensure_kafka(_KAFKA_S)
        ledger = backend.ledger().state
    except ConnectError as error:
        unread = str(error)
    owned = with_configs(ledger, configs).connectors
    by_name = {name: each.project for name, each in owned.items()}
    project = backend.project
    return Owners(project.name, by_name, _asked_for(project), unread)


def _asked_for(project: Project) -> Mapping[str, TargetState] | None:
    from connect_specs.loader import load_specs
    from connect_specs.states import TargetState

    try:
        specs = load_specs(project).connectors
    except ConnectError:
        return None
    return {name: each.state or TargetState.RUNNING for name, each in specs.items()}


Force = Annotated[
    bool, typer.Option("--force", help="Also change a connector that another project owns.")
]


@dataclass(frozen=True, slots=True)
class Known:
    """A connector as a verb finds it: `config` is None if it does not exist, `owned` if it is
    unmanaged."""

    name: str
    config: Mapping[str, str] | None
    owned: Owned | None


def known(backend: Backend, name: str) -> Known:
    """The connector's config and owner now. Read-only: starts no leader.

    Raises LedgerUnreadable, Unreachable.
    """
    from connect_reconciler.cli.clusters import config_of

    config = config_of(backend, name)
    owned = backend.ledger().state.connectors.get(name)
    # Applied over REST alone, only its config names the owner
    if owned is None and config is not None:
        owned = _owned_by_config(name, config)
    return Known(name, config, owned)


def ensure_ours(backend: Backend, name: str, *, force: bool) -> None:
    """Raises Invalid for a connector of another project, unless forced."""
    if not force:
        ensure_owner(known(backend, name), backend.project)


def ensure_owner(found: Known, project: Project) -> None:
    """Raises Invalid for a connector that another project owns."""
    owned = found.owned
    if owned is None or owned.project == project.name:
        return
    what = f"it belongs to project {owned.project}, and this is project {project.name}"
    hint = f"change it from project {owned.project}, or use --force"
    raise Invalid(Diagnostic("connector.owned-by-other", what, found.name, hint=hint))


def ensure_unprotected(found: Known) -> None:
    """Raises Failed for a connector that prevent_delete protects."""
    if found.owned is not None and found.owned.prevent_delete:
        what = "it is protected against deletion"
        hint = "set prevent_delete: false in its spec and apply, then delete it"
        raise Failed(Diagnostic("delete.protected", what, found.name, hint=hint))


def _owned_by_config(name: str, config: Mapping[str, str]) -> Owned | None:
    from connect_reconciler.ledger.config_entry import load_ledger

    def refused(error: LedgerUnreadable, _: str) -> None:
        raise error

    return load_ledger({name: config}, refused).connectors.get(name)
