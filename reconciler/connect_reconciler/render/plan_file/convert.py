"""Converts a plan's values to the models of the plan file, and back. Decides nothing.

A class and its model have the same name, and fields of the same names, but for those in `_FIELDS`.
A value that the file has no place for cannot be written: the models forbid it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeVar, cast

from connect_reconciler.model import actions as act
from connect_reconciler.model import preconditions as pre
from connect_reconciler.model.config_values import Plain, Secret, Value
from connect_reconciler.model.ledger import AppliedPin, pin_of_rename, rename_of_pin
from connect_reconciler.model.plan import Target
from connect_reconciler.model.reasons import Reason
from connect_reconciler.render.plan_file import models
from connect_reconciler.render.words import reason_text
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic, Location, Severity

M = TypeVar("M", bound=models.Model)


def action_to(action: act.Action) -> models.ActionModel:
    """The action as the file holds it."""
    found: dict[str, Any] = {}
    for each in fields(action):
        field = _FIELDS.get(each.name, _Field(each.name))
        found[field.name] = field.to(getattr(action, each.name))
    found |= {"reason": reason_text(action), "reason_code": action.reason.code}
    if isinstance(action, act.Create) and action.renamed_from is None:
        found["changes"] = None
    return cast("models.ActionModel", _model_of(action)(**found))


def action_from(model: models.ActionModel) -> act.Action:
    """The action that the file holds."""
    found: dict[str, Any] = {}
    kind = act.ACTIONS[_name_of(model)]
    for each in fields(kind):
        field = _FIELDS.get(each.name, _Field(each.name))
        found[each.name] = field.back(getattr(model, field.name))
    return kind(**found | {"reason": Reason(model.reason_code, text=model.reason)})


def value_to(value: Value) -> models.ValueModel:
    """The value as JSON holds it: text, or a fingerprint."""
    return value.text if isinstance(value, Plain) else models.SecretModel(secret=value.fingerprint)


def diagnostic_to(diagnostic: Diagnostic) -> models.DiagnosticModel:
    """The diagnostic as the file holds it."""
    return _mirrored(models.DiagnosticModel, diagnostic)


def warning_to(diagnostic: Diagnostic, *, unchanged: bool) -> models.WarningModel:
    """The warning, and whether it is only about unchanged parts."""
    return models.WarningModel(**dict(diagnostic_to(diagnostic)), unchanged=unchanged)


def diagnostic_from(model: models.DiagnosticModel, severity: Severity) -> Diagnostic:
    """The diagnostic that the file holds."""
    where = place_from(model.where) if isinstance(model.where, models.PlaceModel) else model.where
    return Diagnostic(model.code, model.what, where, model.why, model.hint, severity)


def place_to(place: Location) -> models.PlaceModel:
    """A place in a file."""
    return _mirrored(models.PlaceModel, place)


def place_from(model: models.PlaceModel) -> Location:
    """The place that the file holds."""
    return Location(**dict(model))


def target_to(target: Target | None) -> models.TargetModel | None:
    """The cluster by its addresses."""
    return None if target is None else _mirrored(models.TargetModel, target)


def target_from(model: models.TargetModel | None) -> Target | None:
    """The cluster that the file names."""
    return None if model is None else Target(**dict(model))


def _mirrored(model: type[M], value: object) -> M:
    """The model of a value that has exactly its fields."""
    return model.model_validate(value, from_attributes=True)


def _model_of(value: object) -> type[models.Model]:
    return cast("type[models.Model]", getattr(models, f"{type(value).__name__}Model"))


def _name_of(model: models.Model) -> str:
    return type(model).__name__.removesuffix("Model")


# --- preconditions ---


def _precondition_to(precondition: pre.Precondition) -> models.PreconditionModel:
    match precondition:
        case pre.OfOld(condition=condition):
            found = cast("models.ConditionModel", _precondition_to(condition))
            return models.OfOldModel(condition=found)
        case pre.RenameRecorded(old=old, stage=stage):
            return models.PinRecordedModel(pin=pin_of_rename(old), content_hash=stage)
        case pre.InsideLog(partition=(topic, partition), offset=offset):
            return models.InsideLogModel(topic=topic, partition=partition, offset=offset)
        case _:
            mirrored = _mirrored(_model_of(precondition), precondition)
            return cast("models.PreconditionModel", mirrored)


def _precondition_from(model: models.PreconditionModel) -> pre.Precondition:
    match model:
        case models.OfOldModel(condition=condition):
            return pre.OfOld(cast("pre.OldCondition", _precondition_from(condition)))
        case models.PinRecordedModel(pin=pin, content_hash=content_hash):
            rename = rename_of_pin(pin, content_hash)
            return (
                pre.PinRecorded(pin, content_hash)
                if rename is None
                else pre.RenameRecorded(*rename)
            )
        case models.InsideLogModel(topic=topic, partition=partition, offset=offset):
            return pre.InsideLog((topic, partition), offset)
        case _:
            mirrored = getattr(pre, _name_of(model))(**model.model_dump(exclude={"type"}))
            return cast("pre.Precondition", mirrored)


# --- fields of actions ---


def _value_from(model: models.ValueModel) -> Value:
    return Plain(model) if isinstance(model, str) else Secret(model.secret)


def _config_to(config: Mapping[str, Value]) -> dict[str, models.ValueModel]:
    return {key: value_to(value) for key, value in sorted(config.items())}


def _config_from(config: Mapping[str, models.ValueModel]) -> dict[str, Value]:
    return {key: _value_from(value) for key, value in config.items()}


def _pins_to(pins: Mapping[str, AppliedPin]) -> dict[str, models.AppliedPinModel] | None:
    return {
        pin: _mirrored(models.AppliedPinModel, each) for pin, each in sorted(pins.items())
    } or None


def _pins_from(pins: Mapping[str, models.AppliedPinModel] | None) -> dict[str, AppliedPin]:
    return {pin: _pin_from(each) for pin, each in (pins or {}).items()}


def _pin_from(model: models.AppliedPinModel) -> AppliedPin:
    resolved = None if model.resolved is None else tuple(map(_entry_from, model.resolved))
    return AppliedPin(model.content_hash, resolved, model.applied_ms, model.held)


def _changes_to(changes: tuple[act.FieldChange, ...]) -> tuple[models.ChangeModel, ...]:
    return tuple(
        models.ChangeModel(
            key=each.key,
            old=None if each.old is None else value_to(each.old),
            new=None if each.new is None else value_to(each.new),
            consequence=each.consequence,
            effect="\n".join(each.effects),
        )
        for each in changes
    )


def _changes_from(changes: tuple[models.ChangeModel, ...] | None) -> tuple[act.FieldChange, ...]:
    return tuple(
        act.FieldChange(
            each.key,
            None if each.old is None else _value_from(each.old),
            None if each.new is None else _value_from(each.new),
            each.consequence,
            _effects_from(each.effect),
        )
        for each in changes or ()
    )


def _moves_to(moves: tuple[act.OffsetMove, ...]) -> tuple[models.MoveModel, ...]:
    return tuple(
        models.MoveModel(
            entry=_mirrored(models.EntryModel, each.entry),
            before=None if each.before is None else _mirrored(models.EntryModel, each.before),
            effect=each.effect,
            direction=each.direction,
            counts=None if each.counts is None else _mirrored(models.CountsModel, each.counts),
        )
        for each in moves
    )


def _moves_from(moves: tuple[models.MoveModel, ...]) -> tuple[act.OffsetMove, ...]:
    return tuple(
        act.OffsetMove(
            _entry_from(each.entry),
            None if each.before is None else _entry_from(each.before),
            each.effect,
            each.direction,
            None if each.counts is None else act.Counts(**dict(each.counts)),
        )
        for each in moves
    )


def _effects_from(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def _entry_from(model: models.EntryModel) -> OffsetEntry:
    return OffsetEntry(model.partition, model.offset)


def _same(value: object) -> object:
    return value


def _each(convert: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda values: tuple(map(convert, values))


class _Field(NamedTuple):
    """A field of actions: its name in the file, and how its value is converted."""

    name: str
    to: Callable[[Any], object] = _same
    back: Callable[[Any], object] = _same


# By its name in the plan
_FIELDS: Final[Mapping[str, _Field]] = {
    "effects": _Field("effect", "\n".join, _effects_from),
    "requires": _Field("requires", _each(_precondition_to), _each(_precondition_from)),
    "restore_to": _Field("held_from"),
    "config": _Field("config", _config_to, _config_from),
    "changes": _Field("changes", _changes_to, _changes_from),
    "pins": _Field("pins", _pins_to, _pins_from),
    "moves": _Field("moves", _moves_to, _moves_from),
}
