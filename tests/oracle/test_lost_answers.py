"""Answers of a real worker get lost on the way: what it did is read back before it is judged."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connect_reconciler.apply.report import Outcome
from connect_reconciler.workflow.user import Choices
from connect_specs.desired import Pin, RestTarget, TargetState
from connect_specs.diagnostics import ExitCode
from support.broker import BrokerAddress, create_topic, produce
from support.losing import LosingProxy, Way, losing
from support.oracle import Oracle
from support.rest_project import RestProject, pin_at, sink

pytestmark = pytest.mark.oracle

RUNNING, STOPPED = TargetState.RUNNING, TargetState.STOPPED


@pytest.fixture
def proxy(oracle: Oracle) -> Iterator[LosingProxy]:
    with losing(oracle.url) as made:
        yield made


@pytest.fixture
def project(
    proxy: LosingProxy, oracle: Oracle, broker: BrokerAddress, unique: str
) -> Iterator[RestProject]:
    """One sink of one partition with ten records, through the proxy."""
    create_topic(broker.bootstrap_servers, unique)
    produce(broker.bootstrap_servers, unique, [(None, b"x")] * 10)
    made = RestProject(
        proxy.url,
        oracle.group_id,
        {"bootstrap.servers": broker.bootstrap_servers},
        f"orders-{secrets.token_hex(4)}",
        reached=RestTarget(proxy.url, answer_s=0.7),
        choices=Choices(healthy_for=0.2),
        unknown_s=0.5,
    )
    yield made
    made.specs = {}
    assert made.apply().exit_code is ExitCode.OK


def test_a_lost_answer_is_no_failure_and_nothing_is_done_twice(
    project: RestProject, proxy: LosingProxy, unique: str, tmp_path: Path
) -> None:
    """Every request that changes something, whether the connection breaks or nothing ever comes."""
    first = replace(sink(unique, tmp_path / "out", unique), state=STOPPED)
    changed = {**first.config, "file": str(tmp_path / "other")}

    def lost(ways: dict[str, Way]) -> None:
        proxy.lose, proxy.lost, proxy.passed = dict(ways), [], []
        project.settle()
        assert [line.partition(" ")[0] for line in proxy.lost] == [
            each.partition(" ")[0] for each in ways
        ]
        for line in proxy.lost:
            assert proxy.passed.count(line) == 1

    project.want(first)
    lost({"POST /connectors": "closed"})
    back = pin_at("back", unique, 7)
    project.want(replace(first, config=changed, state=RUNNING, pin=back))
    lost({"PUT /config": "silent", "PATCH /offsets": "closed", "PUT /resume": "closed"})
    project.want(replace(first, config=changed, state=STOPPED, pin=Pin("anew", reset=True)))
    lost({"PUT /stop": "silent", "DELETE /offsets": "closed"})
    project.specs = {}
    lost({f"DELETE /{unique}": "closed"})


def test_a_lost_request_is_unknown_and_the_next_apply_repeats_it(
    project: RestProject, proxy: LosingProxy, unique: str, tmp_path: Path
) -> None:
    project.want(replace(sink(unique, tmp_path / "out", unique), state=STOPPED))
    proxy.lose = {"POST /connectors": "request"}
    report = project.apply()
    (result,) = report.connectors[0].results
    assert (result.outcome, report.exit_code) == (Outcome.UNKNOWN, ExitCode.FAILED)
    assert "no answer came to POST /connectors: it may have taken place" in result.detail
    assert report.connectors[0].left == "it is not there"
    project.settle()
    assert proxy.passed == ["POST /connectors"]


@pytest.mark.long
def test_a_load_balancer_that_answers_503_ends_no_apply(
    project: RestProject, proxy: LosingProxy, unique: str, tmp_path: Path
) -> None:
    """Whether the request had got to the worker or not: it is done once, and the apply goes on."""
    first = replace(sink(unique, tmp_path / "out", unique), state=STOPPED)
    changed = {**first.config, "file": str(tmp_path / "other")}

    def turned_away(way: Way, *requests: str) -> None:
        proxy.lose, proxy.lost, proxy.passed = dict.fromkeys(requests, way), [], []
        project.settle()
        assert len(proxy.lost) == len(requests)
        for line in proxy.lost:
            assert line.startswith("GET ") or proxy.passed.count(line) == 1

    back = pin_at("back", unique, 7)
    ways: tuple[Way, ...] = ("away", "turned")
    for way in ways:
        project.want(first)
        turned_away(way, "POST /connectors")
        project.want(replace(first, config=changed, state=RUNNING, pin=back))
        turned_away(way, "PUT /config", "GET /offsets")
        project.specs = {}
        turned_away(way, f"DELETE /{unique}")
