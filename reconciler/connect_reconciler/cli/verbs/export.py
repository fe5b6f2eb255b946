"""`connect export`: connectors as other tools read them, from the specs or from the cluster."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.completing import connector_names
from connect_reconciler.cli.invocation import AsJson, Invocation, invocation
from connect_reconciler.cli.output import progress, result, result_json
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
            metavar="NAME", help="All, if none is named.", autocompletion=connector_names
        ),
    ] = None,
    written_as: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.JSON,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="A file for each connector.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="What is on the cluster, not what the specs say.")
    ] = False,
    strimzi_cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The KafkaConnect that Strimzi's label names."),
    ] = None,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Write secrets that are no references, too.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write over files that are there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write connectors as Connect's JSON, .properties or Strimzi resources.

    What a format has no place for is said. A config with a secret in clear is refused, unless you
    write --show-secrets; references such as ${file:path:key} stay as they are.
    """
    from connect_reconciler.cli.spec_folder import file_names, written
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
            progress(f"{each.name}: {written_as.value} has no place for {', '.join(lost)}")
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
    from connect_reconciler.observe.classes import password_keys
    from connect_reconciler.observe.known_plugins import at_hand

    desired = load_specs(project)
    passwords = password_keys({}, desired, at_hand(project), {})
    named = {
        name: frozenset(spec.sensitive) | passwords.get(name, frozenset())
        for name, spec in desired.connectors.items()
    }
    return tuple(desired.connectors.values()), named


def _live(
    project: Project,
) -> tuple[Sequence[DesiredConnector], Mapping[str, Collection[str]]]:
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.planning import observed
    from connect_reconciler.cli.spec_secrets import sensitive_by_specs
    from connect_reconciler.importing import spec_of
    from connect_specs.desired import Desired

    sensitive = sensitive_by_specs(project)
    with client(project) as properties:
        live = observed(project, Desired(project.name, {}), properties)
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
    problems = [
        Diagnostic("export.missing", "there is no such connector", name)
        for name in names
        if name not in known
    ]
    found = [each for each in connectors if not names or each.name in names]
    for each in found:
        keys = named.get(each.name, ())
        secret = [key for key, text in each.config.items() if is_sensitive(key, text, keys)]
        if secret and not show_secrets:
            what = f"secrets in clear are not written: {', '.join(sorted(secret))}"
            hint = "write references, ${provider:path:key}, or allow it with --show-secrets"
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
        what = f"{written_as.value} holds one connector a file"
        hint = "name a folder with --out, or one connector"
        raise Invalid(Diagnostic("export.several", what, hint=hint))
    else:
        result("---\n".join(texts.values()))
