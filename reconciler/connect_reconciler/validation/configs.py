"""Would the configs and pins of a project's specs work? Of the files alone, and before an apply.

`check_project` and `check_specs` need no cluster. `checked` also asks the cluster, and judges only
configs that are to be written. Under a REST target `worker` only says what its workers are set to:
what our runtime would not heed is nothing to warn of, and a name that no worker knows still is.
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
from connect_reconciler.validation.coming_policy import refused_later
from connect_reconciler.validation.findings import Written, findings, unread
from connect_reconciler.validation.judges import (
    NO_KAFKA,
    ClusterAnswers,
    ask_cluster,
    kind_by_class,
)
from connect_runtime.api import ConfigError, ConnectorError, SourceConnector
from connect_runtime.herder.verbs import RequestError
from connect_runtime.plugins import registry as installed
from connect_runtime.settings.worker_config import from_project
from connect_runtime.settings.worker_keys import is_known, without_effect
from connect_specs.desired import Desired, DesiredConnector, Pin, Project
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
from connect_specs.states import TargetState

_BUILT_IN: Final = "connect_runtime.connectors."
_TASKS_MAX: Final = "tasks.max"
# Of workers that are not ours, an apply reads this one
COMMITS: Final = "offset.flush.interval.ms"
_NUMBER: Final = re.compile("[0-9]{1,18}")


def check_project(project: Project) -> list[Diagnostic]:
    """Are the properties in connect.yaml ones that somebody reads? By place."""
    return by_place((*_wrong_values(project), *project.warnings, *_without_effect(project)))


def check_specs(project: Project, desired: Desired) -> tuple[Diagnostic, ...]:
    """Would configs and pins of all specs work, as far as is known here?"""
    plugins = local_definitions(project)
    written = [
        Written.of(spec, spec.config, passwords_in(spec.config, plugins))
        for spec in desired.connectors.values()
    ]
    said = findings(project, written, ClusterAnswers(), plugins)
    names = names_not_creatable(desired, ours=project.uses_runtime)
    return (*said, *check_pins(desired, plugins), *names)


def check_pins(desired: Desired, plugins: Definitions) -> Iterator[Diagnostic]:
    """Do pins fit their connectors? In the order of the connectors."""
    kinds = kinds_of((), desired, plugins)
    for spec in desired.connectors.values():
        pin = spec.pin
        if pin is None:
            continue
        where = pin.where or spec.where
        kind = kind_of(spec.config, None, kinds)
        problem = shape_problem(pin, kind)
        if problem is not None:
            what = f"pin {pin.id} of {spec.name}: {problem.what}"
            yield replace(problem, what=what, where=where)
        elif kind == "sink":
            for topic in unread_topics(pin, spec.config):
                what = f"pin {pin.id} of {spec.name}: the sink does not read topic {topic}"
                yield warning("plan.pin-not-read", what, where)
        else:
            yield from refused_pin(spec, pin)


def refused_pin(spec: DesiredConnector, pin: Pin) -> Iterator[Diagnostic]:
    """What a source of ours says of these offsets. What others do when asked, nobody knows."""
    connector = _built_in_source(spec.config.get(CLASS_KEY, ""))
    if connector is None:
        return
    wanted = [(entry.partition, entry.offset) for entry in pin.set]
    try:
        connector.alter_offsets(dict(spec.config), wanted)
    except ConfigError:
        # Told with the config
        return
    except ConnectorError as error:
        what = f"pin {pin.id} of {spec.name}: {error}"
        hint = "write partition and offset as `connect offsets list` shows them"
        yield Diagnostic("plan.pin-refused", what, pin.where or spec.where, hint=hint)


def _built_in_source(name: str) -> SourceConnector | None:
    try:
        found = installed.connector(name).cls
    except ConnectorError:
        return None
    is_ours = found.__module__.startswith(_BUILT_IN) and issubclass(found, SourceConnector)
    return found() if is_ours else None


def _without_effect(project: Project) -> Iterator[Diagnostic]:
    for key, sentence in without_effect(project.worker):
        if project.uses_runtime or not is_known(key):
            hint, place = "remove it, or correct its name", _place(project, key)
            yield warning("project.worker-key", sentence, place, hint=hint)


def _wrong_values(project: Project) -> Iterator[Diagnostic]:
    if not project.uses_runtime:
        given = project.worker.get(COMMITS)
        if given is not None and whole_number(given) is None:
            what, hint = f"{COMMITS} is not a number of milliseconds", "write it without a unit"
            yield Diagnostic("project.worker-key", what, _place(project, COMMITS), hint=hint)
        return
    try:
        from_project(project, NO_KAFKA if project.kafka is None else None, resolve=False)
    except Invalid as invalid:
        for found in invalid.diagnostics:
            key = str(found.where)
            if project.worker.get(key) is None or not follows_from_another(found.what):
                hint = found.hint or f"correct {key} in connect.yaml, or remove it for its default"
                yield replace(found, where=_place(project, key), hint=hint)


def _place(project: Project, key: str) -> Location:
    places = project.worker_locations.get(key) or project.kafka_locations.get(key)
    return places or Location(project.file.name)


def checked(live: Live, desired: Desired, backend: Backend) -> Live:
    """`live` with what there is to say about the configs that are to be written, and about slots
    for what is to run."""
    live = replace(live, errors=(*live.errors, *_refused_pins(desired, live)))
    written = tuple(_to_be_written(desired, live))
    if not written and not (backend.project.uses_runtime and _to_be_run(desired, live)):
        return live
    answers, slots = _ask(backend, written)
    with backend.plugins() as plugins:
        errors, warnings = by_severity(findings(backend.project, written, answers, plugins))
        sinks = {each.spec.name for each in written if kind_by_class(each.config, plugins) == SINK}
        unread_keys = {
            each.spec.name: tuple(
                found.key
                for found in unread(
                    each.config, answers.validations.get(each.spec.name, Validation(())), plugins
                )
            )
            for each in written
        }
    found = {
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
            *refused_later(
                backend.project,
                [(each.spec.name, each.config, each.spec.name in sinks) for each in written],
                "config.override-allowlist",
            ),
            *check_slots(desired, live, slots),
        ),
        password_keys={
            **live.password_keys,
            **{name: keys for name, keys in found.items() if keys},
        },
        unknown_keys=unread_keys,
    )


def ensure_installed(plan: Plan, desired: Desired) -> None:
    """Raises Invalid for classes that are not installed here. For an apply with no runtime up: only
    this installation can say whether a connector can work."""
    problems = []
    for action in plan.actions:
        spec = desired.connectors.get(action.connector)
        if not isinstance(action, ConfigAction) or spec is None:
            continue
        name = spec.config.get(CLASS_KEY, "")
        if installed_plugin(name, CONNECTORS) is None:
            what = f"{spec.name}: {name} is not installed here, and no runtime is up that has it"
            hint = "install it here, or apply while a runtime that has it is up"
            where = spec.key_locations.get(CLASS_KEY, spec.where)
            problems.append(Diagnostic("config.not-installed", what, where, hint=hint))
    if problems:
        raise Invalid(*problems)


@dataclass(frozen=True, slots=True)
class Slots:
    """How many tasks our runtime can run at once, and in which target states none takes a slot."""

    count: int
    without: tuple[TargetState, ...] = (TargetState.STOPPED,)


def check_slots(desired: Desired, live: Live, slots: Slots | None) -> Iterator[Diagnostic]:
    """A warning if more tasks may run than our runtime has slots.

    Each task takes one slot for as long as it runs. Those that find none are UNASSIGNED, which is
    no failure: so it is said beforehand.
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
    """Of pins that are not applied yet."""
    for spec in desired.connectors.values():
        if spec.pin is not None and recorded_pin(spec, live) is None:
            yield from refused_pin(spec, spec.pin)


