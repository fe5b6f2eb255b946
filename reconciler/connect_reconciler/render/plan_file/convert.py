"""Converts a plan's values to the models of the plan file, and back. Decides nothing.

Each direction matches exhaustively: an action that the file does not know cannot be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from connect_reconciler.model import actions as act
from connect_reconciler.model import preconditions as pre
from connect_reconciler.model.config_values import Plain, Secret, Value
from connect_reconciler.model.ledger import AppliedPin, pin_of_rename, rename_of_pin
from connect_reconciler.model.plan import Target
from connect_reconciler.model.reasons import Reason, as_effects, effect
from connect_reconciler.render.effects import lines_of_effects, move_text
from connect_reconciler.render.plan_file import models
from connect_reconciler.render.words import reason_text
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic, Location, Severity
from connect_specs.states import TargetState


def action_to(action: act.Action) -> models.ActionModel:
    """The action as the file holds it."""
    common: dict[str, Any] = {
        "connector": action.connector,
        "reason": reason_text(action),
        "reason_code": action.reason.code,
        "effect": lines_of_effects(action.effects),
        "requires": tuple(_precondition_to(each) for each in action.requires),
    }
    match action:
        case act.Create():
            return models.CreateModel(
                **common,
                config=_config_to(action.config),
                initial_state=action.initial_state.value,
                held_from=_state_to(action.restore_to),
                renamed_from=action.renamed_from,
                changes=None
                if action.renamed_from is None
                else tuple(_change_to(change) for change in action.changes),
                pins=_pins_to(action.pins),
            )
        case act.Adopt():
            return models.AdoptModel(**common)
        case act.UpdateConfig():
            changes = tuple(_change_to(change) for change in action.changes)
            config = _config_to(action.config)
            return models.UpdateConfigModel(**common, config=config, changes=changes)
        case act.Stop():
            return models.StopModel(**common, held_from=_state_to(action.restore_to))
        case act.AlterOffsets():
            return models.AlterOffsetsModel(**common, **_offsets_to(action))
        case act.ResetOffsets():
            return models.ResetOffsetsModel(**common, **_offsets_to(action))
        case act.StopOld():
            held_from = _state_to(action.restore_to)
            return models.StopOldModel(**common, old=action.old, held_from=held_from)
        case act.CarryOffsets():
            return models.CarryOffsetsModel(**common, old=action.old, moves=_moves_to(action.moves))
        case act.DeleteOld():
            return models.DeleteOldModel(**common, old=action.old, reset=action.reset)
        case act.Pause():
            return models.PauseModel(**common)
        case act.Resume():
            return models.ResumeModel(**common)
        case act.Restart():
            return models.RestartModel(**common)
        case act.Delete():
            return models.DeleteModel(**common)
        case act.Protect():
            return models.ProtectModel(**common, prevent_delete=action.prevent_delete)
        case act.Forget():
            return models.ForgetModel(**common)
        case _:
            assert_never(action)


def action_from(model: models.ActionModel) -> act.Action:
    """The action that the file holds."""
    common: dict[str, Any] = {
        "connector": model.connector,
        "reason": Reason(model.reason_code, text=model.reason),
        "effects": as_effects(model.effect),
        "requires": tuple(_precondition_from(each) for each in model.requires),
    }
    match model:
        case models.CreateModel():
            return act.Create(
                **common,
                config=_config_from(model.config),
                initial_state=TargetState(model.initial_state),
                restore_to=_state_from(model.held_from),
                renamed_from=model.renamed_from,
                changes=tuple(_change_from(change) for change in model.changes or ()),
                pins=_pins_from(model.pins),
            )
        case models.AdoptModel():
            return act.Adopt(**common)
        case models.UpdateConfigModel():
            changes = tuple(_change_from(change) for change in model.changes)
            return act.UpdateConfig(**common, config=_config_from(model.config), changes=changes)
        case models.StopModel():
            return act.Stop(**common, restore_to=_state_from(model.held_from))
        case models.AlterOffsetsModel():
            return act.AlterOffsets(**common, **_offsets_from(model))
        case models.ResetOffsetsModel():
            return act.ResetOffsets(**common, **_offsets_from(model))
        case models.StopOldModel():
            restore_to = _state_from(model.held_from)
            return act.StopOld(**common, old=model.old, restore_to=restore_to)
        case models.CarryOffsetsModel():
            return act.CarryOffsets(**common, old=model.old, moves=_moves_from(model.moves))
        case models.DeleteOldModel():
            return act.DeleteOld(**common, old=model.old, reset=model.reset)
        case models.PauseModel():
            return act.Pause(**common)
        case models.ResumeModel():
            return act.Resume(**common)
        case models.RestartModel():
            return act.Restart(**common)
        case models.DeleteModel():
            return act.Delete(**common)
        case models.ProtectModel():
            return act.Protect(**common, prevent_delete=model.prevent_delete)
        case models.ForgetModel():
            return act.Forget(**common)
        case _:
            assert_never(model)


def value_to(value: Value) -> models.ValueModel:
    """The value as JSON holds it: text, or a fingerprint."""
    return value.text if isinstance(value, Plain) else models.SecretModel(secret=value.fingerprint)


def _condition_to(condition: pre.OldCondition) -> models.ConditionModel:
    match condition:
        case pre.Exists(config_fingerprint=mark, leaving_out=leaving_out):
            return models.ExistsModel(config_fingerprint=mark, leaving_out=leaving_out)
        case pre.Absent():
            return models.AbsentModel()
        case pre.TargetIs(state=state):
            return models.TargetIsModel(state=state.value)
        case pre.OwnerIs(project=project):
            return models.OwnerIsModel(project=project)
        case pre.NotProtected():
            return models.NotProtectedModel()
        case _:
            assert_never(condition)


def _precondition_to(precondition: pre.Precondition) -> models.PreconditionModel:
    match precondition:
        case pre.OfOld(condition=condition):
            return models.OfOldModel(condition=_condition_to(condition))
        case pre.PinNotRecorded(pin=pin):
            return models.PinNotRecordedModel(pin=pin)
        case pre.PinRecorded(pin=pin, content_hash=content_hash):
            return models.PinRecordedModel(pin=pin, content_hash=content_hash)
        case pre.RenameRecorded(old=old, stage=stage):
            return models.PinRecordedModel(pin=pin_of_rename(old), content_hash=stage)
        case pre.InsideLog(partition=(topic, partition), offset=offset):
            return models.InsideLogModel(topic=topic, partition=partition, offset=offset)
        case _:
            return _condition_to(precondition)


def _condition_from(model: models.ConditionModel) -> pre.OldCondition:
    match model:
        case models.ExistsModel():
            return pre.Exists(model.config_fingerprint, model.leaving_out)
        case models.AbsentModel():
            return pre.Absent()
        case models.TargetIsModel():
            return pre.TargetIs(TargetState(model.state))
        case models.OwnerIsModel():
            return pre.OwnerIs(model.project)
        case models.NotProtectedModel():
            return pre.NotProtected()
        case _:
            assert_never(model)


def _precondition_from(model: models.PreconditionModel) -> pre.Precondition:
    match model:
        case models.OfOldModel():
            return pre.OfOld(_condition_from(model.condition))
        case models.PinNotRecordedModel():
            return pre.PinNotRecorded(model.pin)
        case models.PinRecordedModel():
            rename = rename_of_pin(model.pin, model.content_hash)
            if rename is not None:
                return pre.RenameRecorded(*rename)
            return pre.PinRecorded(model.pin, model.content_hash)
        case models.InsideLogModel():
            return pre.InsideLog((model.topic, model.partition), model.offset)
        case _:
            return _condition_from(model)


def _value_from(model: models.ValueModel) -> Value:
    return Plain(model) if isinstance(model, str) else Secret(model.secret)


def _config_to(config: Mapping[str, Value]) -> dict[str, models.ValueModel]:
    return {key: value_to(value) for key, value in sorted(config.items())}


def _config_from(config: Mapping[str, models.ValueModel]) -> dict[str, Value]:
    return {key: _value_from(value) for key, value in config.items()}


def _pins_to(pins: Mapping[str, AppliedPin]) -> dict[str, models.AppliedPinModel] | None:
    return {
        pin: models.AppliedPinModel(
            content_hash=applied.content_hash,
            resolved=None
            if applied.resolved is None
            else tuple(_entry_to(entry) for entry in applied.resolved),
            applied_ms=applied.applied_ms,
            held=applied.held,
        )
        for pin, applied in sorted(pins.items())
    } or None


def _pins_from(pins: Mapping[str, models.AppliedPinModel] | None) -> dict[str, AppliedPin]:
    return {
        pin: AppliedPin(
            model.content_hash,
            None
            if model.resolved is None
            else tuple(_entry_from(entry) for entry in model.resolved),
            model.applied_ms,
            model.held,
        )
        for pin, model in (pins or {}).items()
    }


def _change_to(change: act.FieldChange) -> models.ChangeModel:
    return models.ChangeModel(
        key=change.key,
        old=None if change.old is None else value_to(change.old),
        new=None if change.new is None else value_to(change.new),
        consequence=change.consequence,
        effect=lines_of_effects(change.effects),
    )


def _change_from(model: models.ChangeModel) -> act.FieldChange:
    return act.FieldChange(
        model.key,
        None if model.old is None else _value_from(model.old),
        None if model.new is None else _value_from(model.new),
        model.consequence,
        as_effects(model.effect),
    )


def _offsets_to(action: act.AlterOffsets | act.ResetOffsets) -> dict[str, Any]:
    moves = _moves_to(action.moves)
    return {"pin": action.pin, "pin_hash": action.pin_hash, "moves": moves, "held": action.held}


def _offsets_from(model: models.AlterOffsetsModel | models.ResetOffsetsModel) -> dict[str, Any]:
    moves = _moves_from(model.moves)
    return {"pin": model.pin, "pin_hash": model.pin_hash, "moves": moves, "held": model.held}


def _moves_to(moves: tuple[act.OffsetMove, ...]) -> tuple[models.MoveModel, ...]:
    return tuple(
        models.MoveModel(
            entry=_entry_to(move.entry),
            before=None if move.before is None else _entry_to(move.before),
            effect=move_text(move),
            direction=move.direction,
            counts=_counts_to(move.counts),
        )
        for move in moves
    )


def _moves_from(moves: tuple[models.MoveModel, ...]) -> tuple[act.OffsetMove, ...]:
    return tuple(
        act.OffsetMove(
            _entry_from(move.entry),
            None if move.before is None else _entry_from(move.before),
            effect("text", text=move.effect) if move.effect else None,
            move.direction,
            _counts_from(move.counts),
        )
        for move in moves
    )


def _counts_to(counts: act.Counts | None) -> models.CountsModel | None:
    if counts is None:
        return None
    return models.CountsModel(
        again=counts.again,
        skipped=counts.skipped,
        gone=counts.gone,
        unit=counts.unit,
        exact=counts.exact,
    )


def _counts_from(model: models.CountsModel | None) -> act.Counts | None:
    if model is None:
        return None
    return act.Counts(model.again, model.skipped, model.gone, model.unit, model.exact)


def _entry_to(entry: OffsetEntry) -> models.EntryModel:
    offset = None if entry.offset is None else dict(entry.offset)
    return models.EntryModel(partition=dict(entry.partition), offset=offset)


def _entry_from(model: models.EntryModel) -> OffsetEntry:
    return OffsetEntry(model.partition, model.offset)


def _state_to(state: TargetState | None) -> models.State | None:
    return None if state is None else state.value


def _state_from(state: models.State | None) -> TargetState | None:
    return None if state is None else TargetState(state)


def diagnostic_to(diagnostic: Diagnostic) -> models.DiagnosticModel:
    """The diagnostic as the file holds it."""
    where = diagnostic.where
    return models.DiagnosticModel(
        code=diagnostic.code,
        what=diagnostic.what,
        where=place_to(where) if isinstance(where, Location) else where,
        why=diagnostic.why,
        hint=diagnostic.hint,
    )


def warning_to(diagnostic: Diagnostic, *, unchanged: bool) -> models.WarningModel:
    """The warning, and whether it is only about unchanged parts."""
    return models.WarningModel(**dict(diagnostic_to(diagnostic)), unchanged=unchanged)


def diagnostic_from(model: models.DiagnosticModel, severity: Severity) -> Diagnostic:
    """The diagnostic that the file holds."""
    where = model.where
    return Diagnostic(
        model.code,
        model.what,
        place_from(where) if isinstance(where, models.PlaceModel) else where,
        model.why,
        model.hint,
        severity,
    )


def place_to(place: Location) -> models.PlaceModel:
    """A place in a file."""
    return models.PlaceModel(file=place.file, line=place.line, column=place.column)


def place_from(model: models.PlaceModel) -> Location:
    """The place that the file holds."""
    return Location(model.file, model.line, model.column)


def target_to(target: Target | None) -> models.TargetModel | None:
    """The cluster by its addresses."""
    return None if target is None else models.TargetModel(rest=target.rest, kafka=target.kafka)


def target_from(model: models.TargetModel | None) -> Target | None:
    """The cluster that the file names."""
    return None if model is None else Target(model.rest, model.kafka)
