"""`connect restart`: one connector with its tasks, or with --failed what failed of this project.

With --watch, pauses between restarts of a connector that fails again and again double, from a
minute to an hour. One that stayed up for its last pause starts again with the shortest pause.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import NAME, AsJson, Every, ScopeOptions
from connect_reconciler.cli.output import progress, result, result_json, watch
from connect_reconciler.cli.session import invocation
from connect_reconciler.cli.signals import may_change
from connect_reconciler.cli.verbs.connector import RESTARTED, act_on
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode, Failed, Invalid
from connect_specs.plain_text import listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from connect_reconciler.backend.backend import Backend, Cluster
    from connect_reconciler.plan.scope import Scope
    from connect_runtime.herder.verbs import ConnectorStatus
    from connect_specs.desired import Project


_HINT = "`connect restart NAME`, or `connect restart --failed [--watch]`"
_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0


@dataclass(slots=True)
class _Look:
    """By connector: the parts that failed and were restarted, and why one was not restarted.
    `missing` are not on the cluster."""

    restarted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def restart(
    context: typer.Context,
    *,
    name: Annotated[str | None, NAME] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="Restart all connectors of the specs that failed and should run."
        ),
    ] = False,
    options: ScopeOptions,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Keep restarting, with longer pauses for connectors that fail again."
        ),
    ] = False,
    every: Every = 30.0,
    as_json: AsJson = False,
) -> int:
    """Restart a connector and all its tasks.

    With --failed, finds the connectors of the specs that failed, and restarts what failed of them;
    paused and stopped ones are left unchanged. Exit code 1 if one could not be restarted.
    """
    if failed and name is None:
        project = invocation(context).project()
        return _restart_failed(project, options.scope, every if watch else None, as_json=as_json)
    if name is None or failed:
        raise Invalid(Diagnostic("usage", "give a connector's name or --failed", hint=_HINT))
    if watch or not options.scope.whole:
        problem = "--watch, --target and --exclude can only be used with --failed"
        raise Invalid(Diagnostic("usage", problem, hint=_HINT))
    act_on(context, name, RESTARTED, partial(_restart, name), force=True, as_json=as_json)
    return ExitCode.OK


def _restart(name: str, cluster: Cluster) -> None:
    from connect_runtime.storage.snapshots import State

    status = cluster.status(name)
    if status is not None and status.connector.state is State.STOPPED:
        problem = f"{name} is stopped: nothing of it runs that could be restarted"
        hint = f"`connect resume {name}` starts it"
        raise Failed(Diagnostic("restart.stopped", problem, hint=hint))
    cluster.restart(name, only_failed=False)


def _restart_failed(
    project: Project, scope: Scope, pause_s: float | None, *, as_json: bool
) -> ExitCode:
    """Restarts once, or every `pause_s` until interrupted, and reports refusals."""
    from connect_reconciler.cli.connecting import backend_of

    tried: dict[str, Tried] = {}
    with backend_of(project) as backend:

        def look() -> _Look:
            return _look(backend, scope, tried)

        if pause_s is not None:
            watch(look, pause_s, lambda outcome: _show(outcome, once=False, as_json=as_json))
        outcome = look()
        _show(outcome, once=True, as_json=as_json)
        return ExitCode.FAILED if outcome.refused else ExitCode.OK


def _look(backend: Backend, scope: Scope, tried: dict[str, Tried]) -> _Look:
    from connect_reconciler.backend.http import HttpCluster
    from connect_reconciler.cli.connector_access import redacted
    from connect_reconciler.plan.scope import chosen
    from connect_specs.loader import load_specs

    names = chosen(load_specs(backend.project).connectors, scope)
    outcome = _Look()
    connection = backend.rest()
    if connection is None:
        progress("no runtime is up: nothing runs now")
        return outcome
    cluster = HttpCluster(connection)

    def covered(text: str, name: str) -> str:
        return redacted(text, backend, cluster, name)

    try:
        for name in names:
            try:
                _restart_if_failed(cluster, name, tried, outcome, covered)
            except ConnectError as error:
                if not outcome.restarted:
                    raise
                # The restarts so far must be reported all the same
                outcome.refused[name] = str(error)
                break
    finally:
        cluster.close()
    return outcome


def _restart_if_failed(
    cluster: Cluster,
    name: str,
    tried: dict[str, Tried],
    outcome: _Look,
    covered: Callable[[str, str], str],
) -> None:
    status = cluster.status(name)
    if status is None and cluster.config(name) is None:
        outcome.missing.append(name)
    failures = failed_parts(status)
    attempt, due = next_try(tried.get(name), failed=bool(failures), now=time.monotonic())
    if attempt is None:
        tried.pop(name, None)
    else:
        tried[name] = attempt
    if not due:
        return
    may_change()
    try:
        cluster.restart(name, only_failed=True)
    except Failed as error:
        outcome.refused[name] = covered(str(error), name)
    else:
        outcome.restarted[name] = failures


def _show(outcome: _Look, *, once: bool, as_json: bool) -> None:
    """Shows the outcome of one look; of repeated looks, only those with a result."""
    if once and outcome.missing:
        progress(
            f"not on the cluster: {listed(outcome.missing)} "
            "(`connect apply` creates what is missing)"
        )
    if not once and not outcome.restarted and not outcome.refused:
        return
    if as_json:
        document = {"restarted": outcome.restarted, "refused": outcome.refused}
        if once:
            result_json(document)
        else:
            result(json.dumps(document, ensure_ascii=False))
        return
    for name, failures in outcome.restarted.items():
        result(f"{name}: restarted ({', '.join(failures)} had failed)")
    for name, reason in outcome.refused.items():
        result(f"{name}: not restarted: {reason}")
    if once and not outcome.restarted and not outcome.refused:
        result("nothing failed")


@dataclass(frozen=True, slots=True)
class Tried:
    """The number of consecutive restarts, and the time of the last one (monotonic, seconds)."""

    times: int
    at: float

    @property
    def pause_s(self) -> float:
        """Returns the time between the last restart and the next one."""
        doubled: float = _FIRST_PAUSE_S * 2 ** min(self.times - 1, 10)
        return min(doubled, _LONGEST_PAUSE_S)


def failed_parts(status: ConnectorStatus | None) -> tuple[str, ...]:
    """Returns `connector` and `task N` for each that failed although it is to run."""
    from connect_runtime.storage.snapshots import State

    if status is None or status.connector.state in (State.PAUSED, State.STOPPED):
        return ()
    instances = [("connector", status.connector)]
    instances += [(f"task {number}", instance) for number, instance in sorted(status.tasks.items())]
    return tuple(label for label, instance in instances if instance.state is State.FAILED)


def next_try(tried: Tried | None, *, failed: bool, now: float) -> tuple[Tried | None, bool]:
    """Returns the restarts to remember after one more look, and true if one is due now."""
    over = tried is None or now - tried.at >= tried.pause_s
    if not over:
        return tried, False
    if not failed:
        return None, False
    return Tried(tried.times + 1 if tried else 1, now), True
