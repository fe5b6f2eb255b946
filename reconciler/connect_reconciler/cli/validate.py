"""`connect validate`: are connect.yaml, specs and policies in order? Needs no cluster."""

from __future__ import annotations

import sys

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import result, result_json
from connect_specs.diagnostics import Invalid


def validate(context: typer.Context, as_json: AsJson = False) -> None:
    """Check connect.yaml, every spec and policy: all mistakes at once, with places and hints.

    Configs are checked against the plugins that are installed here, and those in
    plugins.lock.json. Touches nothing and asks no cluster. Exit code 2 if anything is wrong.
    """
    from connect_reconciler.cli.entry import to_json
    from connect_reconciler.observe.validity import check_specs
    from connect_specs.diagnostics_text import render_diagnostics
    from connect_specs.loader import load_specs

    project = invocation(context).project()
    desired = load_specs(project)
    if project.policies:
        from connect_reconciler.policies.policy import load_policies

        load_policies(project)
    errors, warnings = check_specs(project, desired)
    if errors:
        raise Invalid(*errors)
    if as_json:
        shown = {"project": desired.project, "connectors": list(desired.connectors)}
        result_json(shown | {"warnings": to_json(warnings)})
        return
    sys.stderr.write(render_diagnostics(warnings, "warning"))
    number = len(desired.connectors)
    lines = [f"{desired.project}: {number} connector{'' if number == 1 else 's'}, no mistakes"]
    lines += [f"  {name}  {spec.where}" for name, spec in desired.connectors.items()]
    result("\n".join(lines))
