"""A project's policies: read from files with one rule a YAML document, and judged on a plan.

The rule is an expression of CEL, the Common Expression Language, which can look at the facts of
`facts.py` and at nothing else: it has no loops, no files, no clock. One that mentions `change` is
evaluated for each connector that the plan changes, any other one once for the plan. Judging is
pure: same plan, policies and time, same verdicts. A policy that cannot be evaluated counts as
violated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import cel

from connect_reconciler.actions.plan import Plan
from connect_reconciler.policies.expression import compiled
from connect_reconciler.policies.facts import Facts, now_facts, plan_facts
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Invalid, Location, Severity, by_place, by_severity
from connect_specs.documents import Map, Node
from connect_specs.fields import Fields
from connect_specs.spec_files import find_policy_files
from connect_specs.text_files import read_text, relative_name
from connect_specs.yaml_documents import parse_yaml

Verdict: TypeAlias = Literal["deny", "warn"]

_FIELDS = ("name", "deny", "warn", "says", "hint", "timezone")
_VERDICTS: tuple[Verdict, ...] = ("deny", "warn")
_AMOUNTS = ("again", "skipped")


@dataclass(frozen=True, slots=True)
class Policy:
    """One rule: if its expression is true of a change, the plan is denied or warned of.

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
    """Returns the project's policies, by file and place. Raises Invalid with every problem."""
    problems: list[Diagnostic] = []
    policies: list[Policy] = []
    for path in find_policy_files(project, problems):
        policies.extend(_read_file(path, relative_name(path, project.folder), problems))
    by_name: dict[str, Policy] = {}
    for policy in policies:
        first = by_name.setdefault(policy.name, policy)
        if first is not policy:
            message = f"there is a policy {policy.name!r} already"
            reason = f"it stands at {first.where}"
            hint = "rename one of them"
            problems.append(
                Diagnostic("policy.duplicate-name", message, policy.where, reason, hint)
            )
    if problems:
        raise Invalid(*by_place(problems))
    return tuple(policies)


def _read_file(path: Path, file: str, problems: list[Diagnostic]) -> list[Policy]:
    try:
        parsed = parse_yaml(read_text(path, file), file)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return []
    problems.extend(parsed.problems)
    if not parsed.documents and not parsed.problems:
        hint = "delete it, or write a rule: docs/policies.md has examples"
        message, location = "no policy is in here", Location(file, 1, 1)
        problems.append(Diagnostic("policy.empty-file", message, location, hint=hint))
    policies = (_read_policy(node, problems) for node in parsed.documents)
    return [policy for policy in policies if policy is not None]


def _read_policy(node: Node, problems: list[Diagnostic]) -> Policy | None:
    if not isinstance(node, Map):
        message = "a policy must be a map"
        hint = "write name:, and deny: or warn: with an expression"
        problems.append(Diagnostic("policy.not-a-map", message, node.location, hint=hint))
        return None
    fields = Fields(node, _FIELDS, problems, code="policy", noun="the policy")
    name_node = fields.get("name", required=True)
    texts = {field: fields.text(field) for field in _FIELDS}
    rules = [verdict for verdict in _VERDICTS if fields.get(verdict) is not None]
    if len(rules) != 1:
        message = "a policy needs either 'deny' or 'warn'"
        hint = "write deny: or warn: with an expression, and not both"
        fields.report("verdict", node.location, message, hint)
        return None
    (verdict,) = rules
    rule, name, expression = fields.get(verdict), texts["name"], texts[verdict]
    program = None
    if rule is not None and expression is not None:
        program = compiled(expression, rule.location, problems)
    zone = _zone_problem(texts["timezone"], node)
    if zone is not None:
        problems.append(zone)
    if program is None or name_node is None or name is None:
        return None
    return Policy(
        name,
        verdict,
        program,
        name_node.location,
        texts["says"] or "",
        texts["hint"] or "",
        texts["timezone"] or "UTC",
    )


def _zone_problem(zone: str | None, node: Map) -> Diagnostic | None:
    if zone is None:
        return None
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"there is no time zone {zone!r}"
        hint = "write one like Europe/Berlin, or leave it out for UTC"
        return Diagnostic("policy.timezone", message, node.location, hint=hint)
    return None


# --- judging ---


def judge(
    plan: Plan,
    policies: Iterable[Policy],
    now_ms: int,
    unknown_keys: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Plan:
    """Returns the plan with an error for each denial, and a warning for each policy that warns.

    Earlier verdicts do not count: a saved plan is judged again when it is applied. `unknown_keys`
    by connector, as `Live` has them.
    """
    facts = plan_facts(plan, unknown_keys)
    if not facts["changes"]:
        policies = ()
    verdicts = (verdict for policy in policies for verdict in _verdicts(policy, facts, now_ms))
    errors, warnings = by_severity(verdicts)
    return replace(
        plan,
        errors=(*_without_verdicts(plan.errors), *errors),
        warnings=(*_without_verdicts(plan.warnings), *warnings),
    )


def _without_verdicts(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    return (problem for problem in diagnostics if not problem.code.startswith("policy."))


def _verdicts(policy: Policy, plan: Facts, now_ms: int) -> Iterator[Diagnostic]:
    facts: Facts = {"plan": plan, "now": now_facts(now_ms, policy.timezone)}
    if "change" not in policy.program.variables():
        yield from _evaluate(policy, facts, "")
        return
    for change in plan["changes"]:
        yield from _evaluate(policy, facts | {"change": change}, change["connector"])


def _evaluate(policy: Policy, facts: Facts, connector: str) -> Iterator[Diagnostic]:
    subject = f"{connector}: " if connector else ""
    verb = "denies" if policy.verdict == "deny" else "warns of"
    severity: Severity = "error" if policy.verdict == "deny" else "warning"
    try:
        violated = policy.program.execute(facts)
    # The library raises what the expression calls for: KeyError, TypeError, RuntimeError, ...
    except Exception as error:
        message = f"{subject}policy {policy.name} cannot be judged"
        reason, hint = _reason(error, facts.get("change"))
        yield Diagnostic("policy.failed", message, policy.where, reason, hint, severity)
        return
    if not isinstance(violated, bool):
        answer = type(violated).__name__
        message = f"{subject}policy {policy.name} answers with {answer}, not true or false"
        hint = "write a comparison, such as change.name == 'a'"
        yield Diagnostic("policy.failed", message, policy.where, "", hint, severity)
    elif violated:
        says = policy.says or f"policy {policy.name} {verb} this"
        reason = f"policy {policy.name}" if policy.says else ""
        code = f"policy.{policy.verdict}"
        yield Diagnostic(code, f"{subject}{says}", policy.where, reason, policy.hint, severity)


def _reason(error: Exception, change: Facts | None) -> tuple[str, str]:
    """Returns the reason why a policy could not be evaluated, and a hint."""
    field = error.args[0] if isinstance(error, KeyError) and error.args else None
    if field in _AMOUNTS and change is not None:
        reason = "how much is delivered again or skipped is not known in offsets"
        return reason, "ask `change.amount_known` first: docs/policies.md has examples"
    hint = "ask `has(...)` before a field that may be missing"
    if isinstance(error, KeyError):
        if isinstance(field, str) and not field.isidentifier():
            # `has` takes no key in brackets
            hint = f'ask `"{field}" in …` before it, as in `"{field}" in change.config`'
        return "a field is missing" if field is None else f"there is no field {field}", hint
    return str(error).partition(". ")[0], hint
