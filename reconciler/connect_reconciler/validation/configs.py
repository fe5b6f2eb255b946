"""Validates the configs and pins of a project's specs: of the files alone, and before an apply.

`check_project` and `check_specs` need no cluster. `checked` also asks the cluster, and judges only
configs that are to be written. With a REST target, `worker` describes its workers: properties that
only our runtime ignores are no warning, unknown ones are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from connect_reconciler.actions import ConfigAction
from connect_reconciler.actions.plan import Plan
from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.observe.plugin_facts import kinds_of
from connect_reconciler.backend.plugins import RestPlugins, Validation, local_definitions
from connect_reconciler.backend.plugins import installed as installed_plugin
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.refusals import follows_from_another
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.live import Live, kind_of
from connect_reconciler.plan.checks.pins import shape_problem, unread_topics
from connect_reconciler.plan.checks.unsupported import names_not_creatable
from connect_reconciler.plan.diff import base_config, recorded_pin, written_config
from connect_reconciler.validation.findings import PlannedConfig, findings, unread
from connect_reconciler.validation.judges import (
    ClusterAnswers,
    ask_cluster,
    kind_by_class,
    worker_of,
)
from connect_reconciler.validation.keys import refused_later
from connect_runtime.api import ConfigError, ConnectorError, SourceConnector
from connect_runtime.herder.verbs import RequestError
from connect_runtime.plugins import registry as installed
from connect_runtime.settings.worker_keys import is_known, without_effect
from connect_specs.desired import Desired, DesiredConnector, Pin, Project, TargetState
from connect_specs.diagnostics import (
    ConnectError,
    Diagnostic,
    Invalid,
    Location,
    by_place,
    by_severity,
    warning,
)
from connect_specs.plugin_definitions import (
    CLASS_KEY,
    CONNECTORS,
    SINK,
    Definitions,
    passwords,
    passwords_in,
)

_BUILT_IN: Final = "connect_runtime.connectors."
_TASKS_MAX: Final = "tasks.max"
# the one property of Apache's workers that an apply reads
COMMITS: Final = "offset.flush.interval.ms"
_NUMBER: Final = re.compile("[0-9]{1,18}")


def check_project(project: Project) -> list[Diagnostic]:
    """Returns properties in connect.yaml that are wrong or never read, by place."""
    return by_place((*_wrong_values(project), *project.warnings, *_without_effect(project)))


def check_specs(project: Project, desired: Desired) -> tuple[Diagnostic, ...]:
    """Returns the problems of configs and pins of all specs, as far as they are known here."""
    plugins = local_definitions(project)
    configs = [
        PlannedConfig.of(spec, spec.config, passwords_in(spec.config, plugins))
        for spec in desired.connectors.values()
    ]
    diagnostics = findings(project, configs, ClusterAnswers(), plugins)
    names = names_not_creatable(desired, ours=project.uses_runtime)
    return (*diagnostics, *check_pins(desired, plugins), *names)


def check_pins(desired: Desired, plugins: Definitions) -> Iterator[Diagnostic]:
    """Yields pins that do not fit their connectors, in the order of the connectors."""
    kinds = kinds_of((), desired, plugins)
    for spec in desired.connectors.values():
        pin = spec.pin
        if pin is None:
            continue
        place = pin.where or spec.where
        kind = kind_of(spec.config, None, kinds)
        problem = shape_problem(pin, kind)
        if problem is not None:
            text = f"pin {pin.id} of {spec.name}: {problem.what}"
            yield replace(problem, what=text, where=place)
        elif kind == "sink":
            for topic in unread_topics(pin, spec.config):
                text = f"pin {pin.id} of {spec.name}: the sink does not read topic {topic}"
                yield warning("plan.pin-not-read", text, place)
        else:
            yield from refused_pin(spec, pin)


def refused_pin(spec: DesiredConnector, pin: Pin) -> Iterator[Diagnostic]:
    """Asks our own source classes to validate the offsets; foreign classes are not called."""
    connector = _built_in_source(spec.config.get(CLASS_KEY, ""))
    if connector is None:
        return
    offsets = [(entry.partition, entry.offset) for entry in pin.set]
    try:
        connector.alter_offsets(dict(spec.config), offsets)
    except ConfigError:
        # reported with the config
        return
    except ConnectorError as error:
        text = f"pin {pin.id} of {spec.name}: {error}"
        hint = "write partition and offset as `connect offsets list` shows them"
        yield Diagnostic("plan.pin-refused", text, pin.where or spec.where, hint=hint)


def _built_in_source(name: str) -> SourceConnector | None:
    try:
        cls = installed.connector(name).cls
    except ConnectorError:
        return None
    is_ours = cls.__module__.startswith(_BUILT_IN) and issubclass(cls, SourceConnector)
    return cls() if is_ours else None


def _without_effect(project: Project) -> Iterator[Diagnostic]:
    for key, sentence in without_effect(project.worker):
        if project.uses_runtime or not is_known(key):
            hint, place = "remove it, or correct its name", _place(project, key)
            yield warning("project.worker-key", sentence, place, hint=hint)


def _wrong_values(project: Project) -> Iterator[Diagnostic]:
    if not project.uses_runtime:
        interval = project.worker.get(COMMITS)
        if interval is not None and whole_number(interval) is None:
            text, hint = f"{COMMITS} is not a number of milliseconds", "write it without a unit"
            yield Diagnostic("project.worker-key", text, _place(project, COMMITS), hint=hint)
        return
    try:
        worker_of(project)
    except Invalid as invalid:
        for diagnostic in invalid.diagnostics:
            key = str(diagnostic.where)
            if project.worker.get(key) is None or not follows_from_another(diagnostic.what):
                correction = f"correct {key} in connect.yaml, or remove it for its default"
                hint = diagnostic.hint or correction
                yield replace(diagnostic, where=_place(project, key), hint=hint)


def _place(project: Project, key: str) -> Location:
    places = project.worker_locations.get(key) or project.kafka_locations.get(key)
    return places or Location(project.file.name)


def checked(live: Live, desired: Desired, backend: Backend) -> Live:
    """Returns `live` with the problems of the configs that are to be written, and of slots for
    tasks that are to run."""
    live = replace(live, errors=(*live.errors, *_refused_pins(desired, live)))
    configs = tuple(_to_be_written(desired, live))
    if not configs and not (backend.project.uses_runtime and _to_be_run(desired, live)):
        return live
    answers, slots = _ask(backend, configs)
    with backend.plugins() as plugins:
        errors, warnings = by_severity(findings(backend.project, configs, answers, plugins))
        with_kinds = [
            (planned.spec.name, planned.config, kind_by_class(planned.config, plugins) == SINK)
            for planned in configs
        ]
        unread_keys = {}
        for name, config, _ in with_kinds:
            verdict = answers.validations.get(name, Validation(()))
            unread_keys[name] = tuple(p.key for p in unread(config, verdict, plugins))
    password_keys = {
        name: passwords(validation.keys.values()) | live.password_keys.get(name, frozenset())
        for name, validation in answers.validations.items()
    }
    return replace(
        live,
        errors=(*live.errors, *errors),
        warnings=(
            *live.warnings,
            *warnings,
            *answers.warnings(),
            *refused_later(backend.project, with_kinds, "config.override-allowlist"),
            *check_slots(desired, live, slots),
        ),
        password_keys={
            **live.password_keys,
            **{name: keys for name, keys in password_keys.items() if keys},
        },
        unknown_keys=unread_keys,
    )


def ensure_installed(plan: Plan, desired: Desired) -> None:
    """Raises Invalid for classes that are not installed here. For an apply with no runtime up: only
    this installation can show that a connector works."""
    problems = []
    for action in plan.actions:
        spec = desired.connectors.get(action.connector)
        if not isinstance(action, ConfigAction) or spec is None:
            continue
        name = spec.config.get(CLASS_KEY, "")
        if installed_plugin(name, CONNECTORS) is None:
            text = f"{spec.name}: {name} is not installed here, and no runtime is up that has it"
            hint = (
                "install it here (a Java plugin with `connect plugins install`), or apply while a"
            )
            hint += " runtime that has it is up"
            place = spec.key_locations.get(CLASS_KEY, spec.where)
            problems.append(Diagnostic("config.not-installed", text, place, hint=hint))
    if problems:
        raise Invalid(*problems)


@dataclass(frozen=True, slots=True)
class Slots:
    """The number of tasks that our runtime can run at once. Connectors in the target states
    `without` need no slots."""

    count: int
    without: tuple[TargetState, ...] = (TargetState.STOPPED,)


def check_slots(desired: Desired, live: Live, slots: Slots | None) -> Iterator[Diagnostic]:
    """Yields a warning if more tasks may run than our runtime has slots.

    A task takes one slot for as long as it runs. Without a free slot it is UNASSIGNED, which is no
    failure.
    """
    if slots is None:
        return
    names = {*desired.connectors, *live.connectors}
    needed = sum(_tasks(name, desired, live, slots) for name in names)
    if needed > slots.count:
        yield warning(
            "plan.slots",
            f"up to {needed} tasks may run, and the runtime has {slots.count} slots",
            why="tasks without a slot stay UNASSIGNED until another one ends",
            hint="give the runtime more slots (`connect up --slots`, spark.master), or lower "
            f"{_TASKS_MAX}",
        )


def _refused_pins(desired: Desired, live: Live) -> Iterator[Diagnostic]:
    """Yields refusals of pins that are not applied yet."""
    for spec in desired.connectors.values():
        if spec.pin is not None and recorded_pin(spec, live) is None:
            yield from refused_pin(spec, spec.pin)


def _to_be_written(desired: Desired, live: Live) -> Iterator[PlannedConfig]:
    for name, spec in desired.connectors.items():
        current = live.connectors.get(name)
        stored = None if current is None else without_reserved(current.config)
        config = written_config(spec, base_config(spec, live))
        if config != stored:
            yield PlannedConfig.of(spec, config, live.password_keys.get(name, frozenset()))


def _to_be_run(desired: Desired, live: Live) -> bool:
    """Returns True if a live connector is to change to a state in which it takes slots."""
    return any(
        current.target is not spec.state and spec.state not in (None, TargetState.STOPPED)
        for name, spec in desired.connectors.items()
        if (current := live.connectors.get(name)) is not None
    )


def _ask(
    backend: Backend, planned_configs: Iterable[PlannedConfig]
) -> tuple[ClusterAnswers, Slots | None]:
    """Returns the cluster's answers about the configs, and the slots of our runtime."""
    configs = {planned.spec.name: planned.config for planned in planned_configs}
    try:
        client = backend.rest()
    except ConnectError as error:
        return ClusterAnswers(silences=dict.fromkeys(configs, error.diagnostics[0].what)), None
    if client is None:
        # no worker runs the connectors now: our own rules are as good
        return ClusterAnswers(), None
    try:
        slots = _slots(client) if backend.project.uses_runtime else None
        return ask_cluster(RestPlugins(client), configs) if configs else ClusterAnswers(), slots
    finally:
        client.close()


