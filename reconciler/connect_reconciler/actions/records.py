"""The ledger records of actions. Pure.

Before an action: what restores the connector if the process dies in the middle. After it: what was
done. Each is written in one transaction with the journal's record of that step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from connect_reconciler.model.config_values import Value, recorded
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned, Renaming, pin_of_rename
from connect_reconciler.model.ledger_records import (
    owned_record,
    pin_record,
    rename_record,
)
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import TargetState


@dataclass(frozen=True, slots=True)
class RecordContext:
    """What an action's records are made from, besides the action and the ledger.

    `config` is the config of the action's connector as it is, or will be once this action wrote it,
    and `live_state` its target state; `state` and `prevent_delete` are the spec's. `untyped` are
    the keys of `config` that are secret only because their types are not known, and `added` those
    that the cluster added when it was written.
    """

    topic: str
    project: str
    now_ms: int
    config: Mapping[str, Value]
    live_state: TargetState | None = None
    state: TargetState | None = None
    prevent_delete: bool = False
    env: str | None = None
    untyped: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()

    def created(self) -> Owned:
        """Returns the connector as one that this project has just taken over or created."""
        return Owned(
            project=self.project,
            config=recorded(self.config),
            state=None,
            prevent_delete=self.prevent_delete,
            applied_ms=self.now_ms,
            env=self.env,
            untyped=self.untyped,
            added=self.added,
        )

    def owned(self, name: str, ledger: LedgerState) -> Owned:
        """Returns the connector as the ledger has it, or as one that was just taken over."""
        return ledger.connectors.get(name) or self.created()

    def written(self, name: str, ledger: LedgerState) -> Owned:
        """Returns the connector once its config is written."""
        owned = self.owned(name, ledger)
        # A state that the spec began to manage, and that the connector had already
        settled = self.state is not None and self.state is self.live_state
        return replace(
            owned,
            config=recorded(self.config),
            state=self.state if settled else owned.state,
            applied_ms=self.now_ms,
            env=self.env,
            env_known=True,
            untyped=self.untyped,
            added=self.added,
        )

    def settled(self, name: str, ledger: LedgerState) -> tuple[NewRecord, ...]:
        """Records the state of its spec, or its own from before it was stopped."""
        owned = replace(
            self.owned(name, ledger),
            state=self.state,
            restore_to=None,
            applied_ms=self.now_ms,
            env=self.env,
            env_known=True,
        )
        return (owned_record(self.topic, name, owned),)


def forgotten(name: str, ledger: LedgerState, topic: str) -> Iterator[NewRecord]:
    """Forgets the connector, its pins, and renames from and to it."""
    yield from (pin_record(topic, of, pin, None) for of, pin in ledger.pins if of == name)
    for target in dict.fromkeys(pair[0] for pair in ledger.renames if name in pair):
        renames = {} if target == name else ledger.renames_of(target)
        renames.pop(name, None)
        yield from rename_records(ledger, topic, target, renames)
    yield owned_record(topic, name, None)


def pin_records(
    ledger: LedgerState, topic: str, name: str, pins: Mapping[str, AppliedPin]
) -> Iterator[NewRecord]:
    """Changes a connector's pins to these."""
    recorded_pins = ledger.pins_of(name)
    for pin in sorted(recorded_pins.keys() | pins.keys()):
        if recorded_pins.get(pin) != pins.get(pin):
            yield pin_record(topic, name, pin, pins.get(pin))


def rename_records(
    ledger: LedgerState, topic: str, name: str, renames: Mapping[str, Renaming]
) -> Iterator[NewRecord]:
    """Changes the renames to a connector to these, also where an earlier version recorded them as
    pins."""
    recorded_renames = ledger.renames_of(name)
    for old_name in sorted(recorded_renames.keys() | renames.keys()):
        if recorded_renames.get(old_name) == renames.get(old_name):
            continue
        earlier = pin_of_rename(old_name)
        if (name, earlier) not in ledger.pins:
            yield pin_record(topic, name, earlier, None)
        yield rename_record(topic, name, old_name, renames.get(old_name))
