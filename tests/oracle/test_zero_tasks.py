"""A connector of a real worker that runs no task: no health, unless its spec says that it is.

With Kafka and over REST alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connect_reconciler.apply.report import Health
from connect_reconciler.workflow.user import Choices
from connect_runtime import KAFKA_VERSION
from connect_specs.desired import DesiredConnector, TargetState
from connect_specs.diagnostics import ExitCode, Location
from support import idle_source
from support.broker import BrokerAddress
from support.connect_jars import VERSIONS
from support.oracle import Oracle
from support.rest_project import RestProject

pytestmark = [pytest.mark.oracle, pytest.mark.long]

SOON = Choices(health_timeout=3, healthy_for=0.5, settle=2)


# The oldest one repeats no task configs that a new config leaves as they were
@pytest.fixture(scope="module", params=[KAFKA_VERSION, VERSIONS[0]])
def worker(
    request: pytest.FixtureRequest, broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oracle]:
    folder: Path = tmp_path_factory.mktemp("worker")
    idle_source.install(folder / "plugins", request.param)
    group, servers = f"idle-{secrets.token_hex(4)}", broker.bootstrap_servers
    started = Oracle.start(folder, servers, group_id=group, version=request.param)
    try:
        yield started
    finally:
        started.kill()


@pytest.fixture(params=["Kafka", "REST alone"])
def project(
    request: pytest.FixtureRequest, worker: Oracle, broker: BrokerAddress, unique: str
) -> Iterator[RestProject]:
    kafka = {"bootstrap.servers": broker.bootstrap_servers} if request.param == "Kafka" else {}
    made = RestProject(worker.url, worker.group_id, kafka, unique, choices=SOON)
    yield made
    made.specs = {}
    assert made.apply().exit_code == 0


def test_a_connector_without_tasks(project: RestProject, unique: str) -> None:
    config = {"name": unique, "connector.class": idle_source.CLASS}
    spec = DesiredConnector(unique, config, Location("a.yaml", 1, 1))
    project.want(spec)
    report = project.apply()
    assert report.exit_code is ExitCode.FAILED
    (seen,) = report.connectors
    assert seen.health is Health.TIMED_OUT
    assert seen.health_detail.startswith("it has no tasks; if it is to have none, its spec says so")
    assert project.plan().empty, "that it may have none is no difference"

    changed = replace(spec, config=config | {"more": "1"}, allow_zero_tasks=True)
    project.want(changed)
    (seen,) = project.apply().connectors
    assert (seen.health, seen.health_detail) == (Health.RUNNING, "it has no tasks")

    for state, health in (("paused", Health.PAUSED), ("running", Health.RUNNING)):
        project.want(replace(changed, state=TargetState(state)))
        report = project.apply()
        assert (report.exit_code, report.connectors[0].health) == (ExitCode.OK, health)
    project.want(replace(changed, state=TargetState.STOPPED))
    assert project.apply().exit_code is ExitCode.OK
    moved = replace(changed, config=config | {"more": "2"}, state=TargetState.STOPPED)
    project.want(moved)
    (seen,) = project.apply().connectors
    assert seen.health is Health.STOPPED
