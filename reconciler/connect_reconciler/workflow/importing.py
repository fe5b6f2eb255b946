"""Live connectors as specs, which are then adopted: the ledger says that this project owns them.

A secret is not written down: its key is left to the cluster, under `lifecycle.ignore`, so that the
next plan is empty and the value stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from glob import escape

from connect_reconciler.actions import Adopt
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.report import ApplyReport
from connect_reconciler.apply.scheduler import apply_plan
from connect_reconciler.backend.backend import Backend
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.secrets import is_mask
from connect_reconciler.workflow.apply import apply_context
from connect_reconciler.workflow.planning import observed, planned, policies_of
from connect_reconciler.workflow.user import Choices, User
from connect_specs.desired import Desired, DesiredConnector, Project, TargetState
from connect_specs.diagnostics import (
    ConnectError,
    Diagnostic,
    ExitCode,
    Failed,
    Invalid,
    Location,
)
from connect_specs.loader import FileFormat, load_specs, read_document
from connect_specs.secrets import is_sensitive
from connect_specs.writing import spec_text
from connect_specs.yaml_documents import parse_yaml


@dataclass(frozen=True, slots=True)
class Imported:
    """A spec from live, and the keys of secrets that it leaves to the cluster."""

    spec: DesiredConnector
    left_out: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns what a reader of the file should know."""
        if not self.left_out:
            return ()
        return (
            "Secrets are not written here: the keys below lifecycle.ignore stay as they are on the"
            " cluster.\nTo manage one, write it under config as a reference, ${provider:path:key},"
            " and end ignoring it.",
        )


def importable(live: Live, desired: Desired) -> tuple[str, ...]:
    """Returns the connectors of no spec and no project."""
    in_use = live.ledger.connectors.keys() | desired.connectors.keys()
    return tuple(sorted(live.connectors.keys() - in_use))


def choose(
    names: Iterable[str], live: Live, desired: Desired, *, overwrite: bool
) -> tuple[LiveConnector, ...]:
    """Returns the live connectors of these names. Raises Invalid with every name that cannot be
    imported.

    `overwrite`: also those that this project has a spec of.
    """
    chosen = sorted(set(names))
    problems = tuple(_problems(chosen, live, desired, overwrite=overwrite))
    if problems:
        raise Invalid(*problems)
    return tuple(live.connectors[name] for name in chosen)


def spec_of(
    connector: LiveConnector,
    live: Live,
    earlier: DesiredConnector | None = None,
    *,
    with_secrets: bool = False,
) -> Imported:
    """Returns the connector's spec. Its state is managed only if it is not to run.

    The keys that an `earlier` spec calls sensitive stay so, and so does whether it may have no
    tasks.
    """
    sensitive = () if earlier is None else earlier.sensitive
    config = {**without_reserved(connector.config), "name": connector.name}
    secret_keys = live.password_keys.get(connector.name, frozenset()).union(sensitive)
    left_out = tuple(
        sorted(
            key
            for key, text in config.items()
            if not with_secrets and (is_sensitive(key, text, secret_keys) or is_mask(text))
        )
    )
    spec = DesiredConnector(
        name=connector.name,
        config={key: text for key, text in config.items() if key not in left_out},
        where=Location(""),
        state=None if connector.target is TargetState.RUNNING else connector.target,
        prevent_delete=live.ledger.protects(connector.name),
        ignore=tuple(f"config.{escape(key)}" for key in left_out),
        sensitive=sensitive,
        allow_zero_tasks=earlier is not None and earlier.allow_zero_tasks,
    )
    return Imported(spec, left_out)


def _problems(
    names: Iterable[str], live: Live, desired: Desired, *, overwrite: bool
) -> Iterator[Diagnostic]:
    for name in names:
        owner, spec = live.ledger.owner(name), desired.connectors.get(name)
        if name not in live.connectors:
            hint = "`connect status` lists those that are"
            yield Diagnostic(
                "import.missing", "no such connector is on the cluster", name, hint=hint
            )
        elif owner not in (None, desired.project):
            problem = f"the connector belongs to project {owner}"
            hint = "a connector has one owner: change its spec in that project"
            yield Diagnostic("import.other-project", problem, name, hint=hint)
        elif spec is not None and not overwrite:
            problem = f"the connector {name!r} has a spec already"
            hint = "--force writes it again, as it is on the cluster"
            yield Diagnostic("import.has-spec", problem, spec.where, hint=hint)


