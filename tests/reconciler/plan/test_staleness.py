"""A plan is stale where what it relies on has moved; progress alone does not make it so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from connect_reconciler.actions import (
    AlterOffsets,
    Create,
    Delete,
    Pause,
    Resume,
    Stop,
    UpdateConfig,
)
from connect_reconciler.actions.connector_state import States, changed, state_of
from connect_reconciler.actions.plan import Plan
from connect_reconciler.actions.preconditions import (
    Exists,
    check,
)
from connect_reconciler.model.ledger import AppliedPin, Owned
from connect_reconciler.model.live import Live, LogRange, TopicLogs
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.remaining import check_plan, unmet
from connect_specs.desired import Desired, TargetState
from support.plans import desired_of, entries, live_of

SPECS = """
name: archive
config: {connector.class: FileStreamSink, topics: orders, password: hunter2, a: 2}
offsets:
  pin: rewind
  set:
    - partition: {kafka_topic: orders, kafka_partition: 0}
      offset: {kafka_offset: 200}
---
name: fresh
config: {connector.class: FileStreamSink, topics: orders}
"""
LIVE = {
    "connectors": {
        "archive": {
            "config": {
                "connector.class": "FileStreamSink",
                "topics": "orders",
                "password": "hunter1",
                "a": "1",
            },
            "offsets": {"orders-0": 550},
        },
        "old": {"config": {"connector.class": "FileStreamSink", "topics": "orders"}},
    },
    "logs": {"orders-0": [100, 600]},
    "ledger": {"connectors": {"archive": {}, "old": {}}},
}


@pytest.fixture
def desired(tmp_path: Path) -> Desired:
    return desired_of(SPECS, tmp_path)


@pytest.fixture
def live(desired: Desired) -> Live:
    return live_of(LIVE, desired)


@pytest.fixture
def plan(desired: Desired, live: Live) -> Plan:
    plan = make_plan(desired, live, group_id="connect")
    assert [type(action) for action in plan.actions] == [
        Delete,
        Stop,
        UpdateConfig,
        AlterOffsets,
        Resume,
        Create,
    ]
    return plan


def _config(live: Live, name: str, **changes: str) -> Live:
    connector = live.connectors[name]
    config = {**connector.config, **changes}
    return replace(live, connectors={**live.connectors, name: replace(connector, config=config)})


def _without(live: Live, name: str) -> Live:
    return replace(
        live, connectors={key: each for key, each in live.connectors.items() if key != name}
    )


def _target(live: Live, name: str, target: TargetState) -> Live:
    connector = replace(live.connectors[name], target=target)
    return replace(live, connectors={**live.connectors, name: connector})


def _owner(live: Live, name: str, owned: Owned) -> Live:
    owners = {**live.ledger.connectors, name: owned}
    return replace(live, ledger=replace(live.ledger, connectors=owners))


def _pin(live: Live) -> Live:
    pins = {("archive", "rewind"): AppliedPin("x", None)}
    return replace(live, ledger=replace(live.ledger, pins=pins))


Move = Callable[[Live], Live]
MOVED: dict[str, tuple[Move, list[str]]] = {
    "config": (lambda live: _config(live, "archive", a="3"), ["stale.config"]),
    "secret": (lambda live: _config(live, "archive", password="hunter3"), ["stale.config"]),
    "added key": (lambda live: _config(live, "old", b="3"), ["stale.config"]),
    "gone": (lambda live: _without(live, "archive"), ["stale.config", "stale.state"]),
    "deleted by hand": (lambda live: _without(live, "old"), ["stale.config"]),
    "created by hand": (
        lambda live: replace(live, connectors={**live.connectors, "fresh": live.connectors["old"]}),
        ["stale.exists"],
    ),
    "paused": (lambda live: _target(live, "archive", TargetState.PAUSED), ["stale.state"]),
    "owner": (lambda live: _owner(live, "archive", Owned("other", {}, None)), ["stale.owner"]),
    "guard": (
        lambda live: _owner(live, "old", Owned("orders", {}, None, prevent_delete=True)),
        ["stale.protected"],
    ),
    "pin": (_pin, ["stale.pin-applied"]),
    "log's start": (
        lambda live: replace(live, logs=TopicLogs({("orders", 0): LogRange(201, 600)})),
        ["stale.outside-log"],
    ),
    "log's end": (
        lambda live: replace(live, logs=TopicLogs({("orders", 0): LogRange(0, 199)})),
        ["stale.outside-log"],
    ),
    "topic": (lambda live: replace(live, logs=TopicLogs()), ["stale.outside-log"]),
    "cluster": (lambda live: replace(live, cluster_id="c2"), ["stale.cluster"]),
    "key": (
        lambda live: replace(live, ledger=replace(live.ledger, fingerprint_key=b"other")),
        ["stale.key"],
    ),
    "several": (
        lambda live: _config(_target(live, "archive", TargetState.PAUSED), "old", b="1"),
        ["stale.config", "stale.state"],
    ),
}


def test_fits_where_it_was_made(plan: Plan, live: Live) -> None:
    assert check_plan(plan, live) == ()


@pytest.mark.parametrize("moved", MOVED)
def test_stale(plan: Plan, live: Live, moved: str) -> None:
    move, codes = MOVED[moved]
    found = check_plan(plan, move(live))
    assert [each.code for each in found] == codes
    assert "hunter" not in str(found)


@pytest.mark.parametrize(
    ("name", "changed", "key"),
    [
        ("archive", {"a": "3"}, "a"),
        ("archive", {"password": "x"}, "password"),
        ("old", {"b": "3"}, "b"),
    ],
)
def test_a_config_that_moved_is_named_by_its_keys(
    plan: Plan, live: Live, name: str, changed: dict[str, str], key: str
) -> None:
    """From the values that the plan changes, else from those that were applied last."""
    applied = {**live.connectors["old"].config, "name": "old"}
    known = _owner(live, "old", Owned("orders", applied, None))
    (found,) = check_plan(plan, _config(known, name, **changed))
    assert found.what == f"its config is not the one that the plan relies on: {key}"


def test_progress_is_no_precondition(plan: Plan, live: Live) -> None:
    archive = replace(
        live.connectors["archive"], offsets=Offsets(entries({"orders-0": 599})), state="FAILED"
    )
    moved = replace(
        live,
        connectors={**live.connectors, "archive": archive},
        logs=TopicLogs({("orders", 0): LogRange(150, 900)}),
    )
    assert check_plan(plan, moved) == ()


def test_each_action_is_checked_again_on_what_is_there_then(plan: Plan, live: Live) -> None:
    states: States = {"archive": state_of("archive", live, project="orders")}
    stop, update, alter, resume = (
        action for action in plan.actions if action.connector == "archive"
    )
    assert unmet(stop, states) == ()
    assert [each.code for each in unmet(update, states)] == ["stale.state"]
    for action in (stop, update):
        states = action.predict(states)
    assert [each.code for each in unmet(resume, states)] == ["stale.pin-missing"]
    someone_resumed = changed(states, "archive", target=TargetState.RUNNING)
    assert [each.code for each in unmet(alter, someone_resumed)] == ["stale.state"]
    assert states["archive"].target is not None
    assert unmet(resume, alter.predict(states)) == ()


def test_config_is_not_told_in_what_is_stale(live: Live) -> None:
    states = {"archive": state_of("archive", live, project="orders")}
    problem = check(Exists(config_fingerprint="00"), states, "archive")
    assert problem is not None
    assert problem.where == "archive"
    assert "hunter" not in repr(problem)
    assert "hunter" not in repr(state_of("archive", live, project="orders"))
    assert live.ledger.fingerprint_key is not None
    assert repr(live.ledger.fingerprint_key) not in repr(
        state_of("archive", live, project="orders")
    )


@pytest.mark.parametrize("action", [Pause, Resume])
def test_a_connector_that_is_let_go_is_held_to_nothing(
    live: Live, action: type[Pause] | type[Resume]
) -> None:
    """Its offsets move on from its pin, and there is no state left to restore."""
    stopped = replace(
        state_of("archive", live, project="orders"),
        target=TargetState.STOPPED,
        restore_to=TargetState.RUNNING,
        pins={"rewind": AppliedPin("x", None, held=True)},
    )
    let_go = action(connector="archive").predict({"archive": stopped})["archive"]
    assert let_go.restore_to is None
    assert not let_go.pins["rewind"].held
