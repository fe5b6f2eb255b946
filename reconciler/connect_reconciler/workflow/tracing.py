"""Traces an apply for OpenTelemetry: a span for the apply, and one for each action in it.

Optional: nothing of OpenTelemetry is imported unless its environment variables name an endpoint.
Its standard variables do the rest, and TRACEPARENT makes the apply part of a trace of the caller's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
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
from connect_reconciler.workflow.trace_sender import TraceSender

if TYPE_CHECKING:
    from connect_reconciler.actions.plan import Plan
    from connect_reconciler.apply.context import ApplyContext

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_BAD: Final = (Outcome.FAILED, Outcome.UNKNOWN)
_MISSING: Final = (
    "warning: the apply is not traced, because OpenTelemetry is not installed: "
    "pip install '.[otel]' in the folder of connect's sources"
)


class ApplyTrace:
    """One apply. `tracer` and `parent` (a context, or None) are OpenTelemetry's."""

    def __init__(self, tracer: Any, plan: Plan, parent: Any = None) -> None:
        self._tracer = tracer
        attributes = {"connect.project": plan.project, "connect.actions": len(plan.actions)}
        self._span = tracer.start_span("connect apply", parent, attributes=attributes)
        self._context = _within(self._span)
        self._lock = threading.Lock()
        self._running: dict[int, Any] = {}

    def follow(self, progress: Progress) -> Progress:
        """Returns a progress that also makes spans."""

        def both(event: Event) -> None:
            self._see(event)
            progress(event)

        return both

    def end(self, report: ApplyReport | None) -> None:
        """Ends all spans; without a report, the apply did not begin or was killed."""
        for span in self._running.values():
            span.end()
        if report is None or not report.ok or report.exit_code:
            _fail(self._span, "" if report is None else f"exit code {report.exit_code.value}")
        self._span.end()

    def _see(self, event: Event) -> None:
        with self._lock:
            match event:
                case Began(apply_id=apply_id):
                    self._span.set_attribute("connect.apply_id", apply_id)
                case Started(number=number, action=action):
                    self._running[number] = self._action(action)
                case Finished(number=number, result=result):
                    span = self._running.pop(number, None)
                    if span is None and result.outcome is not Outcome.SKIPPED:
                        span = self._action(result.action)
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

    def _action(self, action: Action) -> Any:
        kind = type(action).__name__
        attributes = {"connect.connector": action.connector, "connect.action": kind}
        return self._tracer.start_span(
            f"connect action {kind}", self._context, attributes=attributes
        )


def _within(span: Any) -> Any:
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(span)


def _fail(span: Any, reason: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, reason))


def wanted(variables: Mapping[str, str]) -> bool:
    """Returns True if OpenTelemetry's variables ask for traces."""
    disabled = variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and any(variables.get(name) for name in _ENDPOINTS)


def traced(
    plan: Plan,
    context: ApplyContext,
    apply: Callable[[ApplyContext], ApplyReport],
    say: Callable[[str], None],
) -> ApplyReport:
    """Runs `apply`, and sends its trace if one is wanted. `say` gets a warning where OpenTelemetry
    is not installed, and where the collector did not take the trace. An endpoint that does not
    answer costs seconds, and never the apply."""
    if not wanted(os.environ):
        return apply(context)
    try:
        sender = TraceSender()
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
        reason = sender.close()
        if reason:
            say(f"warning: the trace of this apply was not sent: {reason}")


def _caller(variables: Mapping[str, str]) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = {"traceparent": "TRACEPARENT", "tracestate": "TRACESTATE"}
    carrier = {name: variables[key] for name, key in names.items() if variables.get(key)}
    return TraceContextTextMapPropagator().extract(carrier)
