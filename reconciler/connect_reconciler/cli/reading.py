"""All that a project's files say, read and checked without a cluster: every mistake at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from connect_specs.diagnostics import Invalid, by_place

if TYPE_CHECKING:
    from connect_reconciler.policies.policy import Policy
    from connect_specs.desired import Desired, Project
    from connect_specs.diagnostics import Diagnostic


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
    from connect_reconciler.observe.project_checks import check_project
    from connect_specs.loader import read_specs

    desired, wrong_specs = read_specs(project)
    errors, warnings = check_project(project)
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
    from connect_reconciler.observe.validity import check_specs

    errors, warnings = check_specs(project, files.desired)
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
