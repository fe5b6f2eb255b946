"""Evaluates a project's policies on a plan. Pure: same plan, policies and time, same verdicts.

A policy that cannot be evaluated counts as violated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from connect_reconciler.model.plan import Plan
from connect_reconciler.policies.facts import Facts, now_facts, plan_facts
from connect_reconciler.policies.policy import Policy
from connect_specs.diagnostics import Diagnostic, Severity, by_severity

_CODE = "policy."


def judge(plan: Plan, policies: Iterable[Policy], now_ms: int) -> Plan:
    """The plan with an error for each denial, and a warning for each policy that warns.

    Earlier verdicts do not count: a saved plan is judged again when it is applied.
    """
    facts = plan_facts(plan)
    if not facts["changes"]:
        policies = ()
    found = [each for policy in policies for each in _findings(policy, facts, now_ms)]
    errors, warnings = by_severity(found)
    return replace(
        plan,
        errors=(*_without_verdicts(plan.errors), *errors),
        warnings=(*_without_verdicts(plan.warnings), *warnings),
    )


def _without_verdicts(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    return (each for each in diagnostics if not each.code.startswith(_CODE))


def _findings(policy: Policy, plan: Facts, now_ms: int) -> Iterator[Diagnostic]:
    given: Facts = {"plan": plan, "now": now_facts(now_ms, policy.timezone)}
    if "change" not in policy.program.variables():
        yield from _evaluate(policy, given, "")
        return
    for change in plan["changes"]:
        yield from _evaluate(policy, given | {"change": change}, change["connector"])


def _evaluate(policy: Policy, given: Facts, connector: str) -> Iterator[Diagnostic]:
    of = f"{connector}: " if connector else ""
    verb = "denies" if policy.verdict == "deny" else "warns of"
    severity: Severity = "error" if policy.verdict == "deny" else "warning"
    try:
        violated = policy.program.execute(given)
    # The library raises what the expression calls for: KeyError, TypeError, RuntimeError, ...
    except Exception as error:
        what = f"{of}policy {policy.name} cannot be judged"
        why, hint = _why(error, given.get("change"))
        yield Diagnostic("policy.failed", what, policy.where, why, hint, severity)
        return
    if not isinstance(violated, bool):
        what = f"{of}policy {policy.name} answers with {type(violated).__name__}, not true or false"
        hint = "write a comparison, such as change.name == 'a'"
        yield Diagnostic("policy.failed", what, policy.where, "", hint, severity)
    elif violated:
        says = policy.says or f"policy {policy.name} {verb} this"
        why = f"policy {policy.name}" if policy.says else ""
        code = f"policy.{policy.verdict}"
        yield Diagnostic(code, f"{of}{says}", policy.where, why, policy.hint, severity)


def _why(error: Exception, change: Facts | None) -> tuple[str, str]:
    """Why a policy could not be evaluated, and what would help."""
    field = error.args[0] if isinstance(error, KeyError) and error.args else None
    if field in _AMOUNTS and change is not None:
        why = "how much is delivered again or skipped is not known in offsets"
        return why, "ask `change.amount_known` first: docs/policies.md has examples"
    hint = "ask `has(...)` before a field that may be missing"
    if isinstance(error, KeyError):
        return "a field is missing" if field is None else f"there is no field {field}", hint
    return str(error).partition(". ")[0], hint


_AMOUNTS = ("again", "skipped")
