"""What a plan file holds beside its actions: diagnostics, places and the target, to and fro."""

from __future__ import annotations

from connect_reconciler.plan.plan_file import models
from connect_reconciler.plan.target import Target
from connect_specs.diagnostics import Diagnostic, Location


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
    """The warning, and whether it is about what stays as it is."""
    told = diagnostic_to(diagnostic)
    return models.WarningModel(**dict(told), unchanged=unchanged)


def diagnostic_from(model: models.DiagnosticModel) -> Diagnostic:
    """The diagnostic that the file holds."""
    where = model.where
    return Diagnostic(
        model.code,
        model.what,
        place_from(where) if isinstance(where, models.PlaceModel) else where,
        model.why,
        model.hint,
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
