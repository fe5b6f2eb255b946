"""A plan as a JSON file, and back. The file is bound to its content by a hash.

Actions and what they rely on are written as their own classes say. Reading refuses what it does not
know rather than guessing: another format, a changed file, an unknown field.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from connect_reconciler.actions import AnyAction, ConfigAction
from connect_reconciler.actions.plan import KINDS, Plan, Target, summarize
from connect_reconciler.model.config_values import Secret
from connect_specs.diagnostics import Diagnostic, Invalid, Location, Severity, warning
from connect_specs.plain_text import listed

Document: TypeAlias = dict[str, Any]

FORMAT: Final = "connect-plan"
FORMAT_VERSION: Final = 1

_MAKE_AGAIN = "make the plan again"
# 1 January 10000, the first time that no calendar here can show
_CALENDAR_END_MS = 253_402_300_800_000


class _FileModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PlanError(_FileModel):
    """An error or a warning. `where` is a place in a file, or the name of something else."""

    code: str
    what: str
    where: Location | str | None = None
    why: str = ""
    hint: str = ""


class PlanWarning(PlanError):
    """A warning. `unchanged`: it concerns only what the plan leaves as it is."""

    unchanged: bool = False


class PlanFile(_FileModel):
    """A plan: what an apply would do, in order, and what it relies on."""

    format: Literal["connect-plan"] = FORMAT
    format_version: Literal[1] = FORMAT_VERSION
    hash: str = Field(description="SHA-256 over the rest, as JSON with sorted keys and no spaces")
    project: str
    group_id: str
    cluster_id: str
    observed_ms: int = Field(ge=0, lt=_CALENDAR_END_MS, description="milliseconds since 1970")
    key_id: str
    env: str | None
    rolls_back: str | None = None
    target: Target | None
    places: dict[str, Location] = Field(description="by connector, where its spec is")
    actions: tuple[AnyAction, ...]
    warnings: tuple[PlanWarning, ...]
    errors: tuple[PlanError, ...]


# The fields that a file has as the plan does
_SHARED: Final = tuple(
    PlanFile.model_fields.keys() & Plan.__dataclass_fields__.keys() - {"warnings", "errors"}
)


def plan_document(plan: Plan) -> Document:
    """Returns the plan as the JSON object that a plan file holds."""
    unchanged = frozenset(plan.unchanged)
    body = PlanFile.model_construct(
        hash="",
        warnings=tuple(
            PlanWarning(**_fields(diagnostic), unchanged=diagnostic in unchanged)
            for diagnostic in plan.warnings
        ),
        errors=tuple(PlanError(**_fields(diagnostic)) for diagnostic in plan.errors),
        **{name: getattr(plan, name) for name in _SHARED},
    ).model_dump(mode="json", by_alias=True)
    return {**body, "hash": _content_hash(body)}


def dump_plan(plan: Plan) -> str:
    """Returns the text of a plan file."""
    return json.dumps(plan_document(plan), indent=2, ensure_ascii=False) + "\n"


def plan_hash(plan: Plan) -> str:
    """Returns the hash of the plan's file."""
    return str(plan_document(plan)["hash"])


def load_plan(text: str, file: str = "plan") -> Plan:
    """Returns the plan in a plan file; `file` names it in errors. Raises Invalid."""
    try:
        return _plan_of(_checked_file(_document(text, file), file))
    except RecursionError:
        message = "this is no plan: it is nested too deeply"
        problem = Diagnostic("plan-file.too-deep", message, Location(file), hint=_MAKE_AGAIN)
        raise Invalid(problem) from None


def _checked_file(document: Document, file: str) -> PlanFile:
    version = document.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        text = f"the plan has format version {version}; this connect reads version {FORMAT_VERSION}"
        hint = f"use the connect that wrote it, or {_MAKE_AGAIN}"
        raise Invalid(Diagnostic("plan-file.version", text, Location(file), hint=hint))
    if document.get("hash") != _content_hash(document):
        message = "the plan is not as it was written: its content does not fit its hash"
        raise Invalid(Diagnostic("plan-file.changed", message, Location(file), hint=_MAKE_AGAIN))
    try:
        return PlanFile.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise Invalid(*_field_problems(error, file)) from None


