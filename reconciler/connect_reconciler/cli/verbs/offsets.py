"""`connect offsets`: where a connector stands, and moving it by hand (KIP-875).

A pin in a spec does the same in a way that is reviewed and recorded; this is for when it has to be
now. Connect refuses both changes unless the connector is stopped.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connect_reconciler.cli.guarding import Force
from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import result, result_json, table
from connect_reconciler.cli.verbs.states import Name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from connect_reconciler.cluster.port import Cluster
    from connect_specs.desired import OffsetEntry, Project

offsets = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="List, alter or reset a connector's offsets. Stop it before you change them.",
)


@offsets.command("list")
def list_offsets(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show the offsets that a connector has committed."""
    from connect_reconciler.cli.clusters import cluster_of

    with cluster_of(invocation(context).project(), name, reads=True) as cluster:
        found = cluster.offsets(name)
    if as_json:
        result_json(_as_kip_875(found))
    elif found:
        rows = [[json.dumps(dict(e.partition)), _offset_text(e)] for e in found]
        result(table(["PARTITION", "OFFSET"], rows))
    else:
        result(f"{name} has committed no offsets")


@offsets.command("alter")
def alter_offsets(
    context: typer.Context,
    name: Name,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help='JSON: {"offsets": [{"partition": {...}, "offset": {...}}]}; - is stdin.',
        ),
    ] = Path("-"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Set offsets of a stopped connector; null as an offset resets that partition."""
    from connect_reconciler.cli.offsets_file import STDIN, read_offsets

    call = invocation(context)
    project = call.project()
    entries = read_offsets(file if str(file) == STDIN else call.path(file))
    with _our_cluster(project, name, force=force) as cluster:
        message = cluster.alter_offsets(name, entries)
    _say(name, message, as_json=as_json)


@offsets.command("reset")
def reset_offsets(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Forget all offsets of a stopped connector: it begins anew."""
    with _our_cluster(invocation(context).project(), name, force=force) as cluster:
        message = cluster.reset_offsets(name)
    _say(name, message, as_json=as_json)


@contextmanager
def _our_cluster(project: Project, name: str, *, force: bool) -> Iterator[Cluster]:
    """The cluster, for a change of a connector that no other project owns."""
    from connect_reconciler.cli.clusters import cluster_at
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.guarding import ensure_ours

    with client(project) as properties:
        ensure_ours(project, properties, name, force=force)
        with cluster_at(project, properties, name) as cluster:
            yield cluster


def _say(name: str, message: str, *, as_json: bool) -> None:
    if as_json:
        result_json({"connector": name, "message": message})
    else:
        result(f"{name}: {message}")


def _as_kip_875(entries: Sequence[OffsetEntry]) -> dict[str, Any]:
    return {
        "offsets": [
            {
                "partition": dict(entry.partition),
                "offset": None if entry.offset is None else dict(entry.offset),
            }
            for entry in entries
        ]
    }


def _offset_text(entry: OffsetEntry) -> str:
    return "none" if entry.offset is None else json.dumps(dict(entry.offset))
