"""How far is the move of a connector to another name, and what does the ledger say of it?

The ledger has a record of a rename from before the connector of the new name is created until the
old one is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from connect_reconciler.plan.actions import Create
from connect_reconciler.plan.live import (
    AppliedPin,
    LedgerState,
    Live,
    LiveConnector,
    Owned,
    Renaming,
)
from connect_reconciler.plan.reserved import without_reserved
from connect_specs.desired import DesiredConnector
from connect_specs.states import TargetState

Stage: TypeAlias = Literal["new", "begun", "carried", "unrelated"]


@dataclass(frozen=True, slots=True)
class Rename:
    """A move from `old` that is to be made, or finished. `live` and `owned` are the old one's.

    `unrelated`: both are there, and no apply began to move one to the other.
    """

    old: str
    stage: Stage
    live: LiveConnector | None
    owned: Owned | None


def rename_of(spec: DesiredConnector, live: Live) -> Rename | None:
    """The spec's rename; None if it asks for none, if it is done, or if nothing is left to move."""
    old = spec.renamed_from
    if old is None or old == spec.name:
        return None
    renames = renames_of(live.ledger, spec.name)
    there, here = live.connectors.get(old), spec.name in live.connectors
    owned = live.ledger.connectors.get(old)
    stage: Stage
    # Whatever a rename stopped is owned: what is there and nobody's came later
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
    """The config whose ignored keys are kept: the connector's own, else that of its old name."""
    connector = live.connectors.get(spec.name)
    if connector is None and spec.renamed_from is not None:
        connector = live.connectors.get(spec.renamed_from)
    if connector is None:
        return None
    return {**without_reserved(connector.config), "name": spec.name}


def recorded_pin(spec: DesiredConnector, live: Live) -> AppliedPin | None:
    """What the ledger holds of the spec's pin. One that was applied under the old name counts."""
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
    """The renames to this connector that are not finished, by the old name."""
    return {old: each for (of, old), each in ledger.renames.items() if of == name}


def begun(renames: Mapping[str, Renaming], old: str) -> bool:
    """Whether the connector was created to go on from `old`, and was not let run since."""
    found = renames.get(old)
    return found is not None and found.stage == "begun" and found.held


def carried(renames: Mapping[str, Renaming], old: str) -> bool:
    """Whether the connector has the offsets of `old`."""
    found = renames.get(old)
    return found is not None and found.stage == "carried"


def pins_once_created(pins: Mapping[str, AppliedPin], create: Create) -> dict[str, AppliedPin]:
    """The pins of a connector that is created, with those that count as applied. What is created
    to run lets go of its pins."""
    held = create.initial_state is TargetState.STOPPED
    return {
        pin: replace(applied, held=applied.held and held)
        for pin, applied in {**create.pins, **pins}.items()
    }


def renames_once_created(create: Create, now_ms: int = 0) -> dict[str, Renaming]:
    """The renames to a connector that is created: its own, and no earlier one."""
    old = create.renamed_from
    return {} if old is None else {old: Renaming("begun", now_ms, held=True)}


def pins_once_carried(
    pins: Mapping[str, AppliedPin], pins_of_old: Mapping[str, AppliedPin]
) -> dict[str, AppliedPin]:
    """The pins of a connector that has another's offsets: what was applied there counts here."""
    return {**pins_of_old, **pins}
