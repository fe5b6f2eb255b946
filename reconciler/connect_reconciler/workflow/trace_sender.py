"""Sends the spans of an apply to an OpenTelemetry collector, within seconds, and tells in one line
why they were not sent."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from connect_specs.secrets import Redactor, secret_parts

_EXPORT_S: Final = 5
# A collector that answers byte by byte never exceeds the exporter's own timeout
_PATIENCE_S: Final = 10
_LOGGER: Final = "opentelemetry"
_EXPORTERS: Final = f"{_LOGGER}.exporter"


class TraceSender:
    """Has a tracer whose spans it sends; `close` once all have ended."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        """Raises ImportError without OpenTelemetry, and ValueError for variables that it does not
        take."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._log = _ExporterLog(Redactor(_secrets(variables)))
        _take_log(self._log)
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go over it
        attributes = {} if variables.get("OTEL_SERVICE_NAME") else {"service.name": "connect"}
        self._exporter = _Exporter(OTLPSpanExporter(timeout=_EXPORT_S), self._log)
        # at the exit of the process it would wait without an end
        self._provider = TracerProvider(
            resource=Resource.create(attributes), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self.tracer: Any = self._provider.get_tracer("connect")

    def close(self) -> str:
        """Sends what is left. Returns why spans were not sent; empty if all were."""
        ending = threading.Thread(target=self._end, name="send-trace", daemon=True)
        ending.start()
        ending.join(_PATIENCE_S)
        if ending.is_alive():
            return f"the collector did not answer in {_PATIENCE_S} s"
        return self._exporter.why

    def _end(self) -> None:
        self._provider.force_flush(_EXPORT_S * 1000)
        self._provider.shutdown()


class _Exporter:
    """An exporter of OpenTelemetry that notes why it failed."""

    def __init__(self, exporter: Any, log: _ExporterLog) -> None:
        self._exporter = exporter
        self._log = log
        self.why = ""

    def export(self, spans: Sequence[Any]) -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._log.texts.clear()
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            # the first is the most exact: the last only says that it gave up
            self.why = next(iter(self._log.texts), "the export failed")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


class _ExporterLog(logging.Handler):
    """Keeps what exporters log, redacted: Python would print it, each try a line."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_EXPORTERS):
            reason, _, _ = record.getMessage().partition(" encountered while exporting")
            self.texts.append(self._redactor.redact(reason))


def _take_log(handler: logging.Handler) -> None:
    logger = logging.getLogger(_LOGGER)
    logger.handlers = [handler]
    logger.propagate = False


def _secrets(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        if name.startswith("OTEL_"):
            yield from secret_parts(value)
            if name.endswith("_HEADERS"):
                yield from (header.partition("=")[2].strip() for header in value.split(","))