def refused(
    project: Project, live: Live, imported: Mapping[str, Imported]
) -> dict[str, tuple[Diagnostic, ...]]:
    """Returns why connectors cannot be imported, by name: their specs cannot be read again, or a
    plan would refuse to adopt them. Empty for those that can be."""
    problems = {name: tuple(_unreadable(name, connector)) for name, connector in imported.items()}
    specs = {name: imported[name].spec for name in imported if not problems[name]}
    desired = Desired(
        project.name, {name: replace(specs[name], where=Location(name)) for name in specs}
    )
    plan = planned(project, desired, live, policies_of(project))
    for error in plan.errors:
        name = error.where.file if isinstance(error.where, Location) else error.where
        if name in specs:
            problems[name] = (*problems[name], replace(error, where=name))
    return {name: errors for name, errors in problems.items() if errors}


def _unreadable(name: str, imported: Imported) -> Iterator[Diagnostic]:
    """Yields what would be wrong with the connector's spec."""
    parsed = parse_yaml(spec_text(imported.spec, imported.notes), name)
    problems = list(parsed.problems)
    specs = [read_document(node, FileFormat.YAML, problems) for node in parsed.documents]
    yield from (replace(problem, where=name) for problem in problems)
    if not problems and [_without_places(spec) for spec in specs if spec] != [imported.spec]:
        yield _not_the_same(name)


def _without_places(spec: DesiredConnector) -> DesiredConnector:
    return replace(spec, where=Location(""), key_locations={})


def _not_the_same(name: str) -> Diagnostic:
    problem = "the connector's config cannot be written as a spec"
    return Diagnostic("import.not-the-same", problem, name)


def read_back(project: Project, earlier: Desired, imported: Mapping[str, Imported]) -> Desired:
    """Returns the specs just written, as every later plan will read them. Raises Invalid."""
    desired = load_specs(project)
    lost = earlier.connectors.keys() - desired.connectors.keys()
    problem, hint = "its spec was in a file that would be overwritten", "name a folder with --out"
    problems = [Diagnostic("import.lost", problem, name, hint=hint) for name in sorted(lost)]
    for name, connector in imported.items():
        spec = desired.connectors.get(name)
        if spec is None:
            problem, hint = (
                "that folder is not in 'specs' of connect.yaml",
                "add it, or leave --out",
            )
            problems.append(Diagnostic("import.not-read", problem, name, hint=hint))
        elif _without_places(spec) != connector.spec:
            problems.append(_not_the_same(name))
    if problems:
        raise Invalid(*problems)
    return replace(desired, connectors={name: desired.connectors[name] for name in imported})


def adoption(backend: Backend, desired: Desired) -> Plan:
    """Returns the plan for these connectors alone, which only adopts. Raises Invalid."""
    # The import makes them this project's
    overrides = replace(backend.project.overrides, take_over=tuple(desired.connectors))
    project = replace(backend.project, overrides=overrides)
    live = observed(backend, desired)
    owners = {name: live.ledger.connectors.get(name) for name in desired.connectors}
    ledger = replace(live.ledger, connectors={n: owned for n, owned in owners.items() if owned})
    plan = planned(project, desired, replace(live, ledger=ledger), policies_of(project))
    if plan.errors:
        raise Invalid(*plan.errors)
    more = {action.group for action in plan.actions if not isinstance(action, Adopt)}
    if more:
        problem = "an apply would change more than its owner"
        hint = "an earlier apply did not finish: run `connect apply` first"
        problems = (
            Diagnostic("import.not-empty", problem, name, hint=hint) for name in sorted(more)
        )
        raise Invalid(*problems)
    return plan


def adopt(plan: Plan, backend: Backend, desired: Desired, user: User) -> ApplyReport:
    """Records that the connectors are this project's, whose specs are written. Raises Failed, and
    as an apply does."""
    try:
        with (
            user.stopping() as stop,
            apply_context(backend, desired, Choices(), user, stop) as context,
        ):
            live = observed(backend, desired)
            report = apply_plan(plan, desired, backend.project, live, context)
    except ConnectError as error:
        problem = "the specs are written, and none of their connectors is adopted yet"
        hint = "`connect apply` adopts them"
        error.diagnostics = (
            *error.diagnostics,
            Diagnostic("import.not-adopted", problem, hint=hint),
        )
        raise
    if report.exit_code is not ExitCode.OK:
        problem = "the specs are written, but not all of their connectors could be adopted"
        details = (result.detail for connector in report.connectors for result in connector.results)
        reason, hint = "; ".join(filter(None, details)), "`connect apply` adopts the rest"
        raise Failed(
            Diagnostic("import.not-adopted", problem, None, reason, hint), *report.ended_by
        )
    return report
