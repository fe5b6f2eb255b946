"""The connectors whose converters and transformations can be run, or the problems that prevent it.

Only keys that converters and transformations read are used, and only their references to config
providers are resolved, in this process: the connector's own passwords are never needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from connect_reconciler.model.live import Kind
from connect_reconciler.testing.java_pipeline import JavaPipeline
from connect_reconciler.testing.pipeline import Pipeline, SinkPipeline, SourcePipeline
from connect_runtime.api import ConfigError, ConnectorError
from connect_runtime.config_providers.references import undeclared
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.data.converters import converters_of
from connect_runtime.engine.java_chains import JavaChains
from connect_runtime.plugins import registry
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.plugins.registry import PluginKind
from connect_runtime.transforms.chain import chain_of
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.secrets import Redactor

_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_ROOTS: Final = (*_CONVERTERS, "transforms", "predicates")
_HEADERS: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_CANNOT_RUN: Final = (
    "connect runs Connect's own converters and transformations, those that are written in Python, "
    "and Java's: `connect plugins install` installs a plugin, and cluster: worker: plugin.path in "
    "connect.yaml names folders of jars"
)
_NOT_JAVA: Final = (
    "a config runs in Java or in Python as a whole: `connect plugins install` installs a plugin, "
    "and plugin.path names folders of jars"
)
_DECLARE: Final = "declare the provider in connect.yaml, below cluster: worker:, as the workers do"
_PROVIDE: Final = "the value is needed where `connect test` runs: provide it there"


@dataclass(frozen=True, slots=True)
class Subject:
    """A connector with the config to run. `worker` holds the worker's properties, whose converters
    are the defaults; `is_ours`: our runtime is that worker. `label` names the config in messages;
    it is empty for the spec. `java` has the Java plugins of the worker."""

    name: str
    kind: Kind
    config: Mapping[str, str] = field(repr=False)
    worker: Mapping[str, str] = field(repr=False)
    is_ours: bool
    location: Location
    key_locations: Mapping[str, Location] = field(default_factory=dict)
    sensitive: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    label: str = ""
    java: JavaChains | None = field(default=None, compare=False)


def pipeline_keys(config: Mapping[str, str]) -> dict[str, str]:
    """Returns the keys that converters and transformations read."""
    return {
        key: value
        for key, value in config.items()
        if key in _ROOTS or key.startswith(tuple(f"{root}." for root in _ROOTS))
    }


@contextmanager
def prepared(subject: Subject) -> Iterator[Pipeline]:
    """Yields the pipeline of a config. Raises Invalid with every plugin that cannot run here."""
    allow_modules(subject.worker)
    config, worker, redactor = _resolved(subject)
    java = subject.java if _is_java(subject, config, worker) else None
    problems = tuple(_missing(subject, config, worker, java))
    if problems:
        raise Invalid(*problems)
    pipeline: Pipeline
    try:
        if java is not None:
            pipeline = _java_pipeline(java, subject, config, worker, redactor)
        else:
            python = SinkPipeline if subject.kind == "sink" else SourcePipeline
            pipeline = python(converters_of(config, worker), chain_of(config), redactor)
    except (Exception, SystemExit) as error:
        text = str(error)
        if not isinstance(error, ConnectorError | ValueError):
            # Of a class of the user's, whose text alone may be no help
            text = f"{type(error).__name__}: {text}"
        problem = f"{_label(subject)} cannot be used: {redactor.redact(text)}"
        hint = "`connect validate` checks configs"
        raise Invalid(Diagnostic("test.config", problem, subject.location, hint=hint)) from None
    try:
        yield pipeline
    finally:
        # Its outcomes are known by now
        with suppress(Exception):
            pipeline.close()


def resolved_config(subject: Subject, config: Mapping[str, str]) -> Mapping[str, str]:
    """Returns these keys of the config with their references resolved. Raises Invalid."""
    with _providers(subject) as providers:
        return providers.resolve(config).config


@contextmanager
def _providers(subject: Subject) -> Iterator[ConfigProviders]:
    providers = ConfigProviders(subject.worker)
    try:
        yield providers
    except ConfigError as error:
        raise Invalid(_unresolved(subject, str(error))) from None
    finally:
        providers.close()


def _resolved(subject: Subject) -> tuple[Mapping[str, str], Mapping[str, str], Redactor]:
    """Returns config and worker properties, as far as they are needed, and a redactor of their
    secrets."""
    config, worker = pipeline_keys(subject.config), pipeline_keys(subject.worker)
    if not subject.is_ours:
        foreign = next(undeclared(config, subject.worker), None)
        if foreign is not None:
            key, provider = foreign
            text = f"connect.yaml does not declare the config provider {provider} of {key}"
            raise Invalid(_unresolved(subject, text, _DECLARE))
    with _providers(subject) as providers:
        ours, theirs = providers.resolve(config), providers.resolve(worker)
    texts = [*ours.provided.values(), *theirs.provided.values(), *subject.secrets]
    redactor = Redactor.of_configs(ours.config, named=subject.sensitive, texts=texts)
    return ours.config, theirs.config, redactor


def _missing(
    subject: Subject,
    config: Mapping[str, str],
    worker: Mapping[str, str],
    java: JavaChains | None,
) -> Iterator[Diagnostic]:
    """Yields the plugins that cannot run here, on the side on which the config runs."""
    for kind, key in registry.class_keys(config):
        name = _class_name(key, config, worker)
        if name:
            reason = _unknown(kind, key, name) if java is None else _not_java(kind, name, java)
            if reason:
                problem = f"{key} of {_label(subject)}: {name} cannot run here"
                location = subject.key_locations.get(key, subject.location)
                hint = _CANNOT_RUN if java is None else _NOT_JAVA
                yield Diagnostic("test.cannot-run", problem, location, reason, hint)
        elif key in ("key.converter", "value.converter"):
            problem = f"{key} is not known: neither {_label(subject)} nor connect.yaml names one"
            hint = f"write the workers' {key} to connect.yaml, below cluster: worker:"
            yield Diagnostic("test.no-converter", problem, subject.location, hint=hint)


def _class_name(key: str, config: Mapping[str, str], worker: Mapping[str, str]) -> str:
    """Returns the class that a key names; of converters the worker's by default."""
    return config.get(key) or ("" if key.endswith(".type") else worker.get(key, ""))


