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
from connect_reconciler.plan.scope import ALL, Scope, in_scope
from connect_reconciler.validation.configs import check_project, check_specs, checked
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, Invalid, by_place, by_severity
from connect_specs.loader import read_specs

if TYPE_CHECKING:
    # It imports the language of rules, which takes a fifth of a second
    from connect_reconciler.policies.policy import Policy


def observed(backend: Backend, desired: Desired, scope: Scope = ALL) -> Live:
    """Observes the cluster once, and validates the configs that it is to get. Raises Invalid for
    properties in connect.yaml that cannot be used, before the cluster is asked."""
    project_warnings(backend.project)
    return validated(backend, desired, backend.observe(desired), scope)


def validated(backend: Backend, desired: Desired, live: Live, scope: Scope = ALL) -> Live:
    """Returns `live` with the problems of connect.yaml and of the configs that are to be written.
    Raises Invalid as `observed` does."""
    live = replace(live, warnings=(*project_warnings(backend.project), *live.warnings))
    return checked(live, in_scope(desired, live, scope)[0], backend)


def project_warnings(project: Project) -> tuple[Diagnostic, ...]:
    """Returns the warnings about connect.yaml. Raises Invalid for properties that cannot be
    used."""
    errors, warnings = by_severity(check_project(project))
    if errors:
        raise Invalid(*errors)
    return warnings


def planned(
    project: Project,
    desired: Desired,
    live: Live,
    policies: tuple[Policy, ...],
    scope: Scope = ALL,
) -> Plan:
    """Returns the plan from there to the specs, judged by the policies."""
    plan = make_plan(
        desired,
        live,
        group_id=project.group_id,
        worker=project.worker,
        scope=scope,
        env=project.env,
        deletes=project.deletes,
        overrides=project.overrides,
    )
    return judged(replace(plan, target=target_of(project)), policies, live)


def judged(plan: Plan, policies: tuple[Policy, ...], live: Live) -> Plan:
    """Returns the plan with the verdicts of the policies."""
    if not policies:
        return plan
    from connect_reconciler.policies.policy import judge

    return judge(plan, policies, live.now_ms, live.unknown_keys)


@dataclass(frozen=True, slots=True)
class Files:
    """The specs without mistakes, the policies, and the mistakes by place.

    `warnings` are those that `Desired` does not carry.
    """

    desired: Desired
    policies: tuple[Policy, ...]
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


def specs_and_policies(project: Project) -> tuple[Desired, tuple[Policy, ...]]:
    """Reads the specs and policies of a project. Raises Invalid with every mistake in its files.

    Configs are checked only if there are other mistakes: else the plan checks them, which shows the
    diff as well.
    """
    files = read_files(project)
    if files.errors:
        raise Invalid(*with_configs(project, files).errors)
    return files.desired, files.policies


def read_files(project: Project) -> Files:
    """Reads connect.yaml, specs and policies; configs are not checked."""
    desired, wrong_specs = read_specs(project)
    errors, warnings = by_severity(check_project(project))
    policies: tuple[Policy, ...] = ()
    wrong_policies: tuple[Diagnostic, ...] = ()
    try:
        policies = policies_of(project)
    except Invalid as invalid:
        wrong_policies = invalid.diagnostics
    problems = dict.fromkeys((*errors, *wrong_specs, *wrong_policies))
    return Files(desired, policies, tuple(by_place(problems)), warnings)


def with_configs(project: Project, files: Files) -> Files:
    """Returns the files with the problems of configs and pins that need no cluster."""
    errors, warnings = by_severity(check_specs(project, files.desired))
    return Files(
        files.desired,
        files.policies,
        tuple(by_place((*files.errors, *errors))),
        (*files.warnings, *warnings),
    )


def policies_of(project: Project) -> tuple[Policy, ...]:
    """Reads the project's policies. Raises Invalid for a policy that cannot be used."""
    if not project.policies:
        return ()
    from connect_reconciler.policies.policy import load_policies

    return load_policies(project)
