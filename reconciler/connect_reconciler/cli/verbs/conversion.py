"""`connect import` and `export`: specs from live connectors, and connectors for other tools."""

from __future__ import annotations

import json
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.cli.session import Invocation, connector_names, invocation
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid
from connect_specs.plain_text import counted, render_diagnostics

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from connect_reconciler.apply.report import ApplyReport
    from connect_reconciler.workflow.importing import Imported
    from connect_specs.desired import DesiredConnector, Project


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
    cluster. Writes all files or none; --all leaves out connectors that no spec can hold, and names
    them.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.project_files import before_creating, first_folder, written
    from connect_reconciler.cli.terminal import Terminal
    from connect_reconciler.plan.checks.hidden_values import ensure_typed
    from connect_reconciler.workflow import importing
    from connect_reconciler.workflow.planning import observed
    from connect_specs.loader import load_specs
    from connect_specs.text_files import relative_name

    if bool(names) is everything:
        hint = "`connect drift` lists connectors that have no spec and no owner"
        raise Invalid(Diagnostic("usage", "name connectors, or use --all", hint=hint))
    call = invocation(context)
    project = call.project()
    folder = first_folder(project) if out is None else call.path(out)
    earlier = load_specs(before_creating(folder, project))
    with backend_of(project) as backend:
        live = observed(backend, earlier)
        candidates = importing.importable(live, earlier) if everything else names or ()
        chosen = importing.choose(candidates, live, earlier, overwrite=force)
        ensure_typed(live, (connector.name for connector in chosen), "nothing is imported")
        imported = {
            connector.name: importing.spec_of(
                connector, live, earlier.connectors.get(connector.name)
            )
            for connector in chosen
        }
        refused = importing.refused(project, live, imported)
        if refused and not everything:
            raise Invalid(*chain.from_iterable(refused.values()))
        imported = {name: entry for name, entry in imported.items() if name not in refused}
        files, texts = _spec_files(project, imported)
        with written(folder, texts, force=force):
            desired = importing.read_back(project, earlier, imported)
            plan = importing.adoption(backend, desired)
        if not plan.empty:
            number = counted(len(imported), "spec")
            progress(f"{number} written to {relative_name(folder, project.folder)}; adopting")
        user = Terminal(yes=True, as_json=as_json)
        # From here on the files stay: what is adopted and has no spec would be deleted
        report = None if plan.empty else importing.adopt(plan, backend, desired, user)
    unimported = [name for name in importing.importable(live, earlier) if name not in imported]
    places = {name: relative_name(folder / file, project.folder) for name, file in files.items()}
    _show_import(places, imported, report, unimported, refused, as_json=as_json)
    return ExitCode.OK


