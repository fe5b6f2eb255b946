"""`connect status` and `doctor`: what each connector does, and whether the cluster is in order.

Statuses come from the topics, so that they are shown whoever runs the connectors; a connector that
nobody runs is not shown as running, whatever its last status says. Apache's clusters are asked over
REST. Configs hold secrets and are not shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connect_reconciler.cli.options import AsJson, Targets
from connect_reconciler.cli.output import progress, result, result_json, width
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import ExitCode
from connect_specs.plain_text import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from connect_reconciler.backend.backend import LiveStatuses
    from connect_reconciler.backend.observe.plugin_facts import SpecSecrets
    from connect_reconciler.cli.connector_access import Owners
    from connect_reconciler.cli.connector_table import Row
    from connect_reconciler.doctor.look import Report
    from connect_reconciler.model.live import Kind
    from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
    from connect_runtime.storage.snapshots import ConnectorState, TaskId
    from connect_specs.desired import Project
    from connect_specs.plugin_definitions import Definitions


@dataclass(frozen=True, slots=True)
class _Shown:
    """`connectors` are those on the cluster, with their statuses, and `kinds` their kinds; `absent`
    the rows of those in specs alone. `left` counts those that are not shown; `leader` None: nobody
    runs them."""

    project: Project
    owners: Owners
    leader: str | None
    connectors: Mapping[str, tuple[ConnectorState, ConnectorStatus | None]]
    kinds: Mapping[str, Kind]
    absent: Mapping[str, Row]
    left: int

    @property
    def well(self) -> bool:
        """Whether every connector is as it was asked to be."""
        found = self.connectors.values()
        return not self.absent and all(_is_well(*each, self.leader) for each in found)


def status(
    context: typer.Context,
    target: Targets = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Include connectors of other projects and unmanaged ones.")
    ] = False,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 1 if a connector is not in its target state."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show connectors: target state, actual state, tasks, missing slots, and why one failed.

    Lists the connectors of this project: those in its specs, and those that it owns. A connector
    is FAILED if one of its tasks is, and MISSING if a spec names it but it is not on the cluster.
    With --exit-code, exits with 1 if one failed, is missing, or should run and does not.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.connector_access import owners_of
    from connect_reconciler.cli.session import secrets_of_specs
    from connect_reconciler.plan.scope import Scope, chosen

    project = invocation(context).project()
    with backend_of(project) as backend:
        found = backend.statuses()
        configs = {name: each.config for name, each in found.connectors.items()}
        owners = owners_of(backend, configs)
        ours = [name for name in configs if whole or owners.holds(name)]
        absent = _absent(owners, configs)
        names = chosen(sorted([*ours, *absent]), Scope(tuple(target or ())))
        absent = {name: row for name, row in absent.items() if name in names}
        present = [name for name in names if name not in absent]
        with backend.plugins() as plugins:
            kinds = {name: _kind(name, found, plugins) for name in present}
            secrets = secrets_of_specs(project).with_ledger(owners.owned)
            connectors = _redacted(found, present, plugins, secrets)
    left = len(configs) - len(ours)
    shown = _Shown(project, owners, found.leader, connectors, kinds, absent, left)
    if found.unread is not None:
        progress(f"some statuses cannot be read: {found.unread}")
    if owners.unread:
        progress(
            f"the ledger cannot be read, so owners come from specs and configs: {owners.unread}"
        )
    if owners.specs is None:
        progress("the specs cannot be read (see `connect validate`), so all connectors are shown")
    if as_json:
        _show_json(shown)
    else:
        _show(shown, with_owners=whole)
    return ExitCode.FAILED if exit_code and not shown.well else ExitCode.OK


def _absent(owners: Owners, configs: Collection[str]) -> dict[str, Row]:
    """By name the connectors of the specs that are not on the cluster."""
    from connect_reconciler.cli.connector_table import missing

    return {
        name: missing(name, owners.why_missing(name), target=asked.value)
        for name, asked in (owners.specs or {}).items()
        if name not in configs
    }


def _is_well(asked: ConnectorState, found: ConnectorStatus | None, leader: str | None) -> bool:
    """Whether a connector that should run does, and no other has failed."""
    from connect_reconciler.cli.connector_table import state_of
    from connect_runtime.storage.snapshots import State
    from connect_specs.states import TargetState

    if asked.target is not TargetState.RUNNING:
        return found is None or state_of(found) is not State.FAILED
    if found is None or leader is None:
        return False
    return all(each.state is State.RUNNING for each in (found.connector, *found.tasks.values()))


def _show(shown: _Shown, *, with_owners: bool) -> None:
    from connect_reconciler.cli.connector_table import draw, short_of_slots

    project, leader, owner_of = shown.project, shown.leader, shown.owners.by_name
    if leader is None:
        progress("no runtime is up: nothing runs now")
    waiting = _waiting(project, leader) if leader and project.uses_runtime else None
    found = {
        name: _row(*each, shown.kinds[name], leader, waiting)
        for name, each in shown.connectors.items()
    }
    rows = [row for _, row in sorted({**found, **shown.absent}.items())]
    if with_owners and owner_of:
        rows = [replace(row, project=owner_of.get(row.name, "-")) for row in rows]
    nobody = f"{project.name} has no connectors" if shown.left else "there are no connectors"
    result(draw(rows, width=width()) if rows else nobody)
    if shown.left:
        progress(f"not shown: {shown.left} of other projects or unmanaged (--all lists them)")
    if said := short_of_slots(rows):
        progress(said)


def _show_json(shown: _Shown) -> None:
    leader, owner_of = shown.leader, shown.owners.by_name
    found = {
        name: _connector(*each, shown.kinds[name], owner_of.get(name), leader)
        for name, each in shown.connectors.items()
    }
    found |= {name: _missing(row, owner_of.get(name)) for name, row in shown.absent.items()}
    result_json(
        {
            "project": shown.project.name,
            "leader": leader,
            "connectors": [each for _, each in sorted(found.items())],
            "not_shown": shown.left,
        }
    )


def _redacted(
    found: LiveStatuses, names: Sequence[str], plugins: Definitions, secrets: SpecSecrets
) -> dict[str, tuple[ConnectorState, ConnectorStatus | None]]:
    """The connectors of these names, without the secrets that a trace may hold."""
    from connect_reconciler.backend.observe.plugin_facts import without_secrets
    from connect_specs.plugin_definitions import untyped_keys

    unanswered: set[str] = set()
    shown: dict[str, tuple[ConnectorState, ConnectorStatus | None]] = {}
    for name in names:
        asked, told = found.connectors[name], found.statuses.get(name)
        if told is not None:
            configs = (asked.config, *asked.task_configs)
            if any(part.trace for part in (told.connector, *told.tasks.values())):
                unanswered |= {*untyped_keys(asked.config, plugins).values()}
            told = without_secrets(told, configs, plugins, secrets)
        shown[name] = asked, told
    if unanswered:
        why = "; ".join(sorted(unanswered))
        progress(f"values in reasons are hidden, their types could not be asked for: {why}")
    return shown


def _kind(name: str, found: LiveStatuses, plugins: Definitions) -> Kind:
    """Returns the kind as REST says it, as the class's name shows it, or as its plugin is."""
    from connect_reconciler.model.live import kind_of
    from connect_specs.plugin_definitions import CLASS_KEY, CONNECTORS, SINK

    config, status = found.connectors[name].config, found.statuses.get(name)
    if status is not None and status.type in ("source", "sink"):
        return "sink" if status.type == "sink" else "source"
    kind = kind_of(config, None, {})
    if kind != "unknown":
        return kind
    plugin = plugins.find(config.get(CLASS_KEY, ""), CONNECTORS)
    return "unknown" if plugin is None else "sink" if plugin.type == SINK else "source"


