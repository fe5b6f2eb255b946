"""What do a project's policies say of a plan? Pure: same plan, policies and time, same verdicts.

A policy that cannot be asked of a change counts as one that was broken: what nobody could judge is
not let through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from connect_reconciler.plan.plan import Plan
from connect_reconciler.policies.facts import Facts, now_facts, plan_facts
from connect_reconciler.policies.policy import Policy
from connect_specs.diagnostics import Diagnostic

_CODE = "policy."


def judge(plan: Plan, policies: Iterable[Policy], now_ms: int) -> Plan:
    """The plan with an error for each denial, and a warning for each policy that warns.

    What was judged of it before does not count: a saved plan is judged again when it is applied.
    """
    facts = plan_facts(plan)
    errors, warnings = _unjudged(plan.errors), _unjudged(plan.warnings)
    if not facts["changes"]:
        policies = ()
    for policy in policies:
        found = errors if policy.verdict == "deny" else warnings
        found.extend(_findings(policy, facts, now_ms))
    return replace(plan, errors=tuple(errors), warnings=tuple(warnings))


def _unjudged(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [each for each in diagnostics if not each.code.startswith(_CODE)]


def _findings(policy: Policy, plan: Facts, now_ms: int) -> Iterator[Diagnostic]:
    given: Facts = {"plan": plan, "now": now_facts(now_ms, policy.timezone)}
    if "change" not in policy.program.variables():
        yield from _ask(policy, given, "")
        return
    for change in plan["changes"]:
        yield from _ask(policy, given | {"change": change}, change["connector"])


def _ask(policy: Policy, given: Facts, connector: str) -> Iterator[Diagnostic]:
    of = f"{connector}: " if connector else ""
    verb = "denies" if policy.verdict == "deny" else "warns of"
    try:
        broken = policy.program.execute(given)
    # The library raises what the expression calls for: KeyError, TypeError, RuntimeError, ...
    except Exception as error:
        what = f"{of}policy {policy.name} cannot be judged"
        why, hint = _why(error, given.get("change"))
        yield Diagnostic("policy.failed", what, policy.where, why=why, hint=hint)
        return
    if not isinstance(broken, bool):
        what = f"{of}policy {policy.name} answers with {type(broken).__name__}, not true or false"
        hint = "write a comparison, such as change.name == 'a'"
        yield Diagnostic("policy.failed", what, policy.where, hint=hint)
    elif broken:
        says = policy.says or f"policy {policy.name} {verb} this"
        why = f"policy {policy.name}" if policy.says else ""
        yield Diagnostic(f"policy.{policy.verdict}", f"{of}{says}", policy.where, why, policy.hint)


def _why(error: Exception, change: Facts | None) -> tuple[str, str]:
    """Why a policy could not be asked, and what would help."""
    field = error.args[0] if isinstance(error, KeyError) and error.args else None
    if field in _AMOUNTS and change is not None:
        why = "how much is delivered again or skipped is not known in offsets"
        return why, "ask `change.amount_known` first: docs/policies.md has examples"
    hint = "ask `has(...)` before a field that may be missing"
    if isinstance(error, KeyError):
        return "a field is missing" if field is None else f"there is no field {field}", hint
    return str(error).partition(". ")[0], hint


_AMOUNTS = ("again", "skipped")
