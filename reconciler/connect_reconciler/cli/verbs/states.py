"""Connect's own verbs on one connector: stop, pause, resume, delete.

They change the cluster and no file: the next plan shows what differs from the specs. A connector
that another project owns is refused.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.applying.choices import Yes
from connect_reconciler.cli.completing import connector_names
from connect_reconciler.cli.guarding import Force
from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import agreed, progress, result, result_json
from connect_specs.diagnostics import Diagnostic, ExitCode, Failed, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from connect_reconciler.cli.guarding import Known
    from connect_reconciler.cluster.port import Cluster
    from connect_specs.desired import Project

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The connector's name.", autocompletion=connector_names),
]

_STOP_S = 30.0
_LOOK_EVERY_S = 0.1


def stop(context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False) -> None:
    """Stop a connector and wait until its tasks are gone; then its offsets may be altered."""

    def act(cluster: Cluster) -> None:
        cluster.stop(name)
        if cluster.runs_tasks:
            _wait_until_stopped(cluster, name)

    _change(context, name, "stopped", act, force=force, as_json=as_json)


def pause(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Pause a connector: its tasks stay, and do nothing until it is resumed."""
    _change(context, name, "paused", lambda c: c.pause(name), force=force, as_json=as_json)


def resume(
    context: typer.Context, name: Name, force: Force = False, as_json: AsJson = False
) -> None:
    """Let a connector run that is paused or stopped."""
    _change(context, name, "running", lambda c: c.resume(name), force=force, as_json=as_json)


def delete(
    context: typer.Context,
    name: Name,
    yes: Yes = False,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Delete a connector from the cluster: says what goes and what stays, and asks.

    Its offsets and its spec stay, so the next apply creates it again. One that prevent_delete
    protects is refused, and so is one of another project.
    """
    from connect_reconciler.cli.clusters import cluster_at
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.guarding import ensure_owner, ensure_unguarded, known

    if not yes and not sys.stdin.isatty():
        raise Invalid(_nobody_to_ask(name))
    project = invocation(context).project()
    with client(project) as properties:
        found = known(project, properties, name)
        if not force:
            ensure_owner(found, project)
        ensure_unguarded(found)
        # One that is not there is for the cluster to say
        if found.config is not None and not yes and not _agreed(found, project):
            progress("not deleted")
            return ExitCode.FAILED
        with cluster_at(project, properties, name) as cluster:
            cluster.delete(name)
            runs = cluster.runs_tasks
    _tell(name, "deleted", runs=runs, as_json=as_json)
    return ExitCode.OK


def _nobody_to_ask(name: str) -> Diagnostic:
    what = "stdin is not a terminal, so nobody can be asked whether to delete it"
    hint = "if you want it deleted, run this again with --yes"
    return Diagnostic("delete.nobody-to-ask", what, name, hint=hint)


def _agreed(found: Known, project: Project) -> bool:
    from connect_reconciler.cluster.connection import shown_url

    where = f"group {project.group_id}" if project.target is None else shown_url(project.target)
    owner = "no project" if found.owned is None else f"project {found.owned.project}"
    progress(f"- {found.name}: delete, from {where}; it belongs to {owner}")
    progress("    → its tasks end")
    progress("    → its offsets stay: a new connector of its name goes on from there")
    progress("    → no file changes: if a spec names it, the next apply creates it again")
    return agreed(f"Delete {found.name}?")


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
    from connect_reconciler.cli.connecting import client
    from connect_reconciler.cli.guarding import ensure_ours

    project = invocation(context).project()
    with client(project) as properties:
        ensure_ours(project, properties, name, force=force)
        _act_over(project, properties, name, done, act, as_json=as_json)


def act_on(
    context: typer.Context,
    name: str,
    done: str,
    act: Callable[[Cluster], None],
    *,
    as_json: bool,
) -> None:
    """`done` is what the connector then is, in one word."""
    from connect_reconciler.cli.connecting import client

    project = invocation(context).project()
    with client(project) as properties:
        _act_over(project, properties, name, done, act, as_json=as_json)


def _act_over(
    project: Project,
    properties: Mapping[str, str],
    name: str,
    done: str,
    act: Callable[[Cluster], None],
    *,
    as_json: bool,
) -> None:
    from connect_reconciler.cli.clusters import cluster_at

    with cluster_at(project, properties, name) as cluster:
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