def _row(
    asked: ConnectorState,
    found: ConnectorStatus | None,
    kind: Kind,
    leader: str | None,
    waiting: Sequence[TaskId] | None,
) -> Row:
    from connect_reconciler.cli.connector_table import Row, row_of

    if found is None or leader is None:
        tasks = len(asked.task_configs)
        return Row(asked.name, kind, "-", tasks, None, None, target=asked.target)
    row = replace(row_of(found, waiting or (), target=asked.target), kind=kind)
    return row if waiting is not None else replace(row, short=None)


def _waiting(project: Project, leader: str) -> list[TaskId] | None:
    """The tasks that have no slot; None if the leader does not tell."""
    from connect_reconciler.cli.running.process import probe
    from connect_runtime.rest.password import login
    from connect_runtime.rest.wire import runtime_from_json

    if not leader.startswith("http"):
        return None
    answer = probe(project, f"{leader}/runtime", login(project.data))
    runtime = None if answer is None else runtime_from_json(answer)
    return list(runtime.waiting) if runtime and runtime.slots else None


def _connector(
    asked: ConnectorState,
    found: ConnectorStatus | None,
    kind: Kind,
    owner: str | None,
    leader: str | None,
) -> dict[str, Any]:
    from connect_reconciler.cli.connector_table import reasons, state_of

    tasks = sorted(found.tasks.items()) if found else []
    return {
        "name": asked.name,
        "type": kind,
        "target": asked.target.value,
        "project": owner,
        "running": leader is not None,
        "state": None if found is None or leader is None else state_of(found).value,
        "why": [] if found is None else list(reasons(found)),
        "connector": None if found is None else _instance(found.connector),
        "tasks": [{"id": number, **_instance(task)} for number, task in tasks],
        "generation": asked.generation,
    }


