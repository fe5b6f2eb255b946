"""`apply --rollback-on-failure`: the way back, planned and applied without being asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_reconciler.apply.report import ApplyReport, Outcome
from connect_reconciler.apply.run import ensure_fresh
from connect_reconciler.cli.applying.choices import Choices
from connect_reconciler.cli.applying.show_and_apply import carry_out
from connect_reconciler.cli.applying.way_back import find_way_back
from connect_reconciler.cli.output import progress
from connect_reconciler.cli.planning import judged
from connect_reconciler.ledger.lease import Lease
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.scope import Scope
from connect_reconciler.policies.policy import Policy
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode


@dataclass(frozen=True, slots=True)
class Undone:
    """The plan of the way back, and what became of it; what stood in the way, if anything did."""

    plan: Plan | None = None
    report: ApplyReport | None = None
    errors: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Undo:
    """How to lead back from an apply of `desired`: in the way it was applied itself."""

    project: Project
    desired: Desired
    policies: tuple[Policy, ...]
    properties: Mapping[str, str]
    choices: Choices
    lease: Lease | None

    def wanted(self, report: ApplyReport) -> bool:
        """Whether something failed, and something is to be undone. What was ended from outside is
        left as it is: the user is there, or another apply."""
        from_outside = bool(report.ended_by) or report.told_to_stop
        failed = report.exit_code == ExitCode.FAILED and not from_outside
        return failed and bool(report.counts[Outcome.DONE] + report.counts[Outcome.UNKNOWN])

    def way_back(self, apply_id: str) -> Undone:
        """Plans the way back from that apply, and goes it. Raises nothing that stands in the way:
        the apply's own report must not be lost over it."""
        progress(f"rolling back: apply {apply_id} failed")
        try:
            return self._go_back(apply_id)
        except ConnectError as error:
            return Undone(errors=error.diagnostics)

    def _go_back(self, apply_id: str) -> Undone:
        found = find_way_back(self.project, self.properties, apply_id, Scope(), self.desired)
        plan = judged(found.plan(self.project), self.policies, found.live)
        if plan.errors:
            return Undone(plan, errors=plan.errors)
        desired, live = found.way.desired, found.live
        ensure_fresh(plan, desired, self.project, live)
        report = carry_out(
            plan, self.project, desired, live, self.properties, self.choices, self.lease
        )
        return Undone(plan, report, report.ended_by)
