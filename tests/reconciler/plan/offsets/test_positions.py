"""`to: earliest | latest | <time>`: where that is, in every partition that a sink reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.actions import (
    AlterOffsets,
    Create,
    Resume,
    Stop,
)
from connect_reconciler.actions.plan import Plan
from connect_reconciler.actions.preconditions import (
    InsideLog,
)
from connect_reconciler.model.live import Live
from connect_reconciler.plan.offsets.sink_positions import position_text, sink_topics
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.remaining import check_plan
from connect_reconciler.render.plan_file import dump_plan, load_plan
from connect_specs.desired import Desired, OffsetEntry, Pin, Position, content_hash
from connect_specs.diagnostics import Location
from support.plans import after, desired_of, live_of

NOON = 1_795_262_400_000  # 2026-11-21T12:00:00Z
SINK = "{connector.class: FileStreamSink, topics: 'orders, returns'}"
LOGS = {"orders-0": [100, 600], "orders-1": [0, 50], "returns-0": [7, 7], "others-0": [0, 9]}
TIMES = {
    "orders-0": {NOON: 420, "1000000": 100},
    "orders-1": {NOON: 50, "1000000": 0},
    "returns-0": {NOON: 7, "1000000": 7},
}


def world(
    folder: Path, to: Position | None, live: dict[str, Any], config: str = SINK
) -> tuple[Desired, Live]:
    desired = desired_of(f"name: archive\nconfig: {config}\n", folder)
    spec = desired.connectors["archive"]
    pin = None if to is None else Pin("go", where=Location("specs.yaml", 3, 1), to=to)
    return Desired("orders", {"archive": replace(spec, pin=pin)}), live_of(live, desired)


def there(**fields: Any) -> dict[str, Any]:
    """The sink as it runs, with offsets in the first topic alone."""
    config = {"connector.class": "FileStreamSink", "topics": "orders, returns"}
    return {
        "connectors": {
            "archive": {"config": config, "offsets": {"orders-0": 500, "orders-1": 50}},
        },
        "ledger": {"connectors": {"archive": {}}},
        "logs": LOGS,
        "times": TIMES,
        **fields,
    }


def planned(desired: Desired, live: Live) -> Plan:
    return make_plan(desired, live, group_id="connect")


def moved(plan: Plan) -> dict[str, int]:
    (alter,) = (action for action in plan.actions if isinstance(action, AlterOffsets))
    return {_label(move.entry): _number(move.entry) for move in alter.moves}


@pytest.mark.parametrize(
    ("to", "offsets", "effects"),
    [
        (
            "earliest",
            {"orders-0": 100, "orders-1": 0, "returns-0": 7},
            [
                "orders-0 500 → 100 by now: redelivers about 400 offsets",
                "orders-1 50 → 0 by now: redelivers about 50 offsets",
                "returns-0 none → 7 by now: starts there, 0 offsets to deliver",
            ],
        ),
        (
            "latest",
            {"orders-0": 600, "orders-1": 50, "returns-0": 7},
            [
                "orders-0 500 → 600 by now: jumps over about 100 offsets",
                "orders-1 50 → 50 by now: jumps over about 0 offsets",
                "returns-0 none → 7 by now: starts there, 0 offsets to deliver",
            ],
        ),
        (
            NOON,
            {"orders-0": 420, "orders-1": 50, "returns-0": 7},
            [
                "orders-0 500 → 420 by now: redelivers about 80 offsets",
                "orders-1 50 → 50 by now: what it reads until it is stopped is re-read",
                "returns-0 none → 7 by now: starts there, 0 offsets to deliver",
            ],
        ),
    ],
)
def test_every_partition_moves(
    tmp_path: Path, to: Position, offsets: dict[str, int], effects: list[str]
) -> None:
    desired, live = world(tmp_path, to, there())
    plan = planned(desired, live)
    assert not plan.errors
    assert [type(action) for action in plan.actions] == [Stop, AlterOffsets, Resume]
    assert moved(plan) == offsets
    alter = plan.actions[1]
    assert isinstance(alter, AlterOffsets)
    assert [move.effect for move in alter.moves] == effects
    assert alter.to == to
    assert not [each for each in alter.requires if isinstance(each, InsideLog)]
    assert not any(move.counts.exact for move in alter.moves if move.counts)
    assert check_plan(plan, live) == ()


def test_it_is_recorded_as_numbers_and_applied_once(tmp_path: Path) -> None:
    desired, live = world(tmp_path, "latest", there())
    done = after(live, desired, planned(desired, live).actions)
    resolved = done.ledger.pins["archive", "go"].resolved
    assert resolved is not None
    assert {_label(each): _number(each) for each in resolved} == {
        "orders-0": 600,
        "orders-1": 50,
        "returns-0": 7,
    }
    more = live_of({"logs": {"orders-0": [100, 900]}}, desired).logs.ranges
    logs = replace(done.logs, ranges={**done.logs.ranges, **more})
    grown = replace(done, logs=logs)
    assert planned(desired, grown).actions == ()


def test_a_saved_plan_holds_the_place_and_its_numbers_are_an_estimate(tmp_path: Path) -> None:
    desired, live = world(tmp_path, "latest", there())
    saved = load_plan(dump_plan(planned(desired, live)))
    later = live_of(there(logs={**LOGS, "orders-0": [100, 900]}), desired)
    assert check_plan(saved, later) == ()
    assert [each.to for each in saved.actions if isinstance(each, AlterOffsets)] == ["latest"]
    gone = live_of(there(logs={**LOGS, "orders-0": [101, 600]}), desired)
    assert check_plan(saved, gone) == ()


def test_the_same_id_for_another_place_is_refused(tmp_path: Path) -> None:
    pins = {"archive/go": {"hash": content_hash(Pin("go", to="latest")), "resolved": {}}}
    ledger = {"connectors": {"archive": {}}, "pins": pins}
    for to, codes in (
        ("latest", []),
        ("earliest", ["plan.pin-reused"]),
        (NOON, ["plan.pin-reused"]),
    ):
        desired, live = world(tmp_path, to, there(ledger=ledger))  # type: ignore[arg-type]
        plan = planned(desired, live)
        assert [each.code for each in plan.errors] == codes
        assert plan.actions == ()


def test_a_sink_of_the_same_plan(tmp_path: Path) -> None:
    desired, live = world(tmp_path, NOON, {"logs": LOGS, "times": TIMES})
    plan = planned(desired, live)
    assert [type(action) for action in plan.actions] == [Create, AlterOffsets, Resume]
    assert moved(plan) == {"orders-0": 420, "orders-1": 50, "returns-0": 7}
    assert plan.actions[1].reason == "pin go is new, to 2026-11-21T12:00:00Z once it is stopped"


def test_a_pattern_names_topics_of_the_cluster(tmp_path: Path) -> None:
    config = "{connector.class: FileStreamSink, topics.regex: 'o.*s'}"
    desired, live = world(tmp_path, "earliest", {"logs": LOGS}, config)
    assert moved(planned(desired, live)) == {"orders-0": 100, "orders-1": 0, "others-0": 0}


def test_drift_of_a_held_sink_is_set_back_to_the_numbers(tmp_path: Path) -> None:
    desired, live = world(tmp_path, "latest", there())
    spec = desired_of(f"name: archive\nstate: stopped\nconfig: {SINK}\n", tmp_path)
    held = replace(spec.connectors["archive"], pin=desired.connectors["archive"].pin)
    desired = Desired("orders", {"archive": held})
    done = after(live, desired, planned(desired, live).actions)
    assert planned(desired, done).actions == ()
    sink = done.connectors["archive"]
    strayed = replace(sink, offsets=live.connectors["archive"].offsets)
    again = planned(desired, replace(done, connectors={"archive": strayed}))
    assert moved(again) == {"orders-0": 600, "orders-1": 50, "returns-0": 7}


SOURCE = "{connector.class: FileStreamSource, topic: lines}"


@pytest.mark.parametrize(
    ("config", "live", "code", "what"),
    [
        (SOURCE, {}, "plan.pin-shape", "a source has offsets of its own"),
        ("{connector.class: acme.Thing, topics: t}", {}, "plan.unknown-kind", "not known"),
        (SINK, {"logs": {"orders-0": [0, 1]}}, "plan.no-topics", "topic returns does not exist"),
        (SINK, {}, "plan.no-topics", "topics orders, returns do not exist"),
        ("{connector.class: FileStreamSink, topics: ' '}", {}, "plan.no-topics", "names no topics"),
        (
            "{connector.class: FileStreamSink, topics.regex: 'x.*'}",
            {"logs": LOGS},
            "plan.no-topics",
            "no topic matches topics.regex x.*",
        ),
        (
            "{connector.class: FileStreamSink, topics.regex: 'o(?<x>r)*+['}",
            {"logs": LOGS},
            "plan.no-topics",
            "is valid only in Java",
        ),
        (
            "{connector.class: FileStreamSink, topics: orders}",
            {"logs": {"orders-0": [0, 1]}, "topics": {"orders": 2}},
            "plan.no-position",
            "the offset of orders-1 at latest could not be read",
        ),
    ],
)
def test_what_cannot_be_resolved_is_an_error(
    tmp_path: Path, config: str, live: dict[str, Any], code: str, what: str
) -> None:
    plan = planned(*world(tmp_path, "latest", live, config))
    (error,) = plan.errors
    assert error.code == code
    assert what in error.what
    assert error.hint
    assert str(error.where) == "specs.yaml:3:1"
    assert not [action for action in plan.actions if isinstance(action, AlterOffsets)]


def test_topics_of_a_sink() -> None:
    existing = ["a", "ab", "b", "__consumer_offsets"]
    assert sink_topics({"topics": "b, a,,b"}, existing) == ("a", "b")
    assert sink_topics({"topics": "new"}, existing) == ("new",)
    assert sink_topics({"topics.regex": "a"}, existing) == ("a",)
    assert sink_topics({"topics.regex": ".*"}, existing) == ("a", "ab", "b")
    assert sink_topics({"topics.regex": "(?<x>["}, existing) == ()


@pytest.mark.parametrize(
    ("to", "text"),
    [
        ("earliest", "earliest"),
        (0, "1970-01-01T00:00:00Z"),
        (NOON, "2026-11-21T12:00:00Z"),
        (NOON + 7, "2026-11-21T12:00:00.007Z"),
        (10**18, "1000000000000000000 ms since 1970"),
    ],
)
def test_text_of_a_position(to: Position, text: str) -> None:
    assert position_text(to) == text


def _label(entry: OffsetEntry) -> str:
    return f"{entry.partition['kafka_topic']}-{entry.partition['kafka_partition']}"


def _number(entry: OffsetEntry) -> int:
    assert entry.offset is not None
    number = entry.offset["kafka_offset"]
    assert isinstance(number, int)
    return number
