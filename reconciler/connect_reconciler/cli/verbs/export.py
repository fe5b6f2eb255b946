"""`connect export`: connectors as other tools read them, from the specs or from the cluster."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.cli.session import Invocation, invocation
from connect_reconciler.cli.shell_completion import connector_names
from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from connect_specs.desired import DesiredConnector, Project


class Format(StrEnum):
    """Whose format it is: Connect's REST API, Connect's standalone mode, Strimzi."""

    JSON = "json"
    PROPERTIES = "properties"
    STRIMZI = "strimzi"


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
    from connect_specs.exporting import ENDINGS, export_text, lost_in

    call = invocation(context)
    found = _chosen(*_connectors(call, live=live), names or (), show_secrets=show_secrets)
    texts = {
        each.name: export_text(each, written_as.value, strimzi_cluster=strimzi_cluster)
        for each in found
    }
    for each in found:
        lost = lost_in(each, written_as.value)
        if lost:
            progress(f"{each.name}: {written_as.value} cannot hold {', '.join(lost)}")
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
    call: Invocation, *, live: bool
) -> tuple[Sequence[DesiredConnector], Mapping[str, Collection[str]]]:
    """The connectors, and which of their keys are known to be sensitive."""
    from connect_specs.loader import load_specs

    project = call.project()
    if live:
        return _live(project)
    from connect_reconciler.backend.known_plugins import local_definitions
    from connect_reconciler.backend.observe.plugin_facts import password_keys

    desired = load_specs(project)
    passwords = password_keys({}, desired, local_definitions(project), {})
    named = {
        name: frozenset(spec.sensitive) | passwords.get(name, frozenset())
        for name, spec in desired.connectors.items()
    }
    return tuple(desired.connectors.values()), named


def _live(
    project: Project,
) -> tuple[Sequence[DesiredConnector], Mapping[str, Collection[str]]]:
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.session import sensitive_by_specs
    from connect_reconciler.workflow.importing import spec_of
    from connect_reconciler.workflow.planning import observed
    from connect_specs.desired import Desired

    sensitive = sensitive_by_specs(project)
    with backend_of(project) as backend:
        live = observed(backend, Desired(project.name, {}))
    found = (spec_of(each, live, with_secrets=True) for each in live.connectors.values())
    named = {
        name: live.password_keys.get(name, frozenset()).union(sensitive(name))
        for name in live.connectors
    }
    return tuple(each.spec for each in found), named


def _chosen(
    connectors: Sequence[DesiredConnector],
    named: Mapping[str, Collection[str]],
    names: Sequence[str],
    *,
    show_secrets: bool,
) -> Sequence[DesiredConnector]:
    """The connectors of these names, or all. Raises Invalid."""
    from connect_specs.secret_values import is_sensitive

    known = {each.name for each in connectors}
    hint = "`connect status` lists this project's connectors, `connect status --all` all of them"
    problems = [
        Diagnostic("export.missing", "there is no such connector", name, hint=hint)
        for name in names
        if name not in known
    ]
    found = [each for each in connectors if not names or each.name in names]
    for each in found:
        keys = named.get(each.name, ())
        secret = [key for key, text in each.config.items() if is_sensitive(key, text, keys)]
        if secret and not show_secrets:
            what = f"secrets in plain text are not exported: {', '.join(sorted(secret))}"
            hint = "use references, ${provider:path:key}, or pass --show-secrets"
            problems.append(Diagnostic("export.secret", what, each.name, hint=hint))
    if problems:
        raise Invalid(*problems)
    return found


def _to_stdout(texts: Mapping[str, str], written_as: Format, *, as_json: bool) -> None:
    if as_json:
        result_json([{"connector": name, "text": text} for name, text in texts.items()])
    elif len(texts) != 1 and written_as is Format.JSON:
        result_json([json.loads(text) for text in texts.values()])
    elif len(texts) > 1 and written_as is Format.PROPERTIES:
        what = f"{written_as.value} holds one connector per file"
        hint = "name a folder with --out, or one connector"
        raise Invalid(Diagnostic("export.several", what, hint=hint))
    else:
        result("---\n".join(texts.values()))
