"""Connect's own verbs on one connector, by hand: stop, pause, resume, delete.

They change the cluster and no file: the next plan shows what differs from the specs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.completing import connector_names
from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import result, result_json
from connect_specs.diagnostics import Diagnostic, Failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from connect_reconciler.cluster.port import Cluster

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The connector's name.", autocompletion=connector_names),
]

_STOP_S = 30.0
_LOOK_EVERY_S = 0.1


def stop(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Stop a connector and wait until its tasks are gone; then its offsets may be altered."""

    def act(cluster: Cluster) -> None:
        cluster.stop(name)
        if cluster.runs_tasks:
            _wait_until_stopped(cluster, name)

    act_on(context, name, "stopped", act, as_json=as_json)


def pause(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Pause a connector: its tasks stay, and do nothing until it is resumed."""
    act_on(context, name, "paused", lambda cluster: cluster.pause(name), as_json=as_json)


def resume(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Let a connector run that is paused or stopped."""
    act_on(context, name, "running", lambda cluster: cluster.resume(name), as_json=as_json)


def delete(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Delete a connector from the cluster. Its spec stays, so the next apply creates it again.

    One that its spec protects with prevent_delete is refused.
    """
    from connect_reconciler.cli.clusters import cluster_at
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.guarding import ensure_unguarded

    project = invocation(context).project()
    with client(project) as properties, cluster_at(project, properties, name) as cluster:
        ensure_unguarded(project, properties, cluster, name)
        cluster.delete(name)
        runs = cluster.runs_tasks
    _tell(name, "deleted", runs=runs, as_json=as_json)


def act_on(
    context: typer.Context,
    name: str,
    done: str,
    act: Callable[[Cluster], None],
    *,
    as_json: bool,
) -> None:
    """`done` is what the connector then is, in one word."""
    from connect_reconciler.cli.clusters import cluster_of

    with cluster_of(invocation(context).project(), name) as cluster:
        act(cluster)
        runs = cluster.runs_tasks
    _tell(name, done, runs=runs, as_json=as_json)


def _tell(name: str, done: str, *, runs: bool, as_json: bool) -> None:
    if as_json:
        result_json({"connector": name, "asked": done, "runtime_up": runs})
    else:
        result(f"{name}: {done}{'' if runs else ' (no runtime is up: it counts when one starts)'}")


def _wait_until_stopped(cluster: Cluster, name: str) -> None:
    from connect_reconciler.apply.health import still_running

    deadline = time.monotonic() + _STOP_S
    while left := still_running(cluster.status(name)):
        if time.monotonic() > deadline:
            what = f"it did not stop within {_STOP_S:.0f} s"
            hint = "it is asked to stop and still may; `connect status` shows it"
            raise Failed(Diagnostic("stop.timeout", what, name, why=left, hint=hint))
        time.sleep(_LOOK_EVERY_S)
