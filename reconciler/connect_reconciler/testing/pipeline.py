"""Runs a connector's converters and transformations over single records, as a task of our runtime
does: with the same classes, and without a cluster.

Nothing is tried again and every failure is tolerated here, whatever `errors.*` says: the question
is what becomes of each record. Only keys that converters and transformations read are used, and
only their references to config providers are resolved, in this process: a password of the connector
is never asked for.
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
    Delivered,
    Dropped,
    Failed,
    Outcome,
    Run,
    ShownRecord,
    kafka_record,
    shown_record,
)
from connect_runtime.api import ConfigError, ConnectorError, SinkRecord, SourceRecord
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
from connect_specs.redaction import Redactor, secrets_in

_PARTS: Final = ("key.converter", "value.converter", "header.converter", "transforms", "predicates")
_CANNOT_RUN: Final = (
    "connect runs Connect's own converters and transformations, and those that are written in "
    "Python; test the others on a worker"
)
_DECLARE: Final = "declare the provider in connect.yaml, below cluster: worker:, as the workers do"
_PROVIDE: Final = "the value is needed where `connect test` runs: provide it there"
_NO_CHAIN: Final = Chain(())


class Pipeline(ABC):
    """What one config does to records. Close it after use."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._failures = _Failures()
        self._errors = ErrorHandler(ErrorPolicy(tolerates_all=True), (self._failures,))

    def run(self, record: Any) -> Run:
        """Runs one record: a message of Kafka for a sink, a SourceRecord for a source."""
        given, before = self._given(record), None
        outcome: Outcome
        try:
            read = self._read(record)
            before = shown_record(read)
            after = self._chain.apply(read, record, self._errors)
            outcome = Dropped() if after is None else self._delivered(after)
        except RecordSkipped:
            outcome = self._failures.outcome()
        except ConnectorError as error:
            # Such as an invalid timestamp, which fails the task
            outcome = _failed("KAFKA_PRODUCE", "", error)
        except (Exception, SystemExit) as error:
            # A class of the user's that returned something else than a record, or called sys.exit
            outcome = _failed("TRANSFORMATION", "", error)
        return Run(outcome, before, given)

    def close(self) -> None:
        """Closes transformations. Raises what they raise."""
        self._chain.close()

    @abstractmethod
    def _given(self, record: Any) -> ShownRecord | None:
        """The record in Kafka, if it comes from there."""

    @abstractmethod
    def _read(self, record: Any) -> Any:
        """The record that the first transformation gets. Raises RecordSkipped."""

    @abstractmethod
    def _delivered(self, after: Any) -> Delivered:
        """What becomes of the record that the last one returns. Raises RecordSkipped."""


class SinkPipeline(Pipeline):
    """From Kafka's bytes to the records that a sink's task gets."""

    def __init__(self, converters: Converters, chain: Chain) -> None:
        super().__init__(chain)
        self._decoder = Decoder(converters, _NO_CHAIN, self._errors)

    def _given(self, record: Any) -> ShownRecord | None:
        return kafka_record(
            record.topic(),
            record.partition(),
            record.offset(),
            timestamp_of(record),
            record.key(),
            record.value(),
            record.headers() or [],
        )

    def _read(self, record: Any) -> SinkRecord:
        for read in self._decoder.batch([record]):
            return read
        raise RecordSkipped

    def _delivered(self, after: Any) -> Delivered:
        return Delivered(shown_record(after))


class SourcePipeline(Pipeline):
    """From the records that a source's task returns to Kafka's bytes."""

    def __init__(self, converters: Converters, chain: Chain) -> None:
        super().__init__(chain)
        self._pipeline = RecordPipeline(converters, _NO_CHAIN, self._errors)

    def _given(self, record: Any) -> ShownRecord | None:
        return None

    def _read(self, record: Any) -> SourceRecord:
        found: SourceRecord = record
        return found

    def _delivered(self, after: Any) -> Delivered:
        for sending in self._pipeline.sendings([after]):
            for message in sending.messages.records:
                return Delivered(shown_record(after), _written(sending, message))
        raise RecordSkipped


def pipeline_of(config: Mapping[str, str], worker: Mapping[str, str], kind: Kind) -> Pipeline:
    """Returns the pipeline of a config whose references are resolved. Raises ConnectorError."""
    converters, chain = converters_of(config, worker), chain_of(config)
    return (SinkPipeline if kind == "sink" else SourcePipeline)(converters, chain)


class _Failures:
    """Implements `ErrorReporter`: keeps the newest."""

    def __init__(self) -> None:
        self.last: Failure | None = None

    def report(self, failure: Failure) -> None:
        self.last = failure

    def outcome(self) -> Failed:
        """What a record that was skipped failed with."""
        assert self.last is not None, "only failures are skipped"
        return _failed(self.last.stage.name, self.last.class_name, self.last.error)


def _failed(stage: str, class_name: str, error: BaseException) -> Failed:
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause).strip()
        if text and text not in texts:
            texts.append(text)
        cause = cause.__cause__
    name = error.java_class if isinstance(error, ConnectorError) else type(error).__name__
    return Failed(stage, class_name, name, ": ".join(text.rstrip(": ") for text in texts))


def _written(sending: Sending, message: Mapping[str, Any]) -> ShownRecord:
    return kafka_record(
        sending.topic,
        sending.partition,
        None,
        message.get("timestamp"),
        message.get("key"),
        message.get("value"),
        message.get("headers") or [],
    )


# --- from a connector to its pipeline, or to what keeps it from running here ---


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
    except (Exception, SystemExit) as error:
        text = str(error)
        if not isinstance(error, ConnectorError | ValueError):
            # Of a class of the user's, whose text alone may say little
            text = f"{type(error).__name__}: {text}"
        what = f"{_whose(subject)} cannot be used: {redactor.redact(text)}"
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
    secrets = [*ours.provided.values(), *theirs.provided.values(), *subject.secrets]
    secrets += secrets_in(ours.config, subject.sensitive)
    return ours.config, theirs.config, secrets


def _missing(
    subject: Subject, config: Mapping[str, str], worker: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """The plugins that this installation does not have."""
    for kind, key in registry.class_keys(config):
        is_member = key.endswith(".type")
        name = config.get(key) or (not is_member and worker.get(key))
        if name:
            yield from _unknown(subject, kind, key, name)
        elif key in ("key.converter", "value.converter"):
            what = f"{key} is not known: neither {_whose(subject)} nor connect.yaml names one"
            hint = f"write the workers' {key} to connect.yaml, below cluster: worker:"
            yield Diagnostic("test.no-converter", what, subject.where, hint=hint)


def _unknown(subject: Subject, kind: PluginKind, key: str, name: str) -> Iterator[Diagnostic]:
    try:
        registry.plugin(kind, key, name)
    except ConnectorError as error:
        what = f"{key} of {_whose(subject)}: {name} cannot run here"
        where = subject.key_locations.get(key, subject.where)
        yield Diagnostic("test.cannot-run", what, where, str(error), _CANNOT_RUN)


def _unresolved(subject: Subject, text: str, hint: str = _PROVIDE) -> Diagnostic:
    what = f"{_whose(subject)} needs a value that cannot be resolved here"
    return Diagnostic("test.unresolved-reference", what, subject.where, text, hint)


def _whose(subject: Subject) -> str:
    return f"{subject.name} {subject.label}" if subject.label else subject.name
