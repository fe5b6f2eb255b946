"""Do the pins of specs fit their connectors, as far as that can be told without a cluster?"""

from __future__ import annotations

from collections.abc import Iterator

from connect_reconciler.observe.classes import kinds_of
from connect_reconciler.plan.checks.pin_shape import shape_problem, unread_topics
from connect_reconciler.plan.kinds import kind_of
from connect_runtime import plugins as installed
from connect_runtime.api import ConfigError, ConnectorError, SourceConnector
from connect_specs.desired import Desired, DesiredConnector, Pin
from connect_specs.diagnostics import Diagnostic
from connect_specs.plugin_definitions import Definitions

_CLASS = "connector.class"
_BUILT_IN = "connect_runtime.connectors."


def check_pins(
    desired: Desired, plugins: Definitions
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    """Errors and warnings, in the order of the connectors."""
    kinds = kinds_of((), desired, plugins)
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    for spec in desired.connectors.values():
        pin = spec.pin
        if pin is None:
            continue
        where = pin.where or spec.where
        kind = kind_of(spec.config, None, kinds)
        problem = shape_problem(pin, kind)
        if problem is not None:
            code, what, hint = problem
            errors.append(Diagnostic(code, f"pin {pin.id} of {spec.name}: {what}", where, "", hint))
        elif kind == "sink":
            for topic in unread_topics(pin, spec.config):
                what = f"pin {pin.id} of {spec.name}: the sink does not read topic {topic}"
                warnings.append(Diagnostic("plan.pin-not-read", what, where))
        else:
            errors.extend(refused_pin(spec, pin))
    return tuple(errors), tuple(warnings)


def refused_pin(spec: DesiredConnector, pin: Pin) -> Iterator[Diagnostic]:
    """What a source of ours says of these offsets. What others do when asked, nobody knows."""
    connector = _built_in_source(spec.config.get(_CLASS, ""))
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
