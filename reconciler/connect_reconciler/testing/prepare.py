"""From a config to its pipeline, or to what keeps it from running here.

Only keys that converters and transformations read are used, and only their references to config
providers are resolved, in this process: a password of the connector is never asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from connect_reconciler.model.live import Kind
from connect_reconciler.testing.pipeline import Pipeline, pipeline_of
from connect_runtime.api import ConfigError, ConnectorError
from connect_runtime.config_providers.declared import undeclared
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.plugins import registry
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.plugins.registry import Plugin
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.redaction import Redactor, secrets_in

_CONVERTERS: Final[Mapping[str, Callable[[str, str], Plugin]]] = {
    "key.converter": registry.converter,
    "value.converter": registry.converter,
    "header.converter": registry.header_converter,
}
_PARTS: Final = (*_CONVERTERS, "transforms", "predicates")
_CANNOT_RUN: Final = (
    "connect runs Connect's own converters and transformations, and those that are written in "
    "Python; test the others on a worker"
)
_DECLARE: Final = "declare the provider in connect.yaml, below cluster: worker:, as the workers do"
_PROVIDE: Final = "the value is needed where `connect test` runs: provide it there"


@dataclass(frozen=True, slots=True)
class Subject:
    """A connector with the config to run. `worker` holds the worker's properties, whose converters
    count where the config names none; `is_ours`: our runtime is that worker. `label` says which
    config it is, for messages: empty for the spec."""

    name: str
    kind: Kind
    config: Mapping[str, str] = field(repr=False)
    worker: Mapping[str, str] = field(repr=False)
    is_ours: bool
    where: Location
    key_locations: Mapping[str, Location] = field(default_factory=dict)
    sensitive: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    label: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pipeline, and what its records are never shown with: the config's secrets."""

    pipeline: Pipeline
    redactor: Redactor


def parts_of(config: Mapping[str, str]) -> dict[str, str]:
    """Returns the keys that converters and transformations read."""
    return {
        key: value
        for key, value in config.items()
        if key in _PARTS or key.startswith(tuple(f"{part}." for part in _PARTS))
    }


@contextmanager
def prepared(subject: Subject) -> Iterator[Prepared]:
    """The pipeline of a config. Raises Invalid with every plugin that cannot run here."""
    allow_modules(subject.worker)
    config, worker, secrets = _resolved(subject)
    redactor = Redactor(secrets)
    problems = tuple(_missing(subject, config, worker))
    if problems:
        raise Invalid(*problems)
    try:
        pipeline = pipeline_of(config, worker, subject.kind)
    except (ConnectorError, ValueError) as error:
        what = f"{_whose(subject)} cannot be used: {redactor.redact(str(error))}"
        hint = "`connect validate` checks configs"
        raise Invalid(Diagnostic("test.config", what, subject.where, hint=hint)) from None
    try:
        yield Prepared(pipeline, redactor)
    finally:
        # Its outcomes are known by now
        with suppress(Exception):
            pipeline.close()


def resolved_config(subject: Subject, config: Mapping[str, str]) -> Mapping[str, str]:
    """Returns these keys of the config with their references resolved. Raises Invalid."""
    providers = ConfigProviders(subject.worker)
    try:
        return providers.resolve(config).config
    except ConfigError as error:
        raise Invalid(_unresolved(subject, str(error))) from None
    finally:
        providers.close()


def _resolved(subject: Subject) -> tuple[Mapping[str, str], Mapping[str, str], list[str]]:
    """Returns config and worker properties, as far as they are needed, and the secrets in them."""
    config, worker = parts_of(subject.config), parts_of(subject.worker)
    if not subject.is_ours:
        foreign = next(undeclared(config, subject.worker), None)
        if foreign is not None:
            key, provider = foreign
            text = f"connect.yaml does not declare the config provider {provider} of {key}"
            raise Invalid(_unresolved(subject, text, _DECLARE))
    providers = ConfigProviders(subject.worker)
    try:
        ours, theirs = providers.resolve(config), providers.resolve(worker)
    except ConfigError as error:
        raise Invalid(_unresolved(subject, str(error))) from None
    finally:
        providers.close()
    secrets = [*ours.given.values(), *theirs.given.values(), *subject.secrets]
    secrets += secrets_in(ours.config, subject.sensitive)
    return ours.config, theirs.config, secrets


def _missing(
    subject: Subject, config: Mapping[str, str], worker: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """The plugins that this installation does not have."""
    for key, find in _CONVERTERS.items():
        name = config.get(key) or worker.get(key)
        if name:
            yield from _unknown(subject, key, name, find)
        elif key != "header.converter":
            what = f"{key} is not known: neither {_whose(subject)} nor connect.yaml names one"
            hint = f"write the workers' {key} to connect.yaml, below cluster: worker:"
            yield Diagnostic("test.no-converter", what, subject.where, hint=hint)
    for aliases, find in (
        ("transforms", registry.transformation),
        ("predicates", registry.predicate),
    ):
        for alias in filter(None, map(str.strip, config.get(aliases, "").split(","))):
            key = f"{aliases}.{alias}.type"
            if config.get(key):
                yield from _unknown(subject, key, config[key], find)


def _unknown(
    subject: Subject, key: str, name: str, find: Callable[[str, str], Plugin]
) -> Iterator[Diagnostic]:
    try:
        find(key, name)
    except ConnectorError as error:
        what = f"{key} of {_whose(subject)}: {name} cannot run here"
        where = subject.key_locations.get(key, subject.where)
        yield Diagnostic("test.cannot-run", what, where, str(error), _CANNOT_RUN)


def _unresolved(subject: Subject, text: str, hint: str = _PROVIDE) -> Diagnostic:
    what = f"{_whose(subject)} needs a value that cannot be resolved here"
    return Diagnostic("test.unresolved-reference", what, subject.where, text, hint)


def _whose(subject: Subject) -> str:
    return f"{subject.name} {subject.label}" if subject.label else subject.name
