"""One connector as actions and their preconditions see it: what the cluster and the ledger hold.

A plan predicts it action by action; an apply puts what it reads in its place. Progress of a running
connector is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from connect_reconciler.model.config_values import Value, without_reserved
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Renaming
from connect_reconciler.model.live import Kind, Live, LogRange
from connect_reconciler.model.offsets import Offsets, TopicPartition
from connect_reconciler.model.secrets import ConfigRedactor, live_redactor
from connect_specs.desired import TargetState
from connect_specs.names import GROUP_KEY

# The key of the Kafka cluster that a sink reads
SINK_SERVERS = "consumer.override.bootstrap.servers"
# A change of one of these makes Connect look for the offsets elsewhere
_PLACE_KEYS: Mapping[Kind, frozenset[str]] = {
    "sink": frozenset({SINK_SERVERS, GROUP_KEY}),
    "source": frozenset({"offsets.storage.topic", "producer.override.bootstrap.servers"}),
}


def changes_place(kind: Kind, keys: Iterable[str]) -> bool:
    """Returns True if a change of these keys makes Connect look for the offsets elsewhere."""
    of_any = frozenset[str]().union(*_PLACE_KEYS.values())
    return not _PLACE_KEYS.get(kind, of_any).isdisjoint(keys)


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """One connector. `config` None: it is not there.

    `project` is the one that acts, `owner` the one that the ledger names. `offsets` are known only
    while it is stopped, and only where its config still points. `renames` are those to it that are
    not finished, by the old name. `applied` is the config that was applied last, with fingerprints
    of secrets, and `relied_on` the one that a plan changes: both only to name differing keys.

    Of the spec, while a plan is made: `sensitive` are config keys that it calls secret, `spec_pin`
    is the id and the content hash of its pin, and `renamed_from` the old name of its rename.
    """

    name: str
    project: str
    config: Mapping[str, Value] | None = None
    target: TargetState | None = None
    owner: str | None = None
    prevent_delete: bool = False
    restore_to: TargetState | None = None
    pins: Mapping[str, AppliedPin] = field(default_factory=dict)
    renames: Mapping[str, Renaming] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    logs: Mapping[TopicPartition, LogRange] = field(default_factory=dict)
    key: bytes | None = field(default=None, repr=False)
    kind: Kind = "unknown"
    applied: Mapping[str, str] | None = None
    relied_on: Mapping[str, Value] | None = None
    sensitive: frozenset[str] = frozenset()
    spec_pin: tuple[str, str] | None = None
    renamed_from: str | None = None

    def forgotten(self) -> ConnectorState:
        """Returns the state once the connector is deleted: its offsets outlive it."""
        return ConnectorState(
            self.name, self.project, offsets=self.offsets, logs=self.logs, key=self.key
        )

    def without_rename(self, old_name: str) -> ConnectorState:
        """Returns the state without the rename from this name."""
        renames = {name: rename for name, rename in self.renames.items() if name != old_name}
        return replace(self, renames=renames)


# The connectors that a group of actions changes or reads, by name
States: TypeAlias = Mapping[str, ConnectorState]


def changed(states: States, name: str, **fields: Any) -> States:
    """Returns the states with these fields of one connector."""
    return {**states, name: replace(states[name], **fields)}


def state_of(name: str, live: Live, *, project: str) -> ConnectorState:
    """Returns the connector as it was observed."""
    connector = live.connectors.get(name)
    state = ConnectorState(
        name=name,
        project=project,
        offsets=live.offsets_of(name),
        logs=live.logs_of(name).ranges,
        kind="unknown" if connector is None else connector.kind,
        key=live.ledger.fingerprint_key,
    )
    observed = None if connector is None else (connector.config, connector.target)
    return state_now(state, observed, live.ledger, live_redactor(name, live))


def state_now(
    state: ConnectorState,
    observed: tuple[Mapping[str, str], TargetState] | None,
    ledger: LedgerState,
    redactor: ConfigRedactor,
) -> ConnectorState:
    """Returns the state with what the cluster and the ledger hold now in its place; `observed` is
    config and target state."""
    name, (config, target) = state.name, observed or (None, None)
    owned = ledger.connectors.get(name)
    return replace(
        state,
        applied=None if owned is None else owned.config,
        config=None if config is None else redactor.values(without_reserved(config)),
        target=target,
        owner=ledger.owner(name),
        prevent_delete=ledger.protects(name),
        restore_to=ledger.restore_to(name),
        pins=ledger.pins_of(name),
        renames=ledger.renames_of(name),
    )
