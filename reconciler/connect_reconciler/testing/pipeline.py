"""Runs a connector's converters and transformations over single records, as a task of our runtime
does: with the same classes, and without a cluster.

Nothing is tried again and every failure is tolerated here, whatever `errors.*` says: the question
is what becomes of each record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
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
)
from connect_reconciler.testing.shown import kafka_record, shown_record
from connect_runtime.api import ConnectorError, SinkRecord, SourceRecord
from connect_runtime.data.converters import Converters, converters_of
from connect_runtime.errors.handler import ErrorHandler, RecordSkipped
from connect_runtime.errors.policy import ErrorPolicy
from connect_runtime.errors.stages import Failure
from connect_runtime.tasks.sink_decoder import Decoder
from connect_runtime.tasks.source_batches import Outbound, Sending
from connect_runtime.transforms.chain import Chain, chain_of

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
        self._outbound = Outbound(converters, _NO_CHAIN, self._errors)

    def _given(self, record: Any) -> ShownRecord | None:
        return None

    def _read(self, record: Any) -> SourceRecord:
        found: SourceRecord = record
        return found

    def _delivered(self, after: Any) -> Delivered:
        for sending in self._outbound.sendings([after]):
            for message in sending.messages.each:
                return Delivered(shown_record(after), _written(sending, message))
        raise RecordSkipped


def pipeline_of(config: Mapping[str, str], worker: Mapping[str, str], kind: Kind) -> Pipeline:
    """Returns the pipeline of a config whose references are resolved. Raises ConnectorError."""
    converters, chain = converters_of(config, worker), chain_of(config)
    return (SinkPipeline if kind == "sink" else SourcePipeline)(converters, chain)


class _Failures:
    """Implements `Reporter`: keeps the newest."""

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
