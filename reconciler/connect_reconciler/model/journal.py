"""What planning uses of the ledger's journal: connectors as they were before an apply, and actions
that an apply left unfinished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.values import Value
from connect_specs.states import TargetState

if TYPE_CHECKING:
    from connect_reconciler.model.live import AppliedPin


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """One connector as it was before an apply's first action on it.

    A rollback returns to it. `config` None: it did not exist. `target` is its target state, or the
    state to restore where an earlier apply held it stopped. `offsets` None: the apply did not move
    them. `pins` by id, as the ledger held them. `renamed_from`: the apply created it from the
    connector of that name. `ignore` holds the globs of `lifecycle.ignore` in the applied spec.
    """

    config: Mapping[str, Value] | None
    target: TargetState | None = None
    owner: str | None = None
    prevent_delete: bool = False
    pins: Mapping[str, AppliedPin] = field(default_factory=dict)
    offsets: Offsets | None = None
    renamed_from: str | None = None
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Later:
    """What later applies did to a connector: their ids, oldest first, and the connector as it was
    before the first of them. `moved`: one of them moved its offsets. `renamed` holds those that
    renamed it, by its new name."""

    applies: tuple[str, ...]
    snapshot: ConnectorSnapshot
    moved: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HalfDone:
    """An action that began, and whose end the journal does not hold."""

    connector: str
    action: str
    snapshot: ConnectorSnapshot | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An apply that ended early. `by` says who ran it, where, and since when."""

    id: str
    by: str = ""
    steps: tuple[HalfDone, ...] = ()
    project: str = ""
