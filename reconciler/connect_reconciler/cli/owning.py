"""Which of the cluster's connectors are this project's, told without a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from connect_specs.diagnostics import ConnectError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_specs.desired import Project
    from connect_specs.states import TargetState

# Beside what is asked over REST: without Kafka the configs and the specs still tell
_KAFKA_S = 3.0


@dataclass(frozen=True, slots=True)
class Owners:
    """By connector the project that owns it, and by name in the specs of this one the state that
    they ask for.

    `specs` None: they cannot be read. `unread` is why the ledger could not be, if so.
    """

    project: str
    by_name: Mapping[str, str]
    specs: Mapping[str, TargetState] | None
    unread: str = ""

    def holds(self, name: str) -> bool:
        """Whether the connector is this project's, or to become so. All are while nobody knows."""
        return self.specs is None or name in self.specs or self.owns(name)

    def owns(self, name: str) -> bool:
        """Whether an apply recorded the connector as this project's."""
        return self.by_name.get(name) == self.project


def owners_of(
    project: Project, properties: Mapping[str, str], configs: Mapping[str, Mapping[str, str]]
) -> Owners:
    """From the ledger, the configs and the specs, as far as they can be read."""
    from connect_reconciler.ledger.config_entry import with_configs
    from connect_reconciler.observe.ledger import ledger_seen
    from connect_reconciler.plan.live import LedgerState
    from connect_runtime.kafka.clients import check_reachable

    ledger, unread = LedgerState(), ""
    if properties:
        try:
            if project.target is not None:
                check_reachable(properties, _KAFKA_S)
            ledger = ledger_seen(project, properties).state
        except ConnectError as error:
            unread = str(error)
    owned = with_configs(ledger, configs).connectors
    by_name = {name: each.project for name, each in owned.items()}
    return Owners(project.name, by_name, _asked_for(project), unread)


def _asked_for(project: Project) -> Mapping[str, TargetState] | None:
    from connect_specs.loader import load_specs
    from connect_specs.states import TargetState

    try:
        specs = load_specs(project).connectors
    except ConnectError:
        return None
    return {name: each.state or TargetState.RUNNING for name, each in specs.items()}
