"""Traces an apply for OpenTelemetry: a span for the apply, and one for each action in it.

Optional: nothing of OpenTelemetry is imported unless its environment variables name an endpoint.
Its standard variables do the rest, and TRACEPARENT makes the apply part of a trace of the caller's.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from connect_reconciler.actions import Action
from connect_reconciler.apply.report import (
    ApplyReport,
    Began,
    ConnectorDone,
    Event,
    Finished,
    Outcome,
    Progress,
    Started,
)
from connect_specs.secrets import Redactor, secret_parts

if TYPE_CHECKING:
    from connect_reconciler.actions.plan import Plan
    from connect_reconciler.apply.context import ApplyContext

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_BAD: Final = (Outcome.FAILED, Outcome.UNKNOWN)
_MISSING: Final = (
    "warning: the apply is not traced, because OpenTelemetry is not installed: "
    "pip install '.[otel]' in the folder of connect's sources"
)
_EXPORT_S: Final = 5
# A collector that answers byte by byte never exceeds the exporter's own timeout
_PATIENCE_S: Final = 10


def traces_asked(variables: Mapping[str, str]) -> bool:
    """Returns True if OpenTelemetry's variables ask for traces."""
    disabled = variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and any(variables.get(name) for name in _ENDPOINTS)


def traced(
    plan: Plan,
    context: ApplyContext,
    apply: Callable[[ApplyContext], ApplyReport],
    say: Callable[[str], None],
) -> ApplyReport:
    """Runs `apply`, and sends its trace if one is asked for. `say` gets a warning if OpenTelemetry
    is not installed, or the collector did not take the trace. An endpoint that does not answer
    costs seconds, and never the apply."""
    if not traces_asked(os.environ):
        return apply(context)
    try:
        sender = _TraceSender(os.environ)
    except ImportError:
        say(_MISSING)
        return apply(context)
    except ValueError as error:  # such as a number that OpenTelemetry does not take
        say(f"warning: the apply is not traced: {error}")
        return apply(context)
    trace = ApplyTrace(sender.tracer, plan, _caller(os.environ))
    report = None
    try:
        report = apply(replace(context, progress=trace.follow(context.progress)))
        return report
    finally:
        trace.end(report)
        if reason := sender.close():
            say(f"warning: the trace of this apply was not sent: {reason}")


def _caller(variables: Mapping[str, str]) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = {"traceparent": "TRACEPARENT", "tracestate": "TRACESTATE"}
    carrier = {name: variables[key] for name, key in names.items() if variables.get(key)}
    return TraceContextTextMapPropagator().extract(carrier)


class ApplyTrace:
    """The spans of one apply. `tracer` and `parent` (a context, or None) are OpenTelemetry's."""

    def __init__(self, tracer: Any, plan: Plan, parent: Any = None) -> None:
        from opentelemetry.trace import set_span_in_context

        self._tracer = tracer
        attributes = {"connect.project": plan.project, "connect.actions": len(plan.actions)}
        self._span = tracer.start_span("connect apply", parent, attributes=attributes)
        self._context = set_span_in_context(self._span)
        self._lock = threading.Lock()
        self._running: dict[int, Any] = {}

    def follow(self, progress: Progress) -> Progress:
        """Returns a progress that also makes spans."""

        def both(event: Event) -> None:
            with self._lock:
                self._record(event)
            progress(event)

        return both

    def end(self, report: ApplyReport | None) -> None:
        """Ends all spans; without a report, the apply did not begin or was killed."""
        for span in self._running.values():
            span.end()
        if report is None or not report.ok or report.exit_code:
            _fail(self._span, "" if report is None else f"exit code {report.exit_code.value}")
        self._span.end()

    def _record(self, event: Event) -> None:
        match event:
            case Began(apply_id=apply_id):
                self._span.set_attribute("connect.apply_id", apply_id)
            case Started(number=number, action=action):
                self._running[number] = self._action_span(action)
            case Finished(number=number, result=result):
                span = self._running.pop(number, None)
                if span is None and result.outcome is not Outcome.SKIPPED:
                    span = self._action_span(result.action)
                if span is not None:
                    span.set_attribute("connect.outcome", result.outcome.value)
                    if result.outcome in _BAD:
                        _fail(span, result.detail)
                    span.end()
            case ConnectorDone(report=report):
                attributes = {"connect.connector": report.name, "connect.health": report.health}
                self._span.add_event("connector", attributes)
            case _:
                pass

    def _action_span(self, action: Action) -> Any:
        kind = type(action).__name__
        attributes = {"connect.connector": action.connector, "connect.action": kind}
        return self._tracer.start_span(
            f"connect action {kind}", self._context, attributes=attributes
        )


def _fail(span: Any, reason: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR, reason)


# --- sending ---


class _TraceSender:
    """Has a tracer, and sends its spans to a collector."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """Raises ImportError without OpenTelemetry, and ValueError for variables that it does not
        take."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

        log = _ExporterLog(Redactor(_secrets(variables)))

        class Exporter(OTLPSpanExporter):
            """Notes why it failed."""

            reason = ""

            def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
                log.texts.clear()
                result = super().export(spans)
                if result is not SpanExportResult.SUCCESS:
                    # the first is the most exact: the last only says that it gave up
                    self.reason = next(iter(log.texts), "the export failed")
                return result

        self._exporter = Exporter(timeout=_EXPORT_S)
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go over it
        attributes = {} if variables.get("OTEL_SERVICE_NAME") else {"service.name": "connect"}
        # at the exit of the process it would wait without an end
        self._provider = TracerProvider(
            resource=Resource.create(attributes), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self.tracer: Any = self._provider.get_tracer("connect")

    def close(self) -> str:
        """Sends all spans, which have ended. Returns why they were not sent; empty if they were."""
        ending = threading.Thread(target=self._provider.shutdown, name="send-trace", daemon=True)
        ending.start()
        ending.join(_PATIENCE_S)
        if ending.is_alive():
            return f"the collector did not answer in {_PATIENCE_S} s"
        return self._exporter.reason


class _ExporterLog(logging.Handler):
    """Keeps what exporters log, redacted: Python would print it, each try a line."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        self.texts: list[str] = []
        logger = logging.getLogger("opentelemetry")
        logger.handlers = [self]
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("opentelemetry.exporter"):
            reason, _, _ = record.getMessage().partition(" encountered while exporting")
            self.texts.append(self._redactor.redact(reason))


def _secrets(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        if name.startswith("OTEL_"):
            yield from secret_parts(value)
            if name.endswith("_HEADERS"):
                yield from (header.partition("=")[2].strip() for header in value.split(","))