def _slots(runtime: RestClient) -> Slots | None:
    """Returns the slots of the runtime; None if it does not publish them, or not yet."""
    try:
        status = runtime.read("/runtime", shapes.a_map) or {}
    except (ConnectError, RequestError):
        return None
    count = status.get("slots")
    if not isinstance(count, int) or count <= 0:
        return None
    if status.get("paused_tasks_release_slots") is True:
        return Slots(count, (TargetState.STOPPED, TargetState.PAUSED))
    return Slots(count)


def _tasks(name: str, desired: Desired, live: Live, slots: Slots) -> int:
    """Returns how many slots a connector may take: one for each of its tasks, if its config stays;
    else as many as its config allows."""
    spec, current = desired.connectors.get(name), live.connectors.get(name)
    target = current.target if current is not None else TargetState.RUNNING
    if spec is None:
        # not ours, or about to be deleted
        is_other = name not in live.ledger.connectors and target not in slots.without
        return len(current.task_states) if current is not None and is_other else 0
    if (spec.state or target) in slots.without:
        return 0
    if current is not None and current.task_states and _most(spec.config) == _most(current.config):
        return len(current.task_states)
    return _most(spec.config)


def _most(config: Mapping[str, str]) -> int:
    most = whole_number(config.get(_TASKS_MAX, "1"))
    return 1 if most is None else most


def whole_number(text: str) -> int | None:
    """Returns the number; None for other texts, and for more digits than a long has."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None
