"""A rename in the form of a pin: as ledgers of earlier versions recorded it, and plan files do."""

from __future__ import annotations

from connect_reconciler.plan.live import AppliedPin, RenameStage, Renaming
from connect_specs.offsets import RENAME_PIN

_STAGES: tuple[RenameStage, ...] = ("begun", "carried")


def pin_of_rename(old: str) -> str:
    """The pin id that stands for a rename from `old`."""
    return f"{RENAME_PIN}{old}"


def old_name_in(pin: str) -> str | None:
    """The old name, if a pin of this id may stand for a rename."""
    return pin.removeprefix(RENAME_PIN) if pin.startswith(RENAME_PIN) else None


def rename_of_pin(pin: str, content_hash: str) -> tuple[str, RenameStage] | None:
    """The old name and the stage; None for a pin of a user's, whose content has a real hash."""
    old = old_name_in(pin)
    stage = next((each for each in _STAGES if each == content_hash), None)
    return None if old is None or stage is None else (old, stage)


def renaming_of(pin: str, applied: AppliedPin) -> tuple[str, Renaming] | None:
    """The rename that an earlier version recorded as this pin, with its old name."""
    found = rename_of_pin(pin, applied.content_hash)
    if found is None:
        return None
    old, stage = found
    return old, Renaming(stage, applied.applied_ms, applied.held)
