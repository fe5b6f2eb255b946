"""`connect validate`: are connect.yaml and all specs in order? Needs no cluster."""

from __future__ import annotations

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import result, result_json


def validate(context: typer.Context, as_json: AsJson = False) -> None:
    """Check connect.yaml and every spec: all mistakes at once, each with its place and a hint.

    Touches nothing and asks no cluster. Exit code 2 if anything is wrong.
    """
    from connect_specs.loader import load_specs

    desired = load_specs(invocation(context).project())
    if as_json:
        result_json({"project": desired.project, "connectors": list(desired.connectors)})
        return
    number = len(desired.connectors)
    lines = [f"{desired.project}: {number} connector{'' if number == 1 else 's'}, no mistakes"]
    lines += [f"  {name}  {spec.where}" for name, spec in desired.connectors.items()]
    result("\n".join(lines))
