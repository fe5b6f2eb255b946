"""Runs a connector's converters and transformations over single records, as a task of our runtime
does: with the same classes, and without a cluster.

Nothing is tried again, and every failure is tolerated regardless of `errors.*`: each record has an
outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

from connect_reconciler.testing.inputs import message_record
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
from connect_runtime.api import ConnectorError, SinkRecord
from connect_runtime.data.converters import Converters
from connect_runtime.errors.handler import ErrorHandler, ErrorPolicy, Failure, RecordSkipped
from connect_runtime.tasks.sink.decoder import Decoder
from connect_runtime.tasks.source.pipeline import RecordPipeline, Sending
from connect_runtime.transforms.chain import Chain
from connect_specs.secrets import Redactor

_NO_CHAIN: Final = Chain(())


class Pipeline(ABC):
    """The converters and transformations of one config. Close it after use. `redactor` hides the
    config's secrets in its records."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    @abstractmethod
    def run(self, record: Any) -> RecordRun:
        """Runs one record: a message of Kafka for a sink, a SourceRecord for a source."""

    @abstractmethod
    def close(self) -> None:
        """Closes transformations. Raises their errors."""


class PythonPipeline(Pipeline):
    """A pipeline of Python classes, Connect's own ones among them."""

    def __init__(self, chain: Chain, redactor: Redactor) -> None:
        super().__init__(redactor)
        self._chain = chain
        self._failures = _Failures()
        self._errors = ErrorHandler(ErrorPolicy(tolerates_all=True), (self._failures,))

    def run(self, record: Any) -> RecordRun:
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


class SinkPipeline(PythonPipeline):
    """The way from Kafka's bytes to the records that a sink's task gets."""

    def __init__(self, converters: Converters, chain: Chain, redactor: Redactor) -> None:
        super().__init__(chain, redactor)
        self._decoder = Decoder(converters, _NO_CHAIN, self._errors)

    def _consumed(self, record: Any) -> ShownRecord | None:
        return message_record(record)

    def _convert(self, record: Any) -> SinkRecord:
        for converted in self._decoder.batch([record]):
            return converted
        raise RecordSkipped

    def _delivered(self, transformed: Any) -> DeliveredRecord:
        return DeliveredRecord(shown_record(transformed))


class SourcePipeline(PythonPipeline):
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
        texts.append(str(cause))
        cause = cause.__cause__
    name = error.java_class if isinstance(error, ConnectorError) else type(error).__name__
    return FailedRecord(stage, class_name, name, failure_text(texts))


def failure_text(texts: Iterable[str]) -> str:
    """Returns the texts of an error and its causes as one."""
    distinct = dict.fromkeys(text.strip() for text in texts)
    return ": ".join(text.rstrip(": ") for text in distinct if text)


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
