"""Runs a connector's converters and transformations over single records, as a task of our runtime
does: with the same classes, and without a cluster.

Nothing is tried again, and every failure is tolerated regardless of `errors.*`: each record has an
outcome. Only keys that converters and transformations read are used, and only their references to
config providers are resolved, in this process: the connector's own passwords are never needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from connect_reconciler.model.live import Kind
from connect_reconciler.testing.inputs import timestamp_of
from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    Outcome,
    RecordRun,
    ShownRecord,
    kafka_record,
    shown_record,
)
from connect_runtime.api import ConfigError, ConnectorError, SinkRecord
from connect_runtime.config_providers.references import undeclared
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.data.converters import Converters, converters_of
from connect_runtime.errors.handler import ErrorHandler, ErrorPolicy, Failure, RecordSkipped
from connect_runtime.plugins import registry
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.plugins.registry import PluginKind
from connect_runtime.tasks.sink.decoder import Decoder
from connect_runtime.tasks.source.pipeline import RecordPipeline, Sending
from connect_runtime.transforms.chain import Chain, chain_of
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.secrets import Redactor

_ROOTS: Final = ("key.converter", "value.converter", "header.converter", "transforms", "predicates")
_CANNOT_RUN: Final = (
    "connect runs Connect's own converters and transformations, and those that are written in "
    "Python; test the others on a worker"
)
_DECLARE: Final = "declare the provider in connect.yaml, below cluster: worker:, as the workers do"
_PROVIDE: Final = "the value is needed where `connect test` runs: provide it there"
_NO_CHAIN: Final = Chain(())


class Pipeline(ABC):
    """The converters and transformations of one config. Close it after use. `redactor` hides the
    config's secrets in its records."""

    def __init__(self, chain: Chain, redactor: Redactor) -> None:
        self.redactor = redactor
        self._chain = chain
        self._failures = _Failures()
        self._errors = ErrorHandler(ErrorPolicy(tolerates_all=True), (self._failures,))

    def run(self, record: Any) -> RecordRun:
        """Runs one record: a message of Kafka for a sink, a SourceRecord for a source."""
        outcome: Outcome
        consumed, shown_input = self._consumed(record), None
        try:
            converted = self._convert(record)
            shown_input = shown_record(converted)
            transformed = self._chain.apply(converted, record, self._errors)
            outcome = DroppedRecord() if transformed is None else self._delivered(transformed)
        except RecordSkipped:
            outcome = self._failures.outcome()
        except ConnectorError as error:
            # Such as an invalid timestamp, which fails the task
            outcome = _failed("KAFKA_PRODUCE", "", error)
        except (Exception, SystemExit) as error:
            # A class of the user's that returned something else than a record, or called sys.exit
            outcome = _failed("TRANSFORMATION", "", error)
        return RecordRun(outcome, shown_input, consumed)

    def close(self) -> None:
        """Closes transformations. Raises their errors."""
        self._chain.close()

    def _consumed(self, record: Any) -> ShownRecord | None:
        """Returns the record in Kafka, if it comes from there."""
        return None

    def _convert(self, record: Any) -> Any:
        """Returns the record that the first transformation gets. Raises RecordSkipped."""
        return record

    @abstractmethod
    def _delivered(self, transformed: Any) -> DeliveredRecord:
        """Returns the outcome of the record that the last one returns. Raises RecordSkipped."""


class SinkPipeline(Pipeline):
    """The way from Kafka's bytes to the records that a sink's task gets."""

    def __init__(self, converters: Converters, chain: Chain, redactor: Redactor) -> None:
        super().__init__(chain, redactor)
        self._decoder = Decoder(converters, _NO_CHAIN, self._errors)

    def _consumed(self, record: Any) -> ShownRecord | None:
        return kafka_record(
            record.topic(),
            record.partition(),
            record.offset(),
            timestamp_of(record),
            record.key(),
            record.value(),
            record.headers() or [],
        )

    def _convert(self, record: Any) -> SinkRecord:
        for converted in self._decoder.batch([record]):
            return converted
        raise RecordSkipped

    def _delivered(self, transformed: Any) -> DeliveredRecord:
        return DeliveredRecord(shown_record(transformed))


