"""Connect's own verbs on one connector: stop, pause, resume, delete.

They change the cluster and no file: the next plan shows what differs from the specs. A connector
that another project owns is refused.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson, Yes
from connect_reconciler.cli.output import confirmed, progress, result, result_json
from connect_reconciler.cli.ownership import Force
from connect_reconciler.cli.session import invocation
from connect_reconciler.cli.shell_completion import connector_names
from connect_specs.diagnostics import Diagnostic, ExitCode, Failed, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from connect_reconciler.backend.backend import Backend
    from connect_reconciler.backend.port import Cluster
    from connect_reconciler.cli.ownership import Known

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The connector's name.", autocompletion=connector_names),
]

_STOP_S = 30.0
_LOOK_EVERY_S = 0.1


def stop(context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False) -> None:
    """Stop a connector and wait until its tasks have ended; its offsets can then be altered."""

    def act(cluster: Cluster) -> None:
        cluster.stop(name)
        if cluster.runs_tasks:
            _wait_until_stopped(cluster, name)

    _change(context, name, "stopped", act, force=force, as_json=as_json)


def pause(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Pause a connector: its tasks stay but process nothing until it is resumed."""
    _change(context, name, "paused", lambda c: c.pause(name), force=force, as_json=as_json)


def resume(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Resume a paused or stopped connector."""
    _change(context, name, "running", lambda c: c.resume(name), force=force, as_json=as_json)


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
    from connect_reconciler.cli.clusters import cluster_at
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.ownership import ensure_owner, ensure_unprotected, known

    if not yes and not sys.stdin.isatty():
        raise Invalid(_cannot_ask(name))
    project = invocation(context).project()
    with backend_of(project) as backend:
        found = known(backend, name)
        if not force:
            ensure_owner(found, project)
        ensure_unprotected(found)
        # One that is not there is for the cluster to say
        if found.config is not None and not yes and not _confirmed(found, backend):
            progress("not deleted")
            return ExitCode.FAILED
        with cluster_at(backend, name) as cluster:
            cluster.delete(name)
            runs = cluster.runs_tasks
    _report(name, "deleted", runs=runs, as_json=as_json)
    return ExitCode.OK


def _cannot_ask(name: str) -> Diagnostic:
    what = "stdin is not a terminal, so the deletion cannot be confirmed"
    hint = "to delete it without confirmation, run this again with --yes"
    return Diagnostic("delete.nobody-to-ask", what, name, hint=hint)


def _confirmed(found: Known, backend: Backend) -> bool:
    where = f"group {backend.address}" if backend.project.uses_runtime else backend.address
    owner = "no project" if found.owned is None else f"project {found.owned.project}"
    progress(f"- {found.name}: delete, from {where}; it belongs to {owner}")
    progress("    → its tasks end")
    progress("    → its offsets stay: a new connector with this name continues from them")
    progress("    → no file is changed: if a spec names it, the next apply creates it again")
    return confirmed(f"Delete {found.name}?")


def _change(
    context: typer.Context,
    name: str,
    done: str,
    act: Callable[[Cluster], None],
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Changes a connector that no other project owns."""
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.ownership import ensure_ours

    project = invocation(context).project()
    with backend_of(project) as backend:
        ensure_ours(backend, name, force=force)
        _act_over(backend, name, done, act, as_json=as_json)


def act_on(
    context: typer.Context,
    name: str,
    done: str,
    act: Callable[[Cluster], None],
    *,
    as_json: bool,
) -> None:
    """`done` is what the connector then is, in one word."""
    from connect_reconciler.cli.connecting import backend_of

    project = invocation(context).project()
    with backend_of(project) as backend:
        _act_over(backend, name, done, act, as_json=as_json)


def _act_over(
    backend: Backend,
    name: str,
    done: str,
    act: Callable[[Cluster], None],
    *,
    as_json: bool,
) -> None:
    from connect_reconciler.cli.clusters import cluster_at

    with cluster_at(backend, name) as cluster:
        act(cluster)
        runs = cluster.runs_tasks
    _report(name, done, runs=runs, as_json=as_json)


def _report(name: str, done: str, *, runs: bool, as_json: bool) -> None:
    if as_json:
        result_json({"connector": name, "asked": done, "runtime_up": runs})
    else:
        result(
            f"{name}: {done}{'' if runs else ' (no runtime is up: takes effect when one starts)'}"
        )


def _wait_until_stopped(cluster: Cluster, name: str) -> None:
    from connect_reconciler.apply.health import still_running

    deadline = time.monotonic() + _STOP_S
    while left := still_running(cluster.status(name)):
        if time.monotonic() > deadline:
            what = f"it did not stop within {_STOP_S:.0f} s"
            hint = "it was asked to stop and may still do so; `connect status` shows it"
            raise Failed(Diagnostic("stop.timeout", what, name, why=left, hint=hint))
        time.sleep(_LOOK_EVERY_S)
