"""From a project's files and its cluster to a plan that the policies have judged.

The files are read and checked without a cluster: every mistake is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from connect_reconciler.actions.plan import Plan, target_of
from connect_reconciler.backend.backend import Backend
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.scope import Scope, narrowed
from connect_reconciler.validation.configs import check_project, check_specs, checked
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, Invalid, by_place, by_severity
from connect_specs.loader import read_specs

if TYPE_CHECKING:
    # It imports the language of rules, which takes a fifth of a second
    from connect_reconciler.policies.policy import Policy


def observed(backend: Backend, desired: Desired, scope: Scope | None = None) -> Live:
    """The cluster as it is now, and what is wrong with the configs that it is to get.

    Raises Invalid for properties in connect.yaml that cannot be used.
    """
    errors, warnings = by_severity(check_project(backend.project))
    if errors:
        raise Invalid(*errors)
    seen = backend.observe(desired)
    live = replace(seen, warnings=(*warnings, *seen.warnings))
    part = desired if scope is None else narrowed(desired, live, scope)[0]
    return checked(live, part, backend)


def planned(
    project: Project,
    desired: Desired,
    live: Live,
    policies: tuple[Policy, ...],
    scope: Scope | None = None,
) -> Plan:
    """The plan from there to the specs, judged by the project's policies."""
    made = make_plan(
        desired,
        live,
        group_id=project.group_id,
        worker=project.worker,
        scope=scope,
        env=project.env,
        deletes=project.deletes,
        overrides=project.overrides,
    )
    return judged(replace(made, target=target_of(project)), policies, live)


def judged(plan: Plan, policies: tuple[Policy, ...], live: Live) -> Plan:
    """The plan with what the policies say of it now."""
    if not policies:
        return plan
    from connect_reconciler.policies.policy import judge

    return judge(plan, policies, live.now_ms, live.unknown_keys)


@dataclass(frozen=True, slots=True)
class Files:
    """The specs in which nothing is wrong, the policies, and what is wrong, by place.

    `warnings` are those that `Desired` does not carry.
    """

    desired: Desired
    policies: tuple[Policy, ...]
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


def specs_and_policies(project: Project) -> tuple[Desired, tuple[Policy, ...]]:
    """What a plan is made from. Raises Invalid with every mistake in the project's files.

    Configs that were read are looked at only beside other mistakes: alone they are the plan's to
    judge, which shows the diff as well.
    """
    files = read_files(project)
    if files.errors:
        raise Invalid(*with_configs(project, files).errors)
    return files.desired, files.policies


def read_files(project: Project) -> Files:
    """connect.yaml, specs and policies; what the configs hold is not judged."""
    desired, wrong_specs = read_specs(project)
    errors, warnings = by_severity(check_project(project))
    policies: tuple[Policy, ...] = ()
    wrong_policies: tuple[Diagnostic, ...] = ()
    try:
        policies = policies_of(project)
    except Invalid as invalid:
        wrong_policies = invalid.diagnostics
    found = dict.fromkeys((*errors, *wrong_specs, *wrong_policies))
    return Files(desired, policies, tuple(by_place(found)), warnings)


def with_configs(project: Project, files: Files) -> Files:
    """The same, with what can be said of configs and pins by what is known here."""
    errors, warnings = by_severity(check_specs(project, files.desired))
    return Files(
        files.desired,
        files.policies,
        tuple(by_place((*files.errors, *errors))),
        (*files.warnings, *warnings),
    )


def policies_of(project: Project) -> tuple[Policy, ...]:
    """The project's policies. Raises Invalid for a bad one."""
    if not project.policies:
        return ()
    from connect_reconciler.policies.policy import load_policies

    return load_policies(project)
