"""`connect import`: specs from what is live, and its connectors taken over by this project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from connect_reconciler.apply.report import ApplyReport
    from connect_reconciler.workflow.importing import Imported


def import_(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Connectors on the cluster.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All connectors that have no spec and no owner.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Where to write. Default: the first folder of 'specs'."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite existing files and specs.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Write specs from live connectors and adopt them: the next plan is empty.

    The connectors are not changed. Secrets are not written: their keys stay as they are on the
    cluster. Writes all files or none.
    """
    from connect_reconciler.cli.applying.terminal import Terminal
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.project_files import (
        before_creating,
        file_names,
        first_folder,
        written,
    )
    from connect_reconciler.workflow.importing import (
        adopt,
        adoption,
        choose,
        importable,
        read_back,
        spec_of,
    )
    from connect_reconciler.workflow.planning import observed
    from connect_specs.loader import load_specs
    from connect_specs.sources import to_be_filled_in
    from connect_specs.spec_folders import relative_name
    from connect_specs.values import load_values
    from connect_specs.writing import spec_text

    if bool(names) is everything:
        hint = "`connect drift` lists connectors that have no spec and no owner"
        raise Invalid(Diagnostic("usage", "name connectors, or use --all", hint=hint))
    call = invocation(context)
    project = call.project()
    folder = first_folder(project) if out is None else call.path(out)
    before = load_specs(before_creating(folder, project))
    with backend_of(project) as backend:
        live = observed(backend, before)
        wanted = importable(live, before) if everything else names or ()
        found = {
            each.name: spec_of(each, live, before.connectors.get(each.name))
            for each in choose(wanted, live, before, again=force)
        }
        files = file_names(found, ".yaml")
        values = load_values(project.folder, project.env, project.given)
        texts = {
            files[name]: to_be_filled_in(spec_text(each.spec, each.notes), values)
            for name, each in found.items()
        }
        with written(folder, texts, force=force):
            desired = read_back(project, before, found)
            plan = adoption(backend, desired)
        user = Terminal(yes=True, as_json=as_json)
        # From here on the files stay: what is adopted and has no spec would be deleted
        report = None if plan.empty else adopt(plan, backend, desired, user)
        rest = replace(
            live, connectors={n: c for n, c in live.connectors.items() if n not in found}
        )
        left = importable(rest, before)
    places = {name: relative_name(folder / file, project.folder) for name, file in files.items()}
    _tell(places, found, report, left, as_json=as_json)
    return ExitCode.OK


def _tell(
    places: Mapping[str, str],
    found: Mapping[str, Imported],
    report: ApplyReport | None,
    left: Sequence[str],
    *,
    as_json: bool,
) -> None:
    if as_json:
        result_json(
            {
                "imported": [
                    {
                        "connector": name,
                        "file": places[name],
                        "left_out": list(each.left_out),
                    }
                    for name, each in found.items()
                ],
                "apply_id": None if report is None else report.apply_id,
                "not_imported": list(left),
            }
        )
        return
    for name, each in found.items():
        out = (
            f"; left as on the cluster, not in the spec: {', '.join(each.left_out)}"
            if each.left_out
            else ""
        )
        result(f"{name}: wrote {places[name]}{out}")
    number = len(found)
    if number:
        result(f"{number} connector{'' if number == 1 else 's'} imported, unchanged on the cluster")
    else:
        result("nothing to import: every connector has a spec or an owner")
    if left:
        progress(f"not imported: {', '.join(left)} (`connect import --all` imports them)")
