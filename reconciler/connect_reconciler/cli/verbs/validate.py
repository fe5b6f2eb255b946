"""`connect validate`: are connect.yaml, specs and policies in order? Needs no cluster."""

from __future__ import annotations

import sys

import typer

from connect_reconciler.cli.options import AsJson, ExplainVars
from connect_reconciler.cli.output import result, result_json
from connect_reconciler.cli.session import invocation, origins_json, origins_of, origins_text
from connect_specs.diagnostics import Invalid, by_place
from connect_specs.printable import one_line


def validate(
    context: typer.Context, explain_vars: ExplainVars = False, as_json: AsJson = False
) -> None:
    """Check connect.yaml, specs and policies: reports all mistakes at once, with places and hints.

    Configs are checked against the plugins that are installed here, and those in
    plugins.lock.json. Changes nothing and needs no cluster. Exit code 2 if anything is wrong.
    """
    from connect_reconciler.cli.entry import to_json
    from connect_reconciler.workflow.planning import read_files, with_configs
    from connect_specs.diagnostics_text import render_diagnostics

    project = invocation(context).project()
    variables = origins_of(project) if explain_vars else None
    if variables is not None and not as_json:
        # Before what may be wrong: a value is often the reason
        result(origins_text(variables))
    files = with_configs(project, read_files(project))
    desired = files.desired
    warnings = by_place((*desired.warnings, *files.warnings))
    if files.errors or not as_json:
        sys.stderr.write(render_diagnostics(warnings, "warning"))
    if files.errors:
        raise Invalid(*files.errors)
    if as_json:
        shown: dict[str, object] = {
            "project": desired.project,
            "connectors": list(desired.connectors),
            "warnings": to_json(warnings),
        }
        if variables is not None:
            shown["variables"] = origins_json(variables)
        result_json(shown)
        return
    number = len(desired.connectors)
    lines = [f"{desired.project}: {number} connector{'' if number == 1 else 's'}, no mistakes"]
    lines += [f"  {name}  {spec.where}" for name, spec in desired.connectors.items()]
    result("\n".join(map(one_line, lines)))
