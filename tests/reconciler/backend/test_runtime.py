"""Which way leads to the cluster, on a real broker: this process, a leader's REST API, or none."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from connect_reconciler.backend import open_backend, runtime
from connect_reconciler.backend.http import HttpCluster
from connect_reconciler.backend.lease import LeaseRefused
from connect_reconciler.backend.runtime import InProcessCluster, RuntimeBackend
from connect_reconciler.drift.compare import compare
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.render.drift_report import drift_text
from connect_runtime import KAFKA_VERSION
from connect_runtime.kafka.election import Election
from connect_specs.desired import Desired, RestTarget, TargetState
from connect_specs.diagnostics import Failed, Unreachable
from support.broker import BrokerAddress, create_topic
from support.leading import leading
from support.projects import project_of
from support.serving import serving
from support.wait import wait_until

SOURCE = {"connector.class": "FileStreamSource", "file": "f", "topic": "t", "name": "a"}


@pytest.fixture
def client(broker: BrokerAddress) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


def test_where_nobody_leads_this_process_does(client: dict[str, str], unique: str) -> None:
    project = project_of(unique, kafka=client)
    first = open_backend(project, client).cluster()
    assert isinstance(first, InProcessCluster)
    first.create("a", SOURCE, TargetState.STOPPED)
    first.close()
    second = open_backend(project, client).cluster()
    assert second.config("a") == SOURCE
    second.close()


def test_a_ledger_that_kafka_deletes_from_is_told(client: dict[str, str], unique: str) -> None:
    """Plans and drift say it; an apply writes nothing there."""
    project = project_of(unique, kafka=client)
    backend = open_backend(project, client)
    assert isinstance(backend, RuntimeBackend)
    desired = Desired("orders", {})
    backend.cluster().close()
    assert backend.observe(desired).ledger_policy == ""
    create_topic(
        client["bootstrap.servers"], project.topics.ledger, config={"cleanup.policy": "delete"}
    )
    live = backend.observe(desired)
    (told,) = make_plan(desired, live, group_id=unique).warnings
    assert (told.code, "cleanup.policy=delete" in told.what) == ("plan.ledger-not-compacted", True)
    text = drift_text(compare(desired, backend.observe_with_history(desired)))
    assert "cleanup.policy=delete" in text
    with pytest.raises(Failed, match=r"cleanup\.policy=delete"), backend.connection(desired, "me"):
        pass


def test_two_applies_never_lead_at_once(
    client: dict[str, str], unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_CHOOSE_S", 0.5)
    project = project_of(unique, kafka=client)
    first = open_backend(project, client).cluster()
    with pytest.raises(LeaseRefused, match=r"another apply is running: \S+ pid \d+ since"):
        open_backend(project, client).cluster()
    first.close()


@pytest.fixture
def leader(client: dict[str, str], unique: str) -> Iterator[str]:
    """A runtime that leads, without Spark; its URL."""
    with leading(project_of(unique, kafka=client), client) as url:
        yield url


def test_a_living_leader_is_asked_over_rest(
    client: dict[str, str], unique: str, leader: str
) -> None:
    cluster = open_backend(project_of(unique, kafka=client), client).cluster()
    assert isinstance(cluster, HttpCluster)
    cluster.create("a", SOURCE, TargetState.STOPPED)
    assert cluster.config("a") == SOURCE
    cluster.close()


def test_our_own_runtime_is_asked_through_no_proxy(
    client: dict[str, str], unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: HTTP_PROXY is set, and an apply through a runtime beside it goes astray."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    known = socket.getaddrinfo

    def resolved(host: Any, *more: Any, **named: Any) -> Any:
        return known("127.0.0.1" if host == "runtime.test" else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    project = project_of(unique, kafka=client)
    with leading(project, client, "runtime.test"):
        cluster = open_backend(project, client).cluster()
        assert isinstance(cluster, HttpCluster)
        cluster.create("a", SOURCE, TargetState.STOPPED)
        cluster.close()
        beside = open_backend(project, client).rest()
        assert beside is not None
        assert beside.about().commit == "c"
        beside.close()


def test_a_leader_that_does_not_answer_is_named(
    client: dict[str, str], unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_CHOOSE_S", 0.5)
    project = project_of(unique, kafka=client)
    open_backend(project, client).cluster().close()
    election = Election(client, unique, project.topics.config, "http://127.0.0.1:1")
    try:
        wait_until(lambda: election.poll(0.1) or election.leading, what="the election")
        with pytest.raises(Unreachable, match=r"does not answer at http://127\.0\.0\.1:1"):
            open_backend(project, client).cluster()
    finally:
        election.close()


def test_a_cluster_of_apaches_is_asked_over_rest(client: dict[str, str], unique: str) -> None:
    async def answer(request: Request) -> JSONResponse:
        return JSONResponse({"version": KAFKA_VERSION, "commit": "c", "kafka_cluster_id": "k"})

    with serving(Starlette(routes=[Route("/", answer)])) as address:
        project = project_of(unique, kafka=client, target=RestTarget(f"http://{address}"))
        cluster = open_backend(project, client).cluster()
        assert isinstance(cluster, HttpCluster)
        cluster.close()
        elsewhere = project_of(
            unique, kafka=client, target=RestTarget(f"http://{address}/elsewhere")
        )
        with pytest.raises(Unreachable, match="not a Connect cluster"):
            open_backend(elsewhere, client).cluster()
