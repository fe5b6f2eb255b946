"""A target state that only REST tells: from a status that says one, never from a passing one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import httpx
import pytest

from connect_reconciler.backend.observe.rest import observe_rest
from connect_reconciler.backend.plugins import InstalledDefinitions
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.ledger.config_entry import Entry, dump_entry
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_runtime import KAFKA_VERSION
from connect_specs.desired import Desired, DesiredConnector, RestTarget, TargetState
from connect_specs.diagnostics import Location
from support.applying import names

CONFIG = {"name": "a", "connector.class": "FileStreamSink", "topics": "t"}
SPEC = DesiredConnector("a", CONFIG, Location("a.yaml"), TargetState.PAUSED)
DESIRED = Desired("orders", {"a": SPEC})


def observed(*states: str, config: Mapping[str, str] = CONFIG) -> Live:
    """A cluster whose one connector has these states, one look after the other; the last stays."""
    left: Iterator[str] = iter(states)
    now, seconds = states[-1], 0.0

    def status() -> dict[str, object]:
        state = next(left, now)
        return {"name": "a", "type": "sink", "connector": _part(state), "tasks": []}

    def answer(request: httpx.Request) -> httpx.Response:
        info = {"name": "a", "config": config, "tasks": [], "type": "sink"}
        query = request.url.query.decode()
        match request.url.path:
            case "/":
                found: object = {"version": KAFKA_VERSION, "commit": "x", "kafka_cluster_id": "c"}
            case "/connectors" if query:
                found = {"a": {"info": info, "status": status()}}
            case "/connectors":
                found = ["a"]
            case "/connectors/a/status":
                found = status()
            case _:
                found = {"offsets": []}
        return httpx.Response(200, json=found)

    def sleep(wait: float) -> None:
        nonlocal seconds
        seconds += wait

    transport = httpx.MockTransport(answer)
    target = RestTarget("http://connect.test")
    with RestClient(target, transport=transport, clock=lambda: seconds, sleep=sleep) as client:
        return observe_rest(
            DESIRED, client, now_ms=lambda: 0, fingerprint_key=None, plugins=InstalledDefinitions()
        )


def _part(state: str) -> dict[str, str]:
    return {"state": state, "worker_id": "w"}


@pytest.mark.parametrize("passing", ["UNASSIGNED", "RESTARTING"])
def test_unassigned_and_restarting_are_no_difference(passing: str) -> None:
    """The trap: a passing status is compared with the state in the spec, and work is restarted."""
    live = observed(passing, passing, "PAUSED")
    assert live.connectors["a"].target is TargetState.PAUSED
    assert make_plan(DESIRED, live, group_id="g").empty


def test_another_state_is_a_difference() -> None:
    live = observed("UNASSIGNED", "RUNNING")
    assert names(make_plan(DESIRED, live, group_id="g")) == ["Adopt a", "Pause a"]


def test_a_status_that_goes_on_telling_nothing_is_said() -> None:
    """Connect may leave what a lost worker had to nobody for minutes."""
    live = observed("UNASSIGNED")
    assert [each.code for each in live.warnings] == ["observe.state-untold"]
    assert live.connectors["a"].target is TargetState.RUNNING


def test_what_an_apply_held_and_has_no_tasks_is_stopped() -> None:
    owned = Owned("orders", CONFIG, None, restore_to=TargetState.RUNNING)
    held = {**CONFIG, LEDGER_KEY: dump_entry(Entry(owned, {}))}
    live = observed("UNASSIGNED", config=held)
    assert live.connectors["a"].target is TargetState.STOPPED
