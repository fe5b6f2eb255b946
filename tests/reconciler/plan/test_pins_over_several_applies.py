"""What several applies leave behind for the next plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from connect_reconciler.actions import (
    AlterOffsets,
    Pause,
    Resume,
    Stop,
)
from connect_reconciler.actions.connector_state import state_of
from connect_reconciler.actions.preconditions import (
    PinRecorded,
)
from connect_reconciler.model.live import Live
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import Desired, TargetState
from support.plans import after, desired_of, entries, live_of

SPEC = """
name: archive
STATE
config: {connector.class: FileStreamSink, topics: orders}
offsets:
  pin: park
  set:
    - partition: {kafka_topic: orders, kafka_partition: 0}
      offset: {kafka_offset: 200}
"""
LIVE = {
    "connectors": {
        "archive": {
            "config": {"connector.class": "FileStreamSink", "topics": "orders"},
            "offsets": {"orders-0": 550},
        }
    },
    "logs": {"orders-0": [100, 600]},
    "ledger": {"connectors": {"archive": {}}},
}


def _desired(folder: Path, state: str | None) -> Desired:
    return desired_of(SPEC.replace("STATE", f"state: {state}" if state else ""), folder)


def _kinds(desired: Desired, live: Live) -> list[type]:
    return [type(action) for action in make_plan(desired, live, group_id="connect").actions]


def _applied(desired: Desired, live: Live) -> Live:
    return after(live, desired, make_plan(desired, live, group_id="connect").actions)


def _moved(live: Live, offset: int) -> Live:
    archive = replace(live.connectors["archive"], offsets=Offsets(entries({"orders-0": offset})))
    return replace(live, connectors={"archive": archive})


def test_a_parked_connector_is_put_back_until_an_apply_lets_it_run(tmp_path: Path) -> None:
    stopped, running = _desired(tmp_path, "stopped"), _desired(tmp_path, "running")
    live = live_of(LIVE, stopped)
    assert _kinds(stopped, live) == [Stop, AlterOffsets]
    live = _applied(stopped, live)
    assert _kinds(stopped, _moved(live, 201)) == [AlterOffsets]
    assert _kinds(running, live) == [Resume]
    live = _moved(_applied(running, live), 590)
    assert _kinds(stopped, live) == [Stop]
    assert _kinds(stopped, _applied(stopped, live)) == []


def test_a_paused_connector_is_let_go_of_too(tmp_path: Path) -> None:
    stopped, paused = _desired(tmp_path, "stopped"), _desired(tmp_path, "paused")
    live = _applied(stopped, live_of(LIVE, stopped))
    assert _kinds(paused, live) == [Pause]
    assert _kinds(stopped, _moved(_applied(paused, live), 590)) == [Stop]


def test_what_was_brought_back_is_not_brought_back_twice(tmp_path: Path) -> None:
    desired = _desired(tmp_path, None)
    live = _applied(desired, live_of(LIVE, desired))
    archive = live.connectors["archive"]
    assert archive.target is TargetState.RUNNING
    by_hand = replace(archive, target=TargetState.STOPPED)
    assert _kinds(desired, replace(live, connectors={"archive": by_hand})) == []


def test_a_pin_is_recorded_only_with_its_content(tmp_path: Path) -> None:
    desired = _desired(tmp_path, None)
    live = _applied(desired, live_of(LIVE, desired))
    state = state_of("archive", live, project="orders")
    known = state.pins["park"].content_hash
    assert PinRecorded(pin="park", content_hash=known).problem(state) == ""
    assert PinRecorded(pin="park", content_hash="other").problem(state)
    assert PinRecorded(pin="other", content_hash=known).problem(state)
