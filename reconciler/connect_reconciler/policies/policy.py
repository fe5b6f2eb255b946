"""Policy files: one rule a YAML document, over the changes of a plan.

The rule is an expression of CEL, the Common Expression Language, which can look at the facts of
`facts.py` and at nothing else: it has no loops, no files, no clock. One that mentions `change` is
evaluated for each connector that the plan changes, any other one once for the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import cel

from connect_reconciler.policies.expression import compiled
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place
from connect_specs.fields import as_text, check_fields, required
from connect_specs.nodes import Map, Node
from connect_specs.spec_files import find_policy_files
from connect_specs.spec_folders import relative_name
from connect_specs.text_files import read_text
from connect_specs.yaml_documents import parse_yaml

Verdict: TypeAlias = Literal["deny", "warn"]

_CODE = "policy"


@dataclass(frozen=True, slots=True)
class Policy:
    """One rule: where its expression is true of a change, the plan is denied or warned of.

    `says` is for people. Days and hours in `now` are those of `timezone`.
    """

    name: str
    verdict: Verdict
    program: cel.Program = field(repr=False, compare=False)
    where: Location
    says: str = ""
    hint: str = ""
    timezone: str = "UTC"


def load_policies(project: Project) -> tuple[Policy, ...]:
    """The project's policies, by file and place. Raises Invalid with every problem in them."""
    problems: list[Diagnostic] = []
    found: list[Policy] = []
    for path in find_policy_files(project, problems):
        found.extend(_read_file(path, relative_name(path, project.folder), problems))
    seen: dict[str, Policy] = {}
    for policy in found:
        other = seen.setdefault(policy.name, policy)
        if other is not policy:
            what = f"there is a policy {policy.name!r} already"
            why = f"it stands at {other.where}"
            hint = "rename one of them"
            problems.append(Diagnostic("policy.duplicate-name", what, policy.where, why, hint))
    if problems:
        raise Invalid(*by_place(problems))
    return tuple(found)


def _read_file(path: Path, file: str, problems: list[Diagnostic]) -> list[Policy]:
    try:
        parsed = parse_yaml(read_text(path, file), file)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return []
    problems.extend(parsed.problems)
    if not parsed.documents and not parsed.problems:
        hint = "delete it, or write a rule: docs/policies.md has examples"
        where = Location(file, 1, 1)
        problems.append(Diagnostic("policy.empty-file", "no policy is in here", where, hint=hint))
    found = (_read_policy(node, problems) for node in parsed.documents)
    return [policy for policy in found if policy is not None]


def _read_policy(node: Node, problems: list[Diagnostic]) -> Policy | None:
    if not isinstance(node, Map):
        what = "a policy must be a map"
        hint = "write name:, and deny: or warn: with an expression"
        problems.append(Diagnostic("policy.not-a-map", what, node.where, hint=hint))
        return None
    fields = ("name", "deny", "warn", "says", "hint", "timezone")
    check_fields(node, fields, _CODE, "a policy", problems)
    name_node = required(node, "name", _CODE, "the policy", problems)
    texts = {
        key: as_text(value, key, _CODE, problems)
        for key in fields
        if (value := node.get(key)) is not None
    }
    rules = [key for key in ("deny", "warn") if node.get(key) is not None]
    if len(rules) != 1:
        what = "a policy needs either 'deny' or 'warn'"
        hint = "write deny: or warn: with an expression, and not both"
        problems.append(Diagnostic("policy.verdict", what, node.where, hint=hint))
        return None
    verdict: Verdict = "deny" if rules == ["deny"] else "warn"
    rule, name = node.get(verdict), texts.get("name")
    expression = texts.get(verdict)
    program = None
    if rule is not None and expression is not None:
        program = compiled(expression, rule.where, problems)
    zone = _zone_problem(texts.get("timezone"), node)
    if zone is not None:
        problems.append(zone)
    if program is None or name_node is None or name is None:
        return None
    return Policy(
        name,
        verdict,
        program,
        name_node.where,
        texts.get("says") or "",
        texts.get("hint") or "",
        texts.get("timezone") or "UTC",
    )


def _zone_problem(zone: str | None, node: Map) -> Diagnostic | None:
    if zone is None:
        return None
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        what = f"there is no time zone {zone!r}"
        hint = "write one like Europe/Berlin, or leave it out for UTC"
        return Diagnostic("policy.timezone", what, node.where, hint=hint)
    return None
