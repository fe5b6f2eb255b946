"""What the ledger's journal tells planning: how connectors were before an apply, and what an apply
that ended early left half done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connect_reconciler.plan.values import Value
from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState

if TYPE_CHECKING:
    from connect_reconciler.plan.live import AppliedPin


@dataclass(frozen=True, slots=True)
class Before:
    """One connector as it was before an apply's first action on it.

    `config` None: it was not there. `target` is the state that it was meant to be in, also where an
    earlier apply held it stopped. `offsets` None: that apply did not move them. `pins` by id, as
    the ledger held them. `renamed_from`: the apply made it from the connector of that name.
    `ignore` holds the globs of `lifecycle.ignore` in the spec that was applied.
    """

    config: Mapping[str, Value] | None
    target: TargetState | None = None
    owner: str | None = None
    prevent_delete: bool = False
    pins: Mapping[str, AppliedPin] = field(default_factory=dict)
    offsets: tuple[OffsetEntry, ...] | None = None
    renamed_from: str | None = None
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Later:
    """What applies after a certain one did to a connector: their ids, oldest first, and how it was
    before the first of them. `moved`: one of them moved its offsets. `renamed` holds those that
    renamed it, by its new name."""

    applies: tuple[str, ...]
    before: Before
    moved: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HalfDone:
    """An action that began, and of whose end the journal knows nothing."""

    connector: str
    action: str
    before: Before | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An apply that ended early. `by` says who ran it, where, and since when."""

    id: str
    by: str = ""
    steps: tuple[HalfDone, ...] = ()
    project: str = ""
