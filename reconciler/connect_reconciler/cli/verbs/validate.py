"""`connect validate`: are connect.yaml, specs and policies in order? Needs no cluster."""

from __future__ import annotations

import sys

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import result, result_json
from connect_specs.diagnostics import Invalid, by_place


def validate(context: typer.Context, as_json: AsJson = False) -> None:
    """Check connect.yaml, every spec and policy: all mistakes at once, with places and hints.

    Configs are checked against the plugins that are installed here, and those in
    plugins.lock.json. Touches nothing and asks no cluster. Exit code 2 if anything is wrong.
    """
    from connect_reconciler.cli.entry import to_json
    from connect_reconciler.cli.reading import read_files, with_configs
    from connect_specs.diagnostics_text import render_diagnostics

    project = invocation(context).project()
    files = with_configs(project, read_files(project))
    desired = files.desired
    warnings = by_place((*desired.warnings, *files.warnings))
    if files.errors or not as_json:
        sys.stderr.write(render_diagnostics(warnings, "warning"))
    if files.errors:
        raise Invalid(*files.errors)
    if as_json:
        shown = {"project": desired.project, "connectors": list(desired.connectors)}
        result_json(shown | {"warnings": to_json(warnings)})
        return
    number = len(desired.connectors)
    lines = [f"{desired.project}: {number} connector{'' if number == 1 else 's'}, no mistakes"]
    lines += [f"  {name}  {spec.where}" for name, spec in desired.connectors.items()]
    result("\n".join(lines))
