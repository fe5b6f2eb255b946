"""Offsets that cannot be read are told with the connector and the reason, and no value."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_reconciler.backend.observe.observe import observe_topics, read_topics
from connect_reconciler.backend.observe.rest import observe_rest
from connect_reconciler.backend.plugins import InstalledDefinitions
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_specs.desired import Desired, RestTarget, TargetState
from connect_specs.diagnostics import Diagnostic, Unreachable
from support.applying import PROJECT
from support.fake_cluster import FakeCluster, FakeKafka
from support.fake_worker import FakeWorker, Stored
from support.plans import desired_of

SINK = {
    "name": "a",
    "connector.class": "FileStreamSink",
    "topics": "t",
    "consumer.override.bootstrap.servers": "elsewhere:9092",
}
UNCHANGED = """
name: a
config:
  connector.class: FileStreamSink
  topics: t
  consumer.override.bootstrap.servers: elsewhere:9092
"""
RENAMED = """
name: b
renamed_from: a
config:
  connector.class: FileStreamSink
  topics: t
  consumer.override.bootstrap.servers: elsewhere:9092
"""


def observe_without_other_cluster(desired: Desired) -> Live:
    """The sink `a` reads a Kafka cluster that does not answer."""
    kafka = FakeKafka()
    kafka.create_topics()
    FakeCluster(kafka).create("a", SINK, TargetState.RUNNING)

    def refuse(clients: ConnectorClients) -> KafkaPort:
        what = Diagnostic("kafka.unreachable", "Kafka does not answer", why="Connection refused")
        raise Unreachable(what)

    return observe_topics(
        PROJECT,
        desired,
        read_topics(PROJECT.topics, kafka),
        kafka,
        now_ms=lambda: 0,
        fingerprint_key=None,
        plugins=InstalledDefinitions(),
        open_view=refuse,
    )


def test_of_a_sink_on_a_kafka_cluster_that_does_not_answer(tmp_path: Path) -> None:
    live = observe_without_other_cluster(desired_of(UNCHANGED, tmp_path))
    assert live.unread_offsets == {"a": "Kafka does not answer: Connection refused"}
    (warning,) = live.warnings
    assert (warning.code, warning.what) == (
        "plan.offsets-unknown",
        "the offsets of a could not be read",
    )
    assert (warning.where, warning.why) == ("a", "Kafka does not answer: Connection refused")


def test_a_rename_needs_the_offsets_of_the_old_name(tmp_path: Path) -> None:
    desired = desired_of(RENAMED, tmp_path)
    plan = make_plan(desired, observe_without_other_cluster(desired), group_id="orders")
    (error,) = (each for each in plan.errors if each.code == "plan.rename-offsets-unknown")
    assert error.what == (
        "b is to go on from the offsets of a, which could not be read:"
        " Kafka does not answer: Connection refused"
    )
    assert error.hint == "make the plan again once they can be read"


@pytest.mark.parametrize("status", [400, 500])
def test_over_rest(status: int, tmp_path: Path) -> None:
    """The worker's own words, without the secrets of the connector's config."""
    config = {**SINK, "db.password": "hunter2"}
    worker = FakeWorker(connectors={"a": Stored(config, TargetState.RUNNING)})

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/offsets"):
            said = {"error_code": status, "message": "login with hunter2 failed"}
            return httpx.Response(status, json=said)
        return worker.transport.handle_request(request)

    spec = (
        "name: a\nconfig: {connector.class: FileStreamSink, topics: t, db.password: hunter2}\n"
        "offsets: {pin: p, to: earliest}\n"
    )
    with RestClient(
        RestTarget("http://connect.test"), transport=httpx.MockTransport(answer)
    ) as client:
        live = observe_rest(
            desired_of(spec, tmp_path),
            client,
            now_ms=lambda: 0,
            fingerprint_key=None,
            plugins=InstalledDefinitions(),
        )
    (warning,) = (each for each in live.warnings if each.code == "observe.no-offsets")
    assert warning.what == ("the offsets of a cannot be read, so effects on them are not told")
    assert warning.where == "a"
    assert "login with" in warning.why and "hunter2" not in warning.why
