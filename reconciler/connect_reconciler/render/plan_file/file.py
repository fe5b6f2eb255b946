"""A plan as a JSON file, and back. The file is bound to its content by a hash.

Reading refuses what it does not know rather than guessing: another format, a newer version, a
changed file, an unknown field. Files of all older versions load.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic import ValidationError

from connect_reconciler.model.actions import ConfigAction
from connect_reconciler.model.config_values import Secret
from connect_reconciler.model.plan import KINDS, Plan, summarize
from connect_reconciler.render.plan_file import models
from connect_reconciler.render.plan_file.convert import (
    action_from,
    action_to,
    diagnostic_from,
    diagnostic_to,
    place_from,
    place_to,
    target_from,
    target_to,
    warning_to,
)
from connect_specs.counting import listed
from connect_specs.diagnostics import Diagnostic, Invalid, Location, warning

Document: TypeAlias = dict[str, Any]

_AGAIN = "make the plan again"


def plan_document(plan: Plan) -> Document:
    """The plan as the JSON object that a plan file holds."""
    unchanged = frozenset(plan.unchanged)
    body = models.PlanModel(
        hash="",
        project=plan.project,
        group_id=plan.group_id,
        cluster_id=plan.cluster_id,
        observed_ms=plan.observed_ms,
        key_id=plan.key_id,
        env=plan.env,
        rolls_back=plan.rolls_back,
        target=target_to(plan.target),
        places={name: place_to(place) for name, place in plan.places.items()},
        actions=tuple(action_to(action) for action in plan.actions),
        warnings=tuple(warning_to(each, unchanged=each in unchanged) for each in plan.warnings),
        errors=tuple(diagnostic_to(each) for each in plan.errors),
    ).model_dump(mode="json")
    return {**body, "hash": _content_hash(body)}


def dump_plan(plan: Plan) -> str:
    """The text of a plan file."""
    return json.dumps(plan_document(plan), indent=2, ensure_ascii=False) + "\n"


def plan_hash(plan: Plan) -> str:
    """The hash of the plan's file."""
    return str(plan_document(plan)["hash"])


def load_plan(text: str, file: str = "plan") -> Plan:
    """The plan in a plan file; `file` names it in errors. Raises Invalid."""
    try:
        return _loaded(_document(text, file), file)
    except RecursionError:
        what = "this is no plan: it is nested too deeply"
        raise Invalid(Diagnostic("plan-file.too-deep", what, Location(file), hint=_AGAIN)) from None


def _loaded(document: Document, file: str) -> Plan:
    _check_version(document, file)
    if document.get("hash") != _content_hash(document):
        what = "the plan is not as it was written: its content does not fit its hash"
        raise Invalid(Diagnostic("plan-file.changed", what, Location(file), hint=_AGAIN))
    try:
        model = models.PlanModel.model_validate_json(json.dumps(_raised(document)))
    except ValidationError as error:
        raise Invalid(*_field_problems(error, file)) from None
    return Plan(
        project=model.project,
        group_id=model.group_id,
        cluster_id=model.cluster_id,
        observed_ms=model.observed_ms,
        actions=tuple(action_from(action) for action in model.actions),
        warnings=tuple(diagnostic_from(each, "warning") for each in model.warnings),
        errors=tuple(diagnostic_from(each, "error") for each in model.errors),
        key_id=model.key_id,
        env=model.env,
        rolls_back=model.rolls_back,
        target=target_from(model.target),
        places={name: place_from(place) for name, place in model.places.items()},
        unchanged=tuple(
            diagnostic_from(each, "warning") for each in model.warnings if each.unchanged
        ),
    )


def unmarked(plan: Plan) -> tuple[str, ...]:
    """The secrets that the plan writes and has no fingerprints of, as `connector.key`."""
    return tuple(
        sorted(
            {
                f"{action.connector}.{key}"
                for action in plan.actions
                if isinstance(action, ConfigAction)
                for key, value in action.config.items()
                if value == Secret("")
            }
        )
    )


def check_saved(plan: Plan, *, key_comes: bool) -> tuple[Diagnostic, ...]:
    """Why a plan cannot be kept in a file and applied later; empty if it can.

    Without the project's key its secrets have no fingerprints, so they could not be compared with
    the specs. `key_comes`: it cannot have a key yet (`Live.key_comes`).
    """
    found = unmarked(plan)
    if key_comes or not found:
        return ()
    return (
        Diagnostic(
            "plan-file.no-key",
            "the project has no key, so a plan file cannot tell its secrets from others:"
            f" {', '.join(found)}",
            hint="set CONNECT_FINGERPRINT_KEY for plan and apply, or apply once without a file",
        ),
    )