def _spec_files(
    project: Project, imported: Mapping[str, Imported]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Returns the file of each connector, and the text of each file."""
    from connect_reconciler.cli.project_files import file_names
    from connect_specs.documents import escape_templates
    from connect_specs.values import load_values
    from connect_specs.writing import spec_text

    files = file_names(imported, ".yaml")
    values = load_values(project.folder, project.env, project.given)
    texts = {
        files[name]: escape_templates(spec_text(entry.spec, entry.notes), values)
        for name, entry in imported.items()
    }
    return files, texts


def _show_import(
    places: Mapping[str, str],
    imported: Mapping[str, Imported],
    report: ApplyReport | None,
    unimported: Sequence[str],
    refused: Mapping[str, Sequence[Diagnostic]],
    *,
    as_json: bool,
) -> None:
    if refused:
        problems = chain.from_iterable(refused.values())
        progress(render_diagnostics(problems, "warning").rstrip("\n"))
    if as_json:
        result_json(
            {
                "imported": [
                    {
                        "connector": name,
                        "file": places[name],
                        "left_out": list(entry.left_out),
                    }
                    for name, entry in imported.items()
                ],
                "apply_id": None if report is None else report.apply_id,
                "not_imported": list(unimported),
                "refused": [
                    {"connector": name, "code": diagnostic.code, "what": diagnostic.what}
                    for name, problems in refused.items()
                    for diagnostic in problems
                ],
            }
        )
        return
    for name, entry in imported.items():
        out = (
            f"; left as on the cluster, not in the spec: {', '.join(entry.left_out)}"
            if entry.left_out
            else ""
        )
        result(f"{name}: wrote {places[name]}{out}")
    if imported:
        result(f"{counted(len(imported), 'connector')} imported, unchanged on the cluster")
    else:
        result("nothing to import: every connector has a spec or an owner")
    if refused:
        progress(f"not imported: {', '.join(refused)}: these stay without a spec and an owner")
    elif unimported:
        progress(f"not imported: {', '.join(unimported)} (`connect import --all` imports them)")


class Format(StrEnum):
    """A format of Connect's REST API, of Connect's standalone mode, or of Strimzi."""

    JSON = "json"
    PROPERTIES = "properties"
    STRIMZI = "strimzi"


class StrimziApi(StrEnum):
    """The versions of Strimzi's API that have KafkaConnector."""

    V1 = "v1"
    V1BETA2 = "v1beta2"


def export(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Connectors to export. Default: all.",
            autocompletion=connector_names,
        ),
    ] = None,
    written_as: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.JSON,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write one file per connector into FOLDER."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Export from the cluster instead of the specs.")
    ] = False,
    strimzi_cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The KafkaConnect resource that the connectors belong to."
        ),
    ] = None,
    strimzi_version: Annotated[
        StrimziApi, typer.Option(help="API version of Strimzi; before Strimzi 0.49 v1beta2.")
    ] = StrimziApi.V1,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Also write secrets that are in plain text.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export connectors as Connect's JSON, .properties or Strimzi resources.

    Settings that a format cannot hold are reported. A config with a secret in plain text is
    refused unless you pass --show-secrets; references such as ${file:path:key} stay as they are.
    """
    from connect_reconciler.cli.project_files import file_names, written
    from connect_specs.writing import ENDINGS, export_text, lost_in

    call = invocation(context)
    connectors, sensitive = _connectors(call, live=live, of=names or (), show_secrets=show_secrets)
    exported = _chosen(connectors, sensitive, names or (), show_secrets=show_secrets)
    texts = {
        connector.name: export_text(
            connector,
            written_as.value,
            strimzi_cluster=strimzi_cluster,
            strimzi_version=strimzi_version.value,
        )
        for connector in exported
    }
    for connector in exported:
        lost = lost_in(connector, written_as.value)
        if lost:
            progress(f"{connector.name}: {written_as.value} cannot hold {', '.join(lost)}")
    if out is None:
        _to_stdout(texts, written_as, as_json=as_json)
        return
    files = file_names(texts, ENDINGS[written_as.value])
    mode = 0o600 if show_secrets else 0o666
    with written(call.path(out), {files[n]: t for n, t in texts.items()}, force=force, mode=mode):
        pass
    places = {name: str(out / file) for name, file in files.items()}
    if as_json:
        result_json([{"connector": name, "file": place} for name, place in places.items()])
    else:
        result("".join(f"{name}: wrote {place}\n" for name, place in places.items()))


def _connectors(
    call: Invocation, *, live: bool, of: Sequence[str], show_secrets: bool
) -> tuple[Sequence[DesiredConnector], Mapping[str, Collection[str]]]:
    """Returns the connectors, and their keys that are known to be sensitive."""
    from connect_specs.loader import load_specs

    project = call.project()
    if live:
        return _live(project, of, show_secrets=show_secrets)
    from connect_reconciler.backend.plugins import local_definitions
    from connect_specs.plugin_definitions import passwords_in

    desired = load_specs(project)
    plugins = local_definitions(project)
    sensitive = {
        name: frozenset(spec.sensitive) | passwords_in(spec.config, plugins)
        for name, spec in desired.connectors.items()
    }
    return tuple(desired.connectors.values()), sensitive


def _live(
    project: Project, names: Sequence[str], *, show_secrets: bool
) -> tuple[Sequence[DesiredConnector], Mapping[str, Collection[str]]]:
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.session import secrets_of_specs
    from connect_reconciler.plan.checks.hidden_values import ensure_typed
    from connect_reconciler.workflow.importing import spec_of
    from connect_reconciler.workflow.planning import observed
    from connect_specs.desired import Desired

    secrets = secrets_of_specs(project)
    with backend_of(project) as backend:
        live = observed(backend, Desired(project.name, {}))
    if not show_secrets:
        ensure_typed(live, names or live.connectors, "nothing is exported")
    imported = (
        spec_of(connector, live, with_secrets=True) for connector in live.connectors.values()
    )
    sensitive = {
        name: live.password_keys.get(name, frozenset()).union(secrets.keys(name))
        for name in live.connectors
    }
    return tuple(entry.spec for entry in imported), sensitive


def _chosen(
    connectors: Sequence[DesiredConnector],
    sensitive: Mapping[str, Collection[str]],
    names: Sequence[str],
    *,
    show_secrets: bool,
) -> Sequence[DesiredConnector]:
    """Returns the connectors of these names, or all. Raises Invalid."""
    from connect_specs.secrets import is_sensitive

    existing = {connector.name for connector in connectors}
    hint = "`connect status` lists this project's connectors, `connect status --all` all of them"
    problems = [
        Diagnostic("export.missing", "there is no such connector", name, hint=hint)
        for name in names
        if name not in existing
    ]
    selected = [connector for connector in connectors if not names or connector.name in names]
    for connector in selected:
        keys = sensitive.get(connector.name, ())
        secret = [key for key, text in connector.config.items() if is_sensitive(key, text, keys)]
        if secret and not show_secrets:
            problem = f"secrets in plain text are not exported: {', '.join(sorted(secret))}"
            hint = "use references, ${provider:path:key}, or pass --show-secrets"
            problems.append(Diagnostic("export.secret", problem, connector.name, hint=hint))
    if problems:
        raise Invalid(*problems)
    return selected


def _to_stdout(texts: Mapping[str, str], written_as: Format, *, as_json: bool) -> None:
    if as_json:
        result_json([{"connector": name, "text": text} for name, text in texts.items()])
    elif len(texts) != 1 and written_as is Format.JSON:
        result_json([json.loads(text) for text in texts.values()])
    elif len(texts) > 1 and written_as is Format.PROPERTIES:
        problem = f"{written_as.value} holds one connector per file"
        hint = "name a folder with --out, or one connector"
        raise Invalid(Diagnostic("export.several", problem, hint=hint))
    else:
        result("---\n".join(texts.values()))
