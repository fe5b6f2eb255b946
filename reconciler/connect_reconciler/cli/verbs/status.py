"""`connect status` and `doctor`: what each connector does, and whether the cluster is in order.

Statuses come from the topics, so that they are shown whoever runs the connectors; a connector that
nobody runs is not shown as running, whatever its last status says. Apache's clusters are asked over
REST. Configs hold secrets and are not shown.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson, Targets
from connect_reconciler.cli.output import progress, result, result_json, width
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import ExitCode
from connect_specs.plain_text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connect_reconciler.backend.backend import LiveStatuses
    from connect_reconciler.backend.observe.plugin_facts import SpecSecrets
    from connect_reconciler.cli.connector_table import Row
    from connect_reconciler.doctor.look import Report
    from connect_reconciler.model.live import Kind
    from connect_runtime.herder.verbs import ConnectorStatus
    from connect_runtime.storage.snapshots import TaskId
    from connect_specs.desired import Project
    from connect_specs.plugin_definitions import Definitions


def status(
    context: typer.Context,
    target: Targets = None,
    all_connectors: Annotated[
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
    from connect_reconciler.cli.connector_table import StatusEntry, missing, missing_json
    from connect_reconciler.cli.session import secrets_of_specs
    from connect_reconciler.plan.scope import Scope, chosen

    project = invocation(context).project()
    with backend_of(project) as backend:
        live = backend.statuses()
        configs = {name: connector.config for name, connector in live.connectors.items()}
        owners = owners_of(backend, configs)
        ours = [name for name in configs if all_connectors or owners.holds(name)]
        absent = {
            name: missing(name, owners.why_missing(name), target=target.value)
            for name, target in (owners.specs or {}).items()
            if name not in configs
        }
        names = chosen(sorted([*ours, *absent]), Scope(tuple(target or ())))
        absent = {name: row for name, row in absent.items() if name in names}
        present = [name for name in names if name not in absent]
        with backend.plugins() as plugins:
            secrets = secrets_of_specs(project).with_ledger(owners.owned)
            statuses = _redacted(live, present, plugins, secrets)
            entries = [
                StatusEntry(live.connectors[name], statuses.get(name), _kind(name, live, plugins))
                for name in present
            ]
    hidden, leader = len(configs) - len(ours), live.leader
    if live.unread is not None:
        progress(f"some statuses cannot be read: {live.unread}")
    if owners.unread:
        progress(
            f"the ledger cannot be read, so owners come from specs and configs: {owners.unread}"
        )
    if owners.specs is None:
        progress("the specs cannot be read (see `connect validate`), so all connectors are shown")
    if as_json:
        documents = [entry.document(leader) for entry in entries]
        documents += [missing_json(row) for row in absent.values()]
        for document in documents:
            document["project"] = owners.by_name.get(document["name"])
        documents.sort(key=itemgetter("name"))
        result_json(
            {
                "project": project.name,
                "leader": leader,
                "connectors": documents,
                "not_shown": hidden,
            }
        )
    else:
        if leader is None:
            progress("no runtime is up: nothing runs now")
        waiting = _waiting(project, leader) if leader and project.uses_runtime else None
        rows = [*(entry.row(leader, waiting) for entry in entries), *absent.values()]
        if all_connectors and owners.by_name:
            rows = [replace(row, project=owners.by_name.get(row.name, "-")) for row in rows]
        _show(sorted(rows, key=attrgetter("name")), project, hidden)
    well = not absent and all(entry.is_well(leader) for entry in entries)
    return ExitCode.FAILED if exit_code and not well else ExitCode.OK


def _show(rows: Sequence[Row], project: Project, hidden: int) -> None:
    from connect_reconciler.cli.connector_table import draw, short_of_slots

    empty = f"{project.name} has no connectors" if hidden else "there are no connectors"
    result(draw(rows, width=width()) if rows else empty)
    if hidden:
        progress(f"not shown: {hidden} of other projects or unmanaged (--all lists them)")
    if advice := short_of_slots(rows):
        progress(advice)


def _redacted(
    live: LiveStatuses, names: Sequence[str], plugins: Definitions, secrets: SpecSecrets
) -> dict[str, ConnectorStatus]:
    """Returns the statuses of these connectors, without the secrets that a trace may hold."""
    from connect_reconciler.backend.observe.plugin_facts import without_secrets
    from connect_specs.plugin_definitions import untyped_keys

    unanswered: set[str] = set()
    statuses = {name: live.statuses[name] for name in names if name in live.statuses}
    for name, status in statuses.items():
        connector = live.connectors[name]
        if any(instance.trace for instance in (status.connector, *status.tasks.values())):
            unanswered |= {*untyped_keys(connector.config, plugins).values()}
        configs = (connector.config, *connector.task_configs)
        statuses[name] = without_secrets(status, configs, plugins, secrets)
    if unanswered:
        reasons = "; ".join(sorted(unanswered))
        progress(f"values in reasons are hidden, their types could not be asked for: {reasons}")
    return statuses


def _kind(name: str, live: LiveStatuses, plugins: Definitions) -> Kind:
    """Returns the kind as REST says it, or as its class is."""
    from connect_reconciler.validation.judges import kind_by_class

    status = live.statuses.get(name)
    if status is not None and status.type in ("source", "sink"):
        return "sink" if status.type == "sink" else "source"
    return kind_by_class(live.connectors[name].config, plugins)


def _waiting(project: Project, leader: str) -> list[TaskId] | None:
    """Returns the tasks that have no slot; None if the leader does not answer."""
    from connect_reconciler.cli.runtime_process import probe
    from connect_runtime.rest.password import login
    from connect_runtime.rest.wire import runtime_from_json

    if not leader.startswith("http"):
        return None
    answer = probe(project, f"{leader}/runtime", login(project.data))
    runtime = None if answer is None else runtime_from_json(answer)
    return list(runtime.waiting) if runtime and runtime.slots else None


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
    unreachable = any(finding.code in _UNREACHABLE for finding in report.findings)
    return ExitCode.UNREACHABLE if unreachable else ExitCode.FAILED


def _text(report: Report) -> str:
    from connect_specs.plain_text import render_diagnostics

    errors = sum(finding.severity == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    counts = [
        counted(count, noun) for count, noun in ((errors, "error"), (warnings, "warning")) if count
    ]
    lines = [f"Doctor: {', '.join(counts) or 'nothing is wrong'}"]
    lines += [f"  looked at {subject}" for subject in report.looked_at]
    findings = "".join(
        render_diagnostics([finding], finding.severity) for finding in report.findings
    )
    return "\n".join(lines) + "\n" + findings


def _json(report: Report) -> dict[str, object]:
    from connect_reconciler.cli.entry import to_json

    return {
        "healthy": report.healthy,
        "looked_at": list(report.looked_at),
        "findings": [
            {"level": finding.severity, **document}
            for finding in report.findings
            for document in to_json([finding])
        ],
    }