def without_key_yet(plan: Plan) -> Plan:
    """The plan with a warning about secrets that its file cannot compare."""
    found = unmarked(plan)
    if not found:
        return plan
    what = "a file of this plan does not tell whether secrets change before it is applied"
    told = warning(
        "plan-file.key-to-come",
        f"{what}: {listed(found)}",
        why="the first apply makes the key of fingerprints, and takes what the specs hold then",
        hint="set CONNECT_FINGERPRINT_KEY for plan and apply to have it told from the first on",
    )
    return replace(plan, warnings=(*plan.warnings, told))


def plan_schema() -> str:
    """The JSON Schema of a plan file, as docs/plan.schema.json holds it."""
    schema = models.PlanModel.model_json_schema(mode="serialization")
    for each in schema["$defs"].values():
        if "reason_code" in each.get("required", ()):
            each["required"].remove("reason_code")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "A plan of connect",
    }
    return json.dumps(schema, indent=2) + "\n"


def _document(text: str, file: str) -> Document:
    try:
        document = json.loads(text)
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        what, why = "this is no plan: it is not JSON", getattr(error, "msg", str(error))
        where, hint = Location(file, line, column), "`connect plan --out <file>` writes one"
        raise Invalid(Diagnostic("plan-file.not-json", what, where, why, hint)) from None
    if not isinstance(document, dict) or document.get("format") != models.FORMAT:
        what = f'this is no plan: it has no "format": "{models.FORMAT}"'
        hint = "`connect plan --out <file>` writes one"
        raise Invalid(Diagnostic("plan-file.not-a-plan", what, Location(file), hint=hint))
    return document


def _check_version(document: Document, file: str) -> None:
    version = document.get("format_version")
    known = range(1, models.FORMAT_VERSION + 1)
    if type(version) is not int or version not in known:
        raise Invalid(
            Diagnostic(
                "plan-file.version",
                f"the plan has format version {version}, and this connect reads versions"
                f" 1 to {models.FORMAT_VERSION}",
                Location(file),
                hint=f"use the connect that wrote it, or {_AGAIN}",
            )
        )


def _field_problems(error: ValidationError, file: str) -> list[Diagnostic]:
    """One diagnostic a field. Its value is left out: what does not fit may be anything."""
    return [
        Diagnostic(
            "plan-file.field",
            f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}",
            Location(file),
            hint=_AGAIN,
        )
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _content_hash(document: Document) -> str:
    body = {key: value for key, value in document.items() if key != "hash"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def render_plan_json(plan: Plan) -> dict[str, object]:
    """What `connect plan --json` prints. `plan` can be saved as a plan file."""
    counts = summarize(plan)
    return {
        "changes": not plan.empty,
        "applicable": not plan.errors,
        "summary": {kind: counts.get(kind, 0) for kind in KINDS},
        "plan": plan_document(plan),
    }


# --- older versions ---


def _raised(document: Document) -> Document:
    """The document in the newest version; as it is if it is that already.

    Each step gives fields that are new in a version the value that means the same. Unknown fields
    stay, for the models to refuse.
    """
    while (step := _STEPS.get(document["format_version"])) is not None:
        document = step(document)
    return document


def _from_1(document: Document) -> Document:
    """Version 2 says what each changed key does, the environment that was planned for, and which
    apply a rollback reverses."""
    return {
        "key_id": "",
        "env": None,
        "rolls_back": None,
        **document,
        "format_version": 2,
        "actions": _each(document.get("actions"), _action_from_1),
    }


def _from_2(document: Document) -> Document:
    """Version 3 says which cluster it is by its addresses, where specs are, and which warnings
    concern only what the plan leaves as it is."""
    return {"target": None, "places": {}, **document, "format_version": 3}


def _action_from_1(action: Document) -> Document:
    if action.get("action") != "update-config":
        return action
    return {**action, "changes": _each(action.get("changes"), _change_from_1)}


def _change_from_1(change: Document) -> Document:
    return {"consequence": "none", "effect": "", **change}


def _each(items: object, step: Callable[[Document], Document]) -> object:
    """Anything but a list of objects stays: the models refuse it and say where it is."""
    if not isinstance(items, list):
        return items
    return [step(item) if isinstance(item, dict) else item for item in items]


_STEPS: Mapping[int, Callable[[Document], Document]] = {1: _from_1, 2: _from_2}
