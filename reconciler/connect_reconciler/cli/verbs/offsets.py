"""`connect offsets`: lists, alters and resets a connector's offsets (KIP-875).

A pin in a spec does the same, reviewed and recorded; this verb is for emergencies. Connect
refuses both changes unless the connector is stopped.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import result, result_json, table
from connect_reconciler.cli.ownership import Force
from connect_reconciler.cli.session import invocation
from connect_reconciler.cli.verbs.states import Name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connect_reconciler.backend.port import Cluster
    from connect_specs.desired import OffsetEntry, Project

_STDIN = "-"

offsets = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="List, alter or reset a connector's offsets. Stop the connector before changing them.",
)


@offsets.command("list")
def list_offsets(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show the offsets that a connector has committed."""
    from connect_reconciler.cli.clusters import cluster_of

    with cluster_of(invocation(context).project(), name, reads=True) as cluster:
        found = cluster.offsets(name)
    if as_json:
        from connect_reconciler.ledger.records import entries_to_json

        result_json({"offsets": entries_to_json(found)})
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
    """Set offsets of a stopped connector. A null offset resets that partition."""

    call = invocation(context)
    project = call.project()
    entries = read_offsets(file if str(file) == _STDIN else call.path(file))
    with _our_cluster(project, name, force=force) as cluster:
        message = cluster.alter_offsets(name, entries)
    _say(name, message, as_json=as_json)


@offsets.command("reset")
def reset_offsets(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Reset all offsets of a stopped connector: it starts over."""
    with _our_cluster(invocation(context).project(), name, force=force) as cluster:
        message = cluster.reset_offsets(name)
    _say(name, message, as_json=as_json)


@contextmanager
def _our_cluster(project: Project, name: str, *, force: bool) -> Iterator[Cluster]:
    """The cluster, for a change of a connector that no other project owns."""
    from connect_reconciler.cli.clusters import cluster_at
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.ownership import ensure_ours

    with backend_of(project) as backend:
        ensure_ours(backend, name, force=force)
        with cluster_at(backend, name) as cluster:
            yield cluster


def _say(name: str, message: str, *, as_json: bool) -> None:
    if as_json:
        result_json({"connector": name, "message": message})
    else:
        result(f"{name}: {message}")


def _offset_text(entry: OffsetEntry) -> str:
    return "none" if entry.offset is None else json.dumps(dict(entry.offset))


def read_offsets(file: Path) -> tuple[OffsetEntry, ...]:
    """The entries of `{"offsets": [...]}`; `-` reads stdin. Raises Invalid with every mistake."""
    from connect_specs.spec_offsets import read_offsets_json
    from connect_specs.text_files import BYTES_MAX, decoded, read_text

    name = "stdin" if str(file) == _STDIN else file.name
    given = str(file) == _STDIN
    text = decoded(sys.stdin.buffer.read(BYTES_MAX + 1), name) if given else read_text(file, name)
    return read_offsets_json(text, name)