def _missing(row: Row, owner: str | None) -> dict[str, Any]:
    return {
        "name": row.name,
        "type": None,
        "target": row.target,
        "project": owner,
        "running": False,
        "state": row.state,
        "why": list(row.why),
        "connector": None,
        "tasks": [],
        "generation": None,
    }


def _instance(part: InstanceStatus) -> dict[str, Any]:
    return {"state": part.state.value, "worker_id": part.worker_id, "trace": part.trace}


_UNREACHABLE = ("cluster.unreachable", "kafka.unreachable")


def doctor(context: typer.Context, as_json: AsJson = False) -> int:
    """Check that topics and REST API agree, and that topics and versions are in order.

    Changes nothing. Exit code 1 if there are errors, 3 if the cluster is not reachable; warnings
    alone exit with 0.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.cli.session import secrets_of_specs
    from connect_reconciler.doctor.look import examine

    project = invocation(context).project()
    with backend_of(project) as backend:
        report = examine(backend, secrets_of_specs(project))
    if as_json:
        result_json(_json(report))
    else:
        result(_text(report))
    if report.healthy:
        return ExitCode.OK
    unreachable = any(each.code in _UNREACHABLE for each in report.findings)
    return ExitCode.UNREACHABLE if unreachable else ExitCode.FAILED


def _text(report: Report) -> str:
    from connect_specs.plain_text import render_diagnostics

    errors = sum(finding.severity == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    counts = [
        counted(count, what) for count, what in ((errors, "error"), (warnings, "warning")) if count
    ]
    lines = [f"Doctor: {', '.join(counts) or 'nothing is wrong'}"]
    lines += [f"  looked at {each}" for each in report.looked_at]
    found = "".join(render_diagnostics([each], each.severity) for each in report.findings)
    return "\n".join(lines) + "\n" + found


def _json(report: Report) -> dict[str, object]:
    from connect_reconciler.cli.entry import to_json

    return {
        "healthy": report.healthy,
        "looked_at": list(report.looked_at),
        "findings": [
            {"level": found.severity, **each}
            for found in report.findings
            for each in to_json([found])
        ],
    }