def _plan_of(saved: PlanFile) -> Plan:
    return Plan(
        warnings=tuple(_diagnostic(problem, "warning") for problem in saved.warnings),
        errors=tuple(_diagnostic(problem, "error") for problem in saved.errors),
        unchanged=tuple(
            _diagnostic(problem, "warning") for problem in saved.warnings if problem.unchanged
        ),
        **{name: getattr(saved, name) for name in _SHARED},
    )


def _fields(diagnostic: Diagnostic) -> dict[str, Any]:
    return {field: getattr(diagnostic, field) for field in PlanError.model_fields}


def _diagnostic(saved: PlanError, severity: Severity) -> Diagnostic:
    return Diagnostic(saved.code, saved.what, saved.where, saved.why, saved.hint, severity)


def unmarked(plan: Plan) -> tuple[str, ...]:
    """Returns the secrets that the plan writes without fingerprints, as `connector.key`."""
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


def ensure_secrets_have_fingerprints(plan: Plan, *, key_comes: bool) -> None:
    """Raises Invalid for a plan that cannot be kept in a file and applied later: without the
    project's key its secrets have no fingerprints, so they could not be compared with the specs.
    `key_comes`: it cannot have a key yet (`Live.key_comes`)."""
    secrets = unmarked(plan)
    if secrets and not key_comes:
        message = "the project has no key, so a plan file cannot tell its secrets from others:"
        hint = "set CONNECT_FINGERPRINT_KEY for plan and apply, or apply once without a file"
        raise Invalid(Diagnostic("plan-file.no-key", f"{message} {', '.join(secrets)}", hint=hint))


def without_key_yet(plan: Plan) -> Plan:
    """Returns the plan with a warning about secrets that its file cannot compare."""
    secrets = unmarked(plan)
    if not secrets:
        return plan
    message = "a file of this plan does not tell whether secrets change before it is applied"
    key_to_come = warning(
        "plan-file.key-to-come",
        f"{message}: {listed(secrets)}",
        why="the first apply makes the key of fingerprints, and takes what the specs hold then",
        hint="set CONNECT_FINGERPRINT_KEY for plan and apply to have it told from the first on",
    )
    return replace(plan, warnings=(*plan.warnings, key_to_come))


def plan_schema() -> str:
    """Returns the JSON Schema of a plan file, as docs/plan.schema.json holds it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **PlanFile.model_json_schema(mode="serialization"),
        "title": "A plan of connect",
    }
    return json.dumps(schema, indent=2) + "\n"


def _document(text: str, file: str) -> Document:
    try:
        document = json.loads(text)
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        message, reason = "this is no plan: it is not JSON", getattr(error, "msg", str(error))
        location, hint = Location(file, line, column), "`connect plan --out <file>` writes one"
        raise Invalid(Diagnostic("plan-file.not-json", message, location, reason, hint)) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        message = f'this is no plan: it has no "format": "{FORMAT}"'
        hint = "`connect plan --out <file>` writes one"
        raise Invalid(Diagnostic("plan-file.not-a-plan", message, Location(file), hint=hint))
    return document


def _field_problems(error: ValidationError, file: str) -> list[Diagnostic]:
    """Returns one diagnostic a field. Its value is left out: it may be a secret."""
    return [
        Diagnostic(
            "plan-file.field",
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}",
            Location(file),
            hint=_MAKE_AGAIN,
        )
        for problem in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _content_hash(document: Document) -> str:
    body = {key: value for key, value in document.items() if key != "hash"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def render_plan_json(plan: Plan) -> dict[str, object]:
    """Returns the JSON of `connect plan --json`. Its `plan` can be saved as a plan file."""
    counts = summarize(plan)
    return {
        "changes": not plan.empty,
        "applicable": not plan.errors,
        "summary": {kind: counts.get(kind, 0) for kind in KINDS},
        "plan": plan_document(plan),
    }