def _to_be_written(desired: Desired, live: Live) -> Iterator[Written]:
    for name, spec in desired.connectors.items():
        there = live.connectors.get(name)
        stored = None if there is None else without_reserved(there.config)
        config = written_config(spec, base_config(spec, live))
        if config != stored:
            yield Written.of(spec, config, live.password_keys.get(name, frozenset()))


def _to_be_run(desired: Desired, live: Live) -> bool:
    """Whether a connector that is there is to go to another state, and takes slots there."""
    return any(
        there.target is not spec.state and spec.state not in (None, TargetState.STOPPED)
        for name, spec in desired.connectors.items()
        if (there := live.connectors.get(name)) is not None
    )


def _ask(backend: Backend, written: Iterable[Written]) -> tuple[ClusterAnswers, Slots | None]:
    """What the cluster says of the configs, and how many tasks our runtime can run at once."""
    configs = {each.spec.name: each.config for each in written}
    try:
        rest = backend.rest()
    except ConnectError as error:
        return ClusterAnswers(silences=dict.fromkeys(configs, error.diagnostics[0].what)), None
    if rest is None:
        # Nobody runs the connectors now: our own rules are as good.
        return ClusterAnswers(), None
    try:
        slots = _slots(rest) if backend.project.uses_runtime else None
        return ask_cluster(RestPlugins(rest), configs) if configs else ClusterAnswers(), slots
    finally:
        rest.close()


def _slots(runtime: RestClient) -> Slots | None:
    """Returns None where the runtime does not tell, or not yet."""
    try:
        found = runtime.read("/runtime", shapes.a_map) or {}
    except (ConnectError, RequestError):
        return None
    count = found.get("slots")
    if not isinstance(count, int) or count <= 0:
        return None
    if found.get("paused_tasks_release_slots") is True:
        return Slots(count, (TargetState.STOPPED, TargetState.PAUSED))
    return Slots(count)


def _tasks(name: str, desired: Desired, live: Live, slots: Slots) -> int:
    """How many slots a connector may take: one for each task that it has now, if its config stays;
    else as many as its config allows."""
    spec, there = desired.connectors.get(name), live.connectors.get(name)
    target = there.target if there is not None else TargetState.RUNNING
    if spec is None:
        # not ours, or about to be deleted
        is_other = name not in live.ledger.connectors and target not in slots.without
        return len(there.task_states) if there is not None and is_other else 0
    if (spec.state or target) in slots.without:
        return 0
    if there is not None and there.task_states and _most(spec.config) == _most(there.config):
        return len(there.task_states)
    return _most(spec.config)


def _most(config: Mapping[str, str]) -> int:
    most = whole_number(config.get(_TASKS_MAX, "1"))
    return 1 if most is None else most


def whole_number(text: str) -> int | None:
    """None for what is none, or has more digits than a long."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None