class SourcePipeline(Pipeline):
    """The way from the records that a source's task returns to Kafka's bytes."""

    def __init__(self, converters: Converters, chain: Chain, redactor: Redactor) -> None:
        super().__init__(chain, redactor)
        self._pipeline = RecordPipeline(converters, _NO_CHAIN, self._errors)

    def _delivered(self, transformed: Any) -> DeliveredRecord:
        for sending in self._pipeline.sendings([transformed]):
            for message in sending.messages.records:
                return DeliveredRecord(shown_record(transformed), _in_kafka(sending, message))
        raise RecordSkipped


class _Failures:
    """Implements `ErrorReporter`: keeps the newest."""

    def __init__(self) -> None:
        self.last: Failure | None = None

    def report(self, failure: Failure) -> None:
        self.last = failure

    def outcome(self) -> FailedRecord:
        """Returns the failure for which a record was skipped."""
        assert self.last is not None, "only failures are skipped"
        return _failed(self.last.stage.name, self.last.class_name, self.last.error)


def _failed(stage: str, class_name: str, error: BaseException) -> FailedRecord:
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause).strip()
        if text and text not in texts:
            texts.append(text)
        cause = cause.__cause__
    name = error.java_class if isinstance(error, ConnectorError) else type(error).__name__
    return FailedRecord(stage, class_name, name, ": ".join(text.rstrip(": ") for text in texts))


def _in_kafka(sending: Sending, message: Mapping[str, Any]) -> ShownRecord:
    return kafka_record(
        sending.topic,
        sending.partition,
        None,
        message.get("timestamp"),
        message.get("key"),
        message.get("value"),
        message.get("headers") or [],
    )


# --- from a connector to its pipeline, or to the problems that prevent it ---


@dataclass(frozen=True, slots=True)
class Subject:
    """A connector with the config to run. `worker` holds the worker's properties, whose converters
    are the defaults; `is_ours`: our runtime is that worker. `label` names the config in messages;
    it is empty for the spec."""

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
    problems = tuple(_missing(subject, config, worker))
    if problems:
        raise Invalid(*problems)
    try:
        pipeline = (SinkPipeline if subject.kind == "sink" else SourcePipeline)(
            converters_of(config, worker), chain_of(config), redactor
        )
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
    subject: Subject, config: Mapping[str, str], worker: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """Yields the plugins that this installation does not have."""
    for kind, key in registry.class_keys(config):
        is_member = key.endswith(".type")
        name = config.get(key) or (not is_member and worker.get(key))
        if name:
            yield from _unknown(subject, kind, key, name)
        elif key in ("key.converter", "value.converter"):
            problem = f"{key} is not known: neither {_label(subject)} nor connect.yaml names one"
            hint = f"write the workers' {key} to connect.yaml, below cluster: worker:"
            yield Diagnostic("test.no-converter", problem, subject.location, hint=hint)


def _unknown(subject: Subject, kind: PluginKind, key: str, name: str) -> Iterator[Diagnostic]:
    try:
        registry.plugin(kind, key, name)
    except ConnectorError as error:
        problem = f"{key} of {_label(subject)}: {name} cannot run here"
        location = subject.key_locations.get(key, subject.location)
        yield Diagnostic("test.cannot-run", problem, location, str(error), _CANNOT_RUN)


def _unresolved(subject: Subject, text: str, hint: str = _PROVIDE) -> Diagnostic:
    problem = f"{_label(subject)} needs a value that cannot be resolved here"
    return Diagnostic("test.unresolved-reference", problem, subject.location, text, hint)


def _label(subject: Subject) -> str:
    return f"{subject.name} {subject.label}" if subject.label else subject.name
