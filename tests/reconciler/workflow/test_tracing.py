"""What OpenTelemetry is told of an apply, with its SDK, and with a collector that takes OTLP."""

from __future__ import annotations

import builtins
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from connect_reconciler.apply.context import ApplyContext
from connect_reconciler.apply.report import ApplyReport, Event
from connect_reconciler.workflow import tracing
from connect_reconciler.workflow.tracing import ApplyTrace, traced, traces_asked
from connect_specs.desired import DesiredConnector, TargetState
from connect_specs.diagnostics import Location
from support.applying import Applying, desired_of
from support.fake_cluster import FakeCluster, FakeKafka, refused

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def spec(name: str) -> DesiredConnector:
    config = {"connector.class": "FileStreamSink", "topics": "t", "name": name}
    return DesiredConnector(name, config, Location(f"{name}.yaml", 1, 1))


DESIRED = desired_of(spec("a"), spec("b"))


class RefusesB(FakeCluster):
    """Takes no config of `b`."""

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        if name == "b":
            raise refused("Invalid value", 400)
        super().create(name, config, state)


def spans_of(kind: type[FakeCluster] = FakeCluster) -> list[ReadableSpan]:
    """The spans of one apply, in the order of their ends."""
    applying = Applying(FakeKafka())
    applying.kafka.create_topics()
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    plan = applying.plan(DESIRED)
    trace = ApplyTrace(provider.get_tracer("t"), plan)
    report = applying.apply(DESIRED, plan, cluster=kind(applying.kafka))
    seen: list[Event] = []
    for event in applying.events:
        trace.follow(seen.append)(event)
    assert seen == applying.events
    trace.end(report)
    return list(exporter.get_finished_spans())


def test_an_apply_is_a_span_with_one_for_each_action() -> None:
    *actions, apply = spans_of()
    assert apply.name == "connect apply"
    found = dict(apply.attributes or {})
    assert found.pop("connect.apply_id")
    assert found == {"connect.project": "orders", "connect.actions": 2}
    assert [each.name for each in actions] == ["connect action Create"] * 2
    assert {(each.attributes or {})["connect.connector"] for each in actions} == {"a", "b"}
    assert all((each.attributes or {})["connect.outcome"] == "done" for each in actions)
    assert apply.context is not None
    assert all(e.parent and e.parent.span_id == apply.context.span_id for e in actions)
    assert apply.status.is_unset
    health = {
        (event.attributes or {})["connect.connector"]: (event.attributes or {})["connect.health"]
        for event in apply.events
    }
    assert health == {"a": "later", "b": "later"}


def test_a_failed_action_fails_its_span_and_that_of_the_apply() -> None:
    *actions, apply = spans_of(RefusesB)
    outcomes = {
        (each.attributes or {})["connect.connector"]: (each.attributes or {})["connect.outcome"]
        for each in actions
    }
    assert outcomes == {"a": "done", "b": "failed"}
    failed = [each for each in actions if not each.status.is_unset]
    assert [each.status.description for each in failed] == ["Invalid value"]
    assert (apply.status.is_ok, apply.status.description) == (False, "exit code 1")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, True),
        ({ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_standard_variables_ask_for_traces(
    variables: Mapping[str, str], expected: bool
) -> None:
    assert traces_asked(variables) is expected


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ExportTraceServiceRequest]]:
    """What a collector on this machine was sent."""
    sent: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sent.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        yield sent
        server.shutdown()
        thread.join()


def context() -> ApplyContext:
    return ApplyContext(*(cast(Any, None),) * 4, by="test")


def test_a_collector_gets_the_trace_as_part_of_the_callers(
    collector: list[ExportTraceServiceRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{TRACE}-{PARENT}-01")
    report = ApplyReport("id", ())
    plan = Applying().plan(DESIRED)
    assert traced(plan, context(), lambda given: report, fail) is report
    (request,) = collector
    (resource,) = request.resource_spans
    names = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert names["service.name"] == "connect"
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == (
        "connect apply",
        TRACE,
        PARENT,
    )


def test_an_error_before_the_apply_begins_is_a_failed_span(
    collector: list[ExportTraceServiceRequest],
) -> None:
    def apply(given: ApplyContext) -> ApplyReport:
        raise ValueError("stale")

    with pytest.raises(ValueError, match="stale"):
        traced(Applying().plan(DESIRED), context(), apply, fail)
    (span,) = collector[0].resource_spans[0].scope_spans[0].spans
    assert span.status.code == span.status.STATUS_CODE_ERROR


def test_without_an_endpoint_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    monkeypatch.setattr(builtins, "__import__", without_opentelemetry(fail))
    report = ApplyReport("id", ())
    assert traced(Applying().plan(DESIRED), context(), lambda given: report, fail) is report


def test_where_it_is_not_installed_the_apply_runs_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setenv(ENDPOINT, "http://c")
    plan, report, said = Applying().plan(DESIRED), ApplyReport("id", ()), list[str]()
    monkeypatch.setattr(builtins, "__import__", without_opentelemetry(missing))
    assert traced(plan, context(), lambda given: report, said.append) is report
    (warning,) = said
    assert "pip install '.[otel]'" in warning


def test_variables_that_opentelemetry_refuses_cost_the_trace_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://c")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    plan, report, said = Applying().plan(DESIRED), ApplyReport("id", ()), list[str]()
    assert traced(plan, context(), lambda given: report, said.append) is report
    (warning,) = said
    assert warning.startswith("warning: the apply is not traced: max_queue_size")


def unsent(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> str:
    """The warning of an apply whose trace is not sent."""
    monkeypatch.setenv(ENDPOINT, endpoint)
    monkeypatch.setattr(tracing, "_EXPORT_S", 0.5)
    report, said = ApplyReport("id", ()), list[str]()
    assert traced(Applying().plan(DESIRED), context(), lambda given: report, said.append) is report
    (warning,) = said
    before, _, why = warning.partition(": the trace of this apply was not sent: ")
    assert before == "warning"
    return why


def test_a_collector_that_is_not_there_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "no header, authorization=Basic s3cret\x01")
    assert "Failed to export" in unsent(monkeypatch, "http://127.0.0.1:1")
    assert capfd.readouterr().err == ""


def test_an_endpoint_with_a_password_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    why = unsent(monkeypatch, "nonsense://user:s3cret@host")
    assert "nonsense://user:[hidden]@host" in why


def test_a_collector_that_answers_without_an_end_costs_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
            while not over.wait(0.1):
                connection.sendall(b"x")

    monkeypatch.setattr(tracing, "_PATIENCE_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=answer, args=(server,))
        thread.start()
        why = unsent(monkeypatch, f"http://127.0.0.1:{server.getsockname()[1]}")
        over.set()
        thread.join()
    assert why == "the collector did not answer in 1 s"


def fail(text: str) -> None:
    raise AssertionError(text)


def without_opentelemetry(imported: Callable[[str], None]) -> Any:
    """An import that tells of OpenTelemetry's modules first."""
    before = builtins.__import__

    def find(name: str, *more: Any) -> Any:
        if name.startswith("opentelemetry"):
            imported(name)
        return before(name, *more)

    return find
