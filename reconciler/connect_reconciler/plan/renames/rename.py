"""Renames of connectors: the stage of each, and its records in the ledger.

The ledger has a record of a rename from before the connector with the new name is created until the
old one is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from connect_reconciler.model.actions import Create
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned, RenameStage, Renaming
from connect_reconciler.model.live import Live, LiveConnector
from connect_specs.desired import DesiredConnector
from connect_specs.partitions import RENAME_PIN
from connect_specs.states import TargetState

Stage: TypeAlias = Literal["new", "begun", "carried", "unrelated"]
_RECORDED: tuple[RenameStage, ...] = ("begun", "carried")


@dataclass(frozen=True, slots=True)
class Rename:
    """A rename from `old` that is to be made or finished. `live` and `owned` are those of `old`.

    `unrelated`: both connectors exist, and no apply began to rename one to the other.
    """

    old: str
    stage: Stage
    live: LiveConnector | None
    owned: Owned | None


def rename_of(spec: DesiredConnector, live: Live) -> Rename | None:
    """The spec's rename; None if there is none, if it is done, or if the old connector is gone."""
    old = spec.renamed_from
    if old is None or old == spec.name:
        return None
    renames = renames_of(live.ledger, spec.name)
    there, here = live.connectors.get(old), spec.name in live.connectors
    owned = live.ledger.connectors.get(old)
    stage: Stage
    # A rename owns the connector that it stopped: one without an owner was created later
    if carried(renames, old) and owned is not None:
        stage = "carried"
    elif not here:
        stage = "new"
    else:
        stage = "begun" if begun(renames, old) else "unrelated"
    if there is None and (not here or stage == "unrelated"):
        return None
    return Rename(old, stage, there, owned)


def base_config(spec: DesiredConnector, live: Live) -> Mapping[str, str] | None:
    """The config whose ignored keys are kept: the connector's own, or that of its old name."""
    connector = live.connectors.get(spec.name)
    if connector is None and spec.renamed_from is not None:
        connector = live.connectors.get(spec.renamed_from)
    if connector is None:
        return None
    return {**without_reserved(connector.config), "name": spec.name}


def recorded_pin(spec: DesiredConnector, live: Live) -> AppliedPin | None:
    """The ledger's record of the spec's pin; it counts if it was applied under the old name."""
    if spec.pin is None:
        return None
    applied = live.ledger.pins.get((spec.name, spec.pin.id))
    rename = rename_of(spec, live)
    if applied is None and rename is not None and rename.stage in ("new", "begun"):
        return live.ledger.pins.get((rename.old, spec.pin.id))
    return applied


# --- the ledger's records ---


def pins_of(ledger: LedgerState, name: str) -> dict[str, AppliedPin]:
    """The connector's pins by id."""
    return {pin: applied for (of, pin), applied in ledger.pins.items() if of == name}


def renames_of(ledger: LedgerState, name: str) -> dict[str, Renaming]:
    """The unfinished renames to this connector, by old name."""
    return {old: each for (of, old), each in ledger.renames.items() if of == name}


def begun(renames: Mapping[str, Renaming], old: str) -> bool:
    """Whether the connector was created for the rename from `old`, and has not run since."""
    found = renames.get(old)
    return found is not None and found.stage == "begun" and found.held


def carried(renames: Mapping[str, Renaming], old: str) -> bool:
    """Whether the connector has the offsets of `old`."""
    found = renames.get(old)
    return found is not None and found.stage == "carried"


def pins_once_created(pins: Mapping[str, AppliedPin], create: Create) -> dict[str, AppliedPin]:
    """The pins of a connector once it is created, with those that count as applied. One that is
    created running moves its offsets, so pins no longer hold them."""
    held = create.initial_state is TargetState.STOPPED
    return {
        pin: replace(applied, held=applied.held and held)
        for pin, applied in {**create.pins, **pins}.items()
    }


def renames_once_created(create: Create, now_ms: int = 0) -> dict[str, Renaming]:
    """The renames to a connector once it is created: its own, and no earlier one."""
    old = create.renamed_from
    return {} if old is None else {old: Renaming("begun", now_ms, held=True)}


def pins_once_carried(
    pins: Mapping[str, AppliedPin], pins_of_old: Mapping[str, AppliedPin]
) -> dict[str, AppliedPin]:
    """The pins of a connector once it has the old one's offsets: pins applied there count here."""
    return {**pins_of_old, **pins}


# --- a rename in the form of a pin: in ledgers of earlier versions, and in plan files ---


def pin_of_rename(old: str) -> str:
    """The pin id that stands for a rename from `old`."""
    return f"{RENAME_PIN}{old}"


def old_name_in(pin: str) -> str | None:
    """The old name, if a pin with this id may stand for a rename."""
    return pin.removeprefix(RENAME_PIN) if pin.startswith(RENAME_PIN) else None


def rename_of_pin(pin: str, content_hash: str) -> tuple[str, RenameStage] | None:
    """The old name and the stage; None for a user's pin, which has a real content hash."""
    old = old_name_in(pin)
    stage = next((each for each in _RECORDED if each == content_hash), None)
    return None if old is None or stage is None else (old, stage)


def renaming_of(pin: str, applied: AppliedPin) -> tuple[str, Renaming] | None:
    """The rename that an earlier version recorded as this pin, with its old name."""
    found = rename_of_pin(pin, applied.content_hash)
    if found is None:
        return None
    old, stage = found
    return old, Renaming(stage, applied.applied_ms, applied.held)
