"""`connect validate`: are connect.yaml, specs and policies in order? Needs no cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import result, result_json
from connect_specs.diagnostics import Invalid, by_place

if TYPE_CHECKING:
    from connect_specs.desired import Project
    from connect_specs.diagnostics import Diagnostic


def validate(context: typer.Context, as_json: AsJson = False) -> None:
    """Check connect.yaml, every spec and policy: all mistakes at once, with places and hints.

    Configs are checked against the plugins that are installed here, and those in
    plugins.lock.json. Touches nothing and asks no cluster. Exit code 2 if anything is wrong.
    """
    from connect_reconciler.cli.entry import to_json
    from connect_reconciler.observe.project_checks import check_project
    from connect_reconciler.observe.validity import check_specs
    from connect_specs.diagnostics_text import render_diagnostics
    from connect_specs.loader import read_specs

    project = invocation(context).project()
    desired, wrong_specs = read_specs(project)
    errors, warnings = check_project(project)
    refused, doubtful = check_specs(project, desired)
    errors = (*errors, *wrong_specs, *_wrong_policies(project), *refused)
    warnings = (*warnings, *desired.warnings, *doubtful)
    if errors or not as_json:
        sys.stderr.write(render_diagnostics(warnings, "warning"))
    if errors:
        raise Invalid(*by_place(dict.fromkeys(errors)))
    if as_json:
        shown = {"project": desired.project, "connectors": list(desired.connectors)}
        result_json(shown | {"warnings": to_json(warnings)})
        return
    number = len(desired.connectors)
    lines = [f"{desired.project}: {number} connector{'' if number == 1 else 's'}, no mistakes"]
    lines += [f"  {name}  {spec.where}" for name, spec in desired.connectors.items()]
    result("\n".join(lines))


def _wrong_policies(project: Project) -> tuple[Diagnostic, ...]:
    if not project.policies:
        return ()
    from connect_reconciler.policies.policy import load_policies

    try:
        load_policies(project)
    except Invalid as invalid:
        return invalid.diagnostics
    return ()
