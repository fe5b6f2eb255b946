"""`connect import`: specs from what is live, and its connectors taken over by this project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import progress, result, result_json
from connect_specs.diagnostics import Diagnostic, ExitCode, Failed, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from connect_reconciler.apply.report import ApplyReport
    from connect_reconciler.importing import Imported
    from connect_reconciler.plan.plan import Plan
    from connect_specs.desired import Desired, Project


def import_(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Connectors on the cluster.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All connectors of no spec and no project.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Not into the first folder of 'specs'."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over files and specs that are there.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Write specs from live connectors, and adopt them: the next plan is empty.

    Changes nothing about the connectors. A secret is not written: its key is left to the cluster.
    Writes all files or none.
    """
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.planning import observed
    from connect_reconciler.cli.spec_folder import (
        before_creating,
        file_names,
        first_folder,
        written,
    )
    from connect_reconciler.importing import choose, importable, spec_of
    from connect_specs.loader import load_specs
    from connect_specs.sources import to_be_filled_in
    from connect_specs.spec_folders import relative_name
    from connect_specs.values import load_values
    from connect_specs.writing import spec_text

    if bool(names) is everything:
        hint = "`connect drift` shows those of no spec and no project"
        raise Invalid(Diagnostic("usage", "name connectors, or write --all", hint=hint))
    call = invocation(context)
    project = call.project()
    folder = first_folder(project) if out is None else call.path(out)
    before = load_specs(before_creating(folder, project))
    with client(project) as properties:
        live = observed(project, before, properties)
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
            desired = _read_back(project, before, found)
            plan = _adoption(project, desired, properties)
        # From here on the files stay: what is adopted and has no spec would be deleted
        report = None if plan.empty else _adopt(plan, project, desired, properties)
        rest = replace(
            live, connectors={n: c for n, c in live.connectors.items() if n not in found}
        )
        left = importable(rest, before)
    places = {name: relative_name(folder / file, project.folder) for name, file in files.items()}
    _tell(places, found, report, left, as_json=as_json)
    return ExitCode.OK


def _read_back(project: Project, before: Desired, found: Mapping[str, Imported]) -> Desired:
    """The specs just written, as every later plan will read them. Raises Invalid."""
    from connect_specs.diagnostics import Location
    from connect_specs.loader import load_specs

    desired = load_specs(project)
    lost = before.connectors.keys() - desired.connectors.keys()
    problems = [
        Diagnostic("import.lost", "its spec was in a file that is written over", name)
        for name in sorted(lost)
    ]
    for name, each in found.items():
        spec = desired.connectors.get(name)
        if spec is None:
            what, hint = "connect.yaml's 'specs' do not name that folder", "add it, or leave --out"
            problems.append(Diagnostic("import.not-read", what, name, hint=hint))
        elif replace(spec, where=Location(""), key_locations={}) != each.spec:
            what = "the connector's config cannot be written as a spec"
            problems.append(Diagnostic("import.not-the-same", what, name))
    if problems:
        raise Invalid(*problems)
    return replace(desired, connectors={name: desired.connectors[name] for name in found})


def _adoption(project: Project, desired: Desired, properties: Mapping[str, str]) -> Plan:
    """The plan for these connectors alone, which only adopts. Raises Invalid."""
    from connect_reconciler.cli.planning import observed, planned
    from connect_reconciler.cli.reading import policies_of
    from connect_reconciler.plan.actions import Adopt

    live = observed(project, desired, properties)
    owners = {name: live.ledger.connectors.get(name) for name in desired.connectors}
    ledger = replace(live.ledger, connectors={n: owned for n, owned in owners.items() if owned})
    plan = planned(project, desired, replace(live, ledger=ledger), policies_of(project))
    if plan.errors:
        raise Invalid(*plan.errors)
    more = {each.connector for each in plan.actions if not isinstance(each, Adopt)}
    if more:
        what = "an apply would change more than who owns it"
        hint = "an earlier apply did not end: run `connect apply` first"
        found = (Diagnostic("import.not-empty", what, name, hint=hint) for name in sorted(more))
        raise Invalid(*found)
    return plan


def _adopt(
    plan: Plan, project: Project, desired: Desired, properties: Mapping[str, str]
) -> ApplyReport:
    """Records that the connectors are this project's. Raises Failed."""
    from connect_reconciler.apply.run import apply_plan
    from connect_reconciler.cli.applying.edges import edges_for
    from connect_reconciler.cli.planning import observed
    from connect_reconciler.cli.signals import told_to_stop

    with told_to_stop() as told, edges_for(project, desired, properties, told.is_set) as edges:
        report = apply_plan(
            plan,
            desired,
            project,
            edges,
            observe=lambda: observed(project, desired, properties),
        )
    if report.exit_code is not ExitCode.OK:
        what = "the specs are written, but not all of their connectors could be adopted"
        details = (each.detail for found in report.connectors for each in found.results)
        why, hint = "; ".join(filter(None, details)), "`connect apply` adopts the rest"
        raise Failed(Diagnostic("import.not-adopted", what, None, why, hint), *report.ended_by)
    return report


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
        out = f"; left out, as on the cluster: {', '.join(each.left_out)}" if each.left_out else ""
        result(f"{name}: wrote {places[name]}{out}")
    number = len(found)
    if number:
        result(f"{number} connector{'' if number == 1 else 's'} imported, and not changed")
    else:
        result("nothing to import: each connector has a spec or a project")
    if left:
        progress(f"not imported: {', '.join(left)} (`connect import --all` imports them)")
