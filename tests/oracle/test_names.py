"""Which names a real worker's REST API can address, and that a plan refuses the others."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from connect_runtime import KAFKA_VERSION
from connect_specs.desired import TargetState
from support import http
from support.broker import BrokerAddress
from support.connect_jars import VERSIONS
from support.oracle import Oracle
from support.rest_project import RestProject, source
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

STOPPED = TargetState.STOPPED
SINCE_4 = ("a/b", "a%b", "a%2Fb", "a\\b")
BRACES = ("a{b", "a}b")
FINE = ("a b", "a?b", "a#b", "a;b=c", "a+b", "a&b=c", "a:b@c", "a|b", "a^b", "aéb", "a日b", "a.b")


@pytest.fixture(scope="module", params=[KAFKA_VERSION, *VERSIONS])
def worker(
    request: pytest.FixtureRequest, broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oracle]:
    """One of its own: what is made here cannot be deleted."""
    started = Oracle.start(
        tmp_path_factory.mktemp("names"),
        broker.bootstrap_servers,
        group_id=f"names-{secrets.token_hex(4)}",
        version=request.param,
    )
    yield started
    started.kill()


def odd(worker: Oracle) -> tuple[str, ...]:
    """What this worker cannot address."""
    version = http.get(worker.url, timeout=90).json()["version"]
    return BRACES if version.startswith("3.") else (*SINCE_4, *BRACES)


def listed(worker: Oracle) -> set[str]:
    def answer() -> httpx.Response | None:
        found = http.get(f"{worker.url}/connectors", timeout=90)
        return found if found.status_code == 200 else None

    found = wait_until(answer, what="the connectors", timeout_s=60)
    assert found is not None
    return set(found.json())


@pytest.mark.parametrize("kafka", [True, False], ids=["kafka", "rest-alone"])
def test_a_plan_refuses_what_cannot_be_addressed_and_applies_the_rest(
    worker: Oracle, broker: BrokerAddress, tmp_path: Path, *, kafka: bool
) -> None:
    client = {"bootstrap.servers": broker.bootstrap_servers} if kafka else {}
    project = RestProject(worker.url, worker.group_id, client, name=f"p-{secrets.token_hex(4)}")
    before = listed(worker)
    refused = odd(worker)
    project.want(*(source(name, tmp_path / "in.txt", "t") for name in refused))
    plan = project.plan()
    assert [each.code for each in plan.errors] == ["plan.name-not-addressable"] * len(refused)
    assert plan.actions == ()
    assert listed(worker) == before

    project.specs = {}
    fine = {*FINE, *SINCE_4} - set(refused)
    stopped = (replace(source(n, tmp_path / "in.txt", "t"), state=STOPPED) for n in fine)
    project.want(*stopped)
    project.settle()
    assert fine <= listed(worker)
    assert project.observe().ledger.connectors.keys() == fine
    project.specs = {}
    project.settle()
    assert listed(worker) == before


def test_the_worker_creates_what_it_cannot_address(worker: Oracle) -> None:
    """Why the plan refuses: else each of these would stay, and no request could end it."""
    config = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": "t"}
    for name in odd(worker):
        answer = created(worker, {"name": name, "config": config})
        assert name in listed(worker)
        if name in BRACES:
            assert answer.status_code == 500
        else:
            found = http.get(f"{worker.url}/connectors/{quote(name, safe='')}/config", timeout=90)
            assert (answer.status_code, found.status_code) == (201, 400)


def created(worker: Oracle, body: object) -> httpx.Response:
    def answer() -> httpx.Response | None:
        found = http.post(f"{worker.url}/connectors", json=body, timeout=90)
        return None if "rebalance" in found.text else found

    found = wait_until(answer, what="an answer", timeout_s=60)
    assert found is not None
    return found
