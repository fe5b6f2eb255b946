"""Would the runtime take the configs that the specs ask for? Its own rules answer, before an apply.

Only configs that are to be written are asked about, and only where the connector's class is
installed here: a plan may be made where it is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from connect_reconciler.hiding import hide
from connect_reconciler.plan.diff import written_config
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.sensitive import Veil
from connect_runtime.herder.errors import RequestError
from connect_runtime.validation.validate import validate
from connect_runtime.validation.without_effect import without_effect
from connect_runtime.worker_config import WorkerConfig
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.diagnostics import Diagnostic


def check_configs(
    desired: Desired,
    live: Mapping[str, Mapping[str, str]],
    installed: Collection[str],
    worker: WorkerConfig,
) -> Iterator[Diagnostic]:
    """What is wrong with configs that would be written. `live` holds configs by connector."""
    for spec, written in _written(desired, live):
        if spec.config.get("connector.class") in installed:
            for error in _errors(written, worker):
                yield _refusal(spec, written, error)


def warn_of_configs(
    desired: Desired, live: Mapping[str, Mapping[str, str]]
) -> Iterator[Diagnostic]:
    """What our runtime would take from configs that would be written, and not act on."""
    for spec, written in _written(desired, live):
        for what in without_effect(written):
            yield Diagnostic("config.without-effect", f"{spec.name}: {what}", spec.where)


def _written(
    desired: Desired, live: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[DesiredConnector, Mapping[str, str]]]:
    for name, spec in desired.connectors.items():
        stored = without_reserved(live[name]) if name in live else None
        written = written_config(spec, stored)
        if written != stored:
            yield spec, written


def _errors(config: Mapping[str, str], worker: WorkerConfig) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(validate(config, worker).errors))
    except RequestError as error:
        return (error.message,)


def _refusal(spec: DesiredConnector, config: Mapping[str, str], error: str) -> Diagnostic:
    what = hide(error, Veil(spec.name, None, frozenset(spec.sensitive)), config)
    return Diagnostic("config.refused", f"{spec.name}: {what}", spec.where)
