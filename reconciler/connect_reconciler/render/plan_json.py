"""A plan as JSON for programs: the summary, then the plan exactly as a plan file holds it."""

from __future__ import annotations

from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.plan_file.file import plan_document
from connect_reconciler.plan.summary import KINDS, summarize


def render_plan_json(plan: Plan) -> dict[str, object]:
    """What `connect plan --json` prints. `plan` can be saved as a plan file."""
    counts = summarize(plan)
    return {
        "changes": not plan.empty,
        "applicable": not plan.errors,
        "summary": {kind: counts.get(kind, 0) for kind in KINDS},
        "plan": plan_document(plan),
    }
