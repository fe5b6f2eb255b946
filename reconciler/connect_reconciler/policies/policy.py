"""Policy files: one rule a YAML document, over the changes of a plan.

The rule is an expression of CEL, the Common Expression Language, which can look at the facts of
`facts.py` and at nothing else: it has no loops, no files, no clock. One that mentions `change` is
asked of every connector that the plan changes, another one once of the whole plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import cel

from connect_reconciler.policies.facts import NAMES
from connect_reconciler.policies.names import bound_names, slips
from connect_reconciler.policies.shape import SAMPLE
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place
from connect_specs.fields import as_text, check_fields, did_you_mean, required
from connect_specs.nodes import Map, Node
from connect_specs.spec_files import find_policy_files
from connect_specs.spec_folders import relative_name
from connect_specs.text_files import read_text
from connect_specs.yaml_documents import parse_yaml

Verdict: TypeAlias = Literal["deny", "warn"]

_CODE = "policy"
_LONGEST = 10_000
_NO_FUNCTION = "Undefined variable or function"


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
        program = _compiled(expression, rule.where, problems)
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


def _compiled(expression: str, where: Location, problems: list[Diagnostic]) -> cel.Program | None:
    """The expression if it can be asked, as far as that can be told before there is a plan."""
    if len(expression) > _LONGEST:
        what = f"the expression has more than {_LONGEST} characters"
        hint = "make several policies of it"
        problems.append(Diagnostic("policy.too-long", what, where, hint=hint))
        return None
    try:
        program = cel.compile(expression)
    except ValueError as error:
        why = str(error).partition("ERROR: ")[2] or str(error)
        what = "the expression is not one of CEL"
        hint = "an expression is like: change.does.exists(d, d == 'delete')"
        problems.append(Diagnostic("policy.syntax", what, where, why=why.strip(), hint=hint))
        return None
    wrong = list(_misnamed(expression, program, where)) or list(_untyped(program, where))
    problems.extend(wrong)
    return None if wrong else program


def _misnamed(expression: str, program: cel.Program, where: Location) -> Iterator[Diagnostic]:
    unknown = sorted(set(program.variables()) - set(NAMES) - bound_names(expression))
    if unknown:
        what = f"the expression uses {', '.join(unknown)}, which a policy does not know"
        hint = did_you_mean(unknown[0], NAMES)
        yield Diagnostic("policy.unknown-name", what, where, hint=hint)
    for slip in slips(expression):
        yield Diagnostic("policy.unknown-field", slip.what, where, hint=slip.hint)


def _untyped(program: cel.Program, where: Location) -> Iterator[Diagnostic]:
    """What fails on a sample for another reason than what the sample holds."""
    what, why = "", ""
    try:
        answer = program.execute(SAMPLE)
        if not isinstance(answer, bool):
            what = f"the expression answers with {type(answer).__name__}, not true or false"
    except TypeError as error:
        what, why = "the expression mixes types", str(error).partition(". ")[0]
    except RuntimeError as error:
        if str(error).startswith(_NO_FUNCTION):
            what, why = "the expression calls what is no function", str(error).partition(". ")[0]
    # Keys and elements that this sample has not, a plan may have
    except Exception:
        return
    if what:
        hint = "docs/policies.md lists what an expression may use, and its types"
        yield Diagnostic("policy.type", what, where, why, hint)


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
