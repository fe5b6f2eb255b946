"""What is wrong in a project's files, as far as can be told without a cluster?

Under a REST target `worker` only says what its workers are set to: what our runtime would not heed
is nothing to warn of, and a name that no worker knows still is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from connect_reconciler.backend.known_plugins import local_definitions
from connect_reconciler.backend.observe.plugin_facts import kinds_of, passwords_in
from connect_reconciler.backend.rest.refusals import follows_from_another
from connect_reconciler.model.live import kind_of
from connect_reconciler.plan.checks.pins import shape_problem, unread_topics
from connect_reconciler.validation.findings import Written, findings
from connect_reconciler.validation.judges import NO_KAFKA, ClusterAnswers
from connect_runtime import plugins as installed
from connect_runtime.api import ConfigError, ConnectorError, SourceConnector
from connect_runtime.worker_config import from_project
from connect_runtime.worker_keys import is_known, unheeded
from connect_specs.desired import Desired, DesiredConnector, Pin, Project
from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place
from connect_specs.plugin_definitions import CLASS_KEY, Definitions

_BUILT_IN: Final = "connect_runtime.connectors."


def check_project(project: Project) -> list[Diagnostic]:
    """Are the properties in connect.yaml ones that somebody reads? By place."""
    return by_place((*_wrong_values(project), *project.warnings, *_unheeded(project)))


def check_specs(project: Project, desired: Desired) -> tuple[Diagnostic, ...]:
    """Would configs and pins of all specs work, as far as is known here?"""
    plugins = local_definitions(project)
    written = [
        Written.of(spec, spec.config, passwords_in(spec.config, plugins))
        for spec in desired.connectors.values()
    ]
    said = findings(project, written, ClusterAnswers(), plugins)
    return (*said, *check_pins(desired, plugins))


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
                yield Diagnostic("plan.pin-not-read", what, where, severity="warning")
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


def _unheeded(project: Project) -> Iterator[Diagnostic]:
    for key, sentence in unheeded(project.worker):
        if project.uses_runtime or not is_known(key):
            hint, place = "remove it, or correct its name", _place(project, key)
            yield Diagnostic("project.worker-key", sentence, place, hint=hint, severity="warning")


def _wrong_values(project: Project) -> Iterator[Diagnostic]:
    if not project.uses_runtime:
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