def _unknown(kind: PluginKind, key: str, name: str) -> str:
    """Returns why Python has no such plugin; empty if it does."""
    try:
        registry.plugin(kind, key, name)
    except ConnectorError as error:
        return str(error)
    return ""


def _not_java(kind: PluginKind, name: str, java: JavaChains) -> str:
    return "" if java.has((kind,), name) else "Java has no such plugin"


# --- Java ---


def _is_java(subject: Subject, config: Mapping[str, str], worker: Mapping[str, str]) -> bool:
    """Returns whether the config runs in a JVM: its connector is Java's, or a class that only Java
    has is in it. Java is not needed for a config whose classes are all here."""
    java = subject.java
    if java is None:
        return False
    connector = subject.config.get("connector.class", "")
    if not _is_python(connector) and java.has(("source", "sink"), connector):
        return True
    for kind, key in registry.class_keys(config):
        name = _class_name(key, config, worker)
        if name and _unknown(kind, key, name) and java.has((kind,), name):
            return True
    return False


def _is_python(connector: str) -> bool:
    try:
        registry.connector(connector)
    except ConnectorError:
        return False
    return True


def _java_pipeline(
    java: JavaChains,
    subject: Subject,
    config: Mapping[str, str],
    worker: Mapping[str, str],
    redactor: Redactor,
) -> JavaPipeline:
    needed = {
        "name": subject.name,
        "connector.class": subject.config.get("connector.class", ""),
        **_with_converters(config, worker),
    }
    is_sink = subject.kind == "sink"
    return JavaPipeline(java, java.open(needed, sink=is_sink), redactor, sink=is_sink)


def _with_converters(config: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """Returns the config with the worker's converters in place of those that it does not name."""
    merged = dict(config)
    for root in _CONVERTERS:
        if root not in config:
            own = [key for key in config if key.startswith(f"{root}.")]
            for key in own:
                del merged[key]
            merged |= {k: v for k, v in worker.items() if k == root or k.startswith(f"{root}.")}
    return {"header.converter": _HEADERS, **merged}


def _unresolved(subject: Subject, text: str, hint: str = _PROVIDE) -> Diagnostic:
    problem = f"{_label(subject)} needs a value that cannot be resolved here"
    return Diagnostic("test.unresolved-reference", problem, subject.location, text, hint)


def _label(subject: Subject) -> str:
    return f"{subject.name} {subject.label}" if subject.label else subject.name
