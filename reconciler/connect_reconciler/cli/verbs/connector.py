"""`connect stop`, `pause`, `resume`, `delete` and `offsets`: Connect's own verbs on one connector.

They change the cluster and no file: the next plan shows what differs from the specs. A connector
that another project owns is refused. A pin in a spec moves offsets, too, reviewed and recorded;
`offsets` is for emergencies.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import NAME, AsJson, Force, Yes
from connect_reconciler.cli.output import confirmed, progress, result, result_json
from connect_reconciler.cli.session import invocation
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Diagnostic, ExitCode, Failed, Invalid
from connect_specs.plain_text import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from connect_reconciler.backend.backend import Backend, Cluster
    from connect_reconciler.cli.connector_access import Known
    from connect_specs.desired import OffsetEntry


Name = Annotated[str, NAME]

RESTARTED = "restarted"
_STOP_S = 30.0
_LOOK_EVERY_S = 0.1
_STDIN = "-"


def stop(context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False) -> None:
    """Stop a connector and wait until its tasks have ended; its offsets can then be altered."""
    _go_to(context, name, TargetState.STOPPED, force=force, as_json=as_json)


def pause(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Pause a connector: its tasks process nothing until it is resumed."""
    _go_to(context, name, TargetState.PAUSED, force=force, as_json=as_json)


def resume(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Resume a paused or stopped connector."""
    _go_to(context, name, TargetState.RUNNING, force=force, as_json=as_json)


def delete(
    context: typer.Context,
    name: Name,
    yes: Yes = False,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Delete a connector from the cluster: shows what is deleted and what stays, and asks.

    Its offsets and its spec stay, so the next apply creates it again. Refuses connectors that
    prevent_delete protects, and those of other projects.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.connector_access import (
        cluster_at,
        ensure_owner,
        ensure_owner_seen,
        ensure_unprotected,
        known,
    )

    if not yes and not sys.stdin.isatty():
        problem = "stdin is not a terminal, so the deletion cannot be confirmed"
        hint = "to delete it without confirmation, run this again with --yes"
        raise Invalid(Diagnostic("delete.nobody-to-ask", problem, name, hint=hint))
    project = invocation(context).project()
    with backend_of(project) as backend:
        connector = known(backend, name)
        if not force:
            ensure_owner(connector, project)
            ensure_owner_seen(connector, project)
        ensure_unprotected(connector)
        # One that is not there is for the cluster to say
        if connector.config is not None and not yes and not _confirmed(connector, backend):
            progress("not deleted")
            return ExitCode.FAILED
        with cluster_at(backend, name) as cluster:
            cluster.delete(name)
            runs = cluster.runs_tasks
    _report(name, "deleted", runs=runs, as_json=as_json)
    return ExitCode.OK


def _confirmed(connector: Known, backend: Backend) -> bool:
    place = f"group {backend.address}" if backend.project.uses_runtime else backend.address
    from connect_reconciler.cli.connector_access import OWNERS_UNSEEN

    owner = "it belongs to no project"
    if connector.owned is not None:
        owner = f"it belongs to project {connector.owned.project}"
    elif backend.project.rest_only:
        owner = OWNERS_UNSEEN
    progress(f"- {connector.name}: delete, from {place}; {owner}")
    progress("    → its tasks end")
    progress("    → its offsets stay: a new connector with this name continues from them")
    progress("    → no file is changed: if a spec names it, the next apply creates it again")
    return confirmed(f"Delete {connector.name}?")


def _go_to(
    context: typer.Context, name: str, target: TargetState, *, force: bool, as_json: bool
) -> None:
    def act(cluster: Cluster) -> None:
        cluster.set_target(name, target)
        if target is TargetState.STOPPED and cluster.runs_tasks:
            _wait_until_stopped(cluster, name)

    act_on(context, name, target.value, act, force=force, as_json=as_json)


def act_on(
    context: typer.Context,
    name: str,
    done: str,
    act: Callable[[Cluster], None],
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Acts on a connector and reports it as `done`, in one word; `force` ignores its owner."""
    with _cluster_of(context, name, force=force) as cluster:
        act(cluster)
        runs = cluster.runs_tasks
    _report(name, done, runs=runs, as_json=as_json)


def _cluster_of(
    context: typer.Context, name: str, *, reads: bool = False, force: bool = True
) -> AbstractContextManager[Cluster]:
    from connect_reconciler.cli.connector_access import cluster_of

    return cluster_of(invocation(context).project(), name, reads=reads, force=force)


def _report(name: str, done: str, *, runs: bool, as_json: bool) -> None:
    if as_json:
        result_json({"connector": name, "asked": done, "runtime_up": runs})
    elif done == RESTARTED and not runs:
        result(f"{name}: nothing runs, because no runtime is up")
    else:
        later = "" if runs else " (no runtime is up: takes effect when one starts)"
        result(f"{name}: {done}{later}")


def _wait_until_stopped(cluster: Cluster, name: str) -> None:
    from connect_reconciler.apply.health import still_running

    deadline = time.monotonic() + _STOP_S
    while running := still_running(cluster.status(name)):
        if time.monotonic() > deadline:
            problem = f"it did not stop within {_STOP_S:.0f} s"
            hint = "it was asked to stop and may still do so; `connect status` shows it"
            raise Failed(Diagnostic("stop.timeout", problem, name, why=running, hint=hint))
        time.sleep(_LOOK_EVERY_S)


offsets = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    # The nearest name may do harm: that of `set` is `reset`
    suggest_commands=False,
    help="List, alter or reset a connector's offsets. Stop the connector before changing them.",
)


@offsets.command("list")
def list_offsets(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show the offsets that a connector has committed."""
    with _cluster_of(context, name, reads=True) as cluster:
        entries = cluster.offsets(name)
    if as_json:
        from connect_runtime.rest.wire import offsets_json

        result_json(offsets_json(entries))
    elif entries:
        rows = [[json.dumps(dict(e.partition)), _offset_text(e)] for e in entries]
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
    entries = read_offsets(file if str(file) == _STDIN else call.path(file))
    with _cluster_of(context, name, force=force) as cluster:
        message = cluster.alter_offsets(name, entries)
    _say(name, message, as_json=as_json)


@offsets.command("reset")
def reset_offsets(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Reset all offsets of a stopped connector: it starts over."""
    with _cluster_of(context, name, force=force) as cluster:
        message = cluster.reset_offsets(name)
    _say(name, message, as_json=as_json)


def _say(name: str, message: str, *, as_json: bool) -> None:
    if as_json:
        result_json({"connector": name, "message": message})
    else:
        result(f"{name}: {message}")


def _offset_text(entry: OffsetEntry) -> str:
    return "none" if entry.offset is None else json.dumps(dict(entry.offset))


def read_offsets(file: Path) -> tuple[OffsetEntry, ...]:
    """Reads entries of `{"offsets": [...]}`; `-` is stdin. Raises Invalid with every mistake."""
    from connect_specs.pins import read_offsets_json
    from connect_specs.text_files import BYTES_MAX, decoded, read_text

    name = "stdin" if str(file) == _STDIN else file.name
    from_stdin = str(file) == _STDIN
    text = (
        decoded(sys.stdin.buffer.read(BYTES_MAX + 1), name) if from_stdin else read_text(file, name)
    )
    return read_offsets_json(text, name)
