"""What is put off, refused or said where there is only REST, or an old version behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Kind, Live, LiveConnector, LogRange, TopicLogs
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.planner import make_plan
from connect_runtime import KAFKA_VERSION
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin
from connect_specs.diagnostics import Location
from connect_specs.states import TargetState
from support.applying import names

SINK = DesiredConnector(
    "a",
    {"name": "a", "connector.class": "FileStreamSink", "topics": "t"},
    Location("a.yaml"),
)
BACK = Pin("back", (OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 3}),))
RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED


def plan_of(spec: DesiredConnector, live: Live) -> Plan:
    return make_plan(Desired("orders", {"a": spec}), live, group_id="g")


def codes(plan: Plan) -> list[str]:
    return [each.code for each in (*plan.errors, *plan.warnings) if each.code != "plan.rest-alone"]


def there(
    target: TargetState = RUNNING, owned: Owned | None = None, version: str = KAFKA_VERSION
) -> Live:
    at = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 10})
    return Live(
        connectors={"a": LiveConnector("a", "sink", SINK.config, target, offsets=Offsets((at,)))},
        ledger=LedgerState({} if owned is None else {"a": owned}),
        rest_alone=True,
        version=version,
    )


def test_one_line_says_what_there_is_not() -> None:
    (warning,) = plan_of(SINK, there()).warnings
    assert warning.what == "over REST alone there is no lease, no journal and no rollback"


def test_an_adoption_waits_for_a_config_that_is_written() -> None:
    assert plan_of(SINK, there()).empty
    changed = replace(SINK, config={**SINK.config, "file": "f"})
    assert names(plan_of(changed, there())) == ["Adopt a", "UpdateConfig a"]


def test_an_adoption_of_one_that_is_stopped_is_written() -> None:
    assert names(plan_of(SINK, there(STOPPED))) == ["Adopt a"]


def test_a_pause_alone_adopts_nothing_that_would_be_planned_again() -> None:
    assert names(plan_of(replace(SINK, state=PAUSED), there())) == ["Adopt a", "Pause a"]
    assert plan_of(replace(SINK, state=PAUSED), there(PAUSED)).empty


def test_forgetting_one_that_is_gone_waits_for_nothing() -> None:
    live = Live(ledger=LedgerState({"b": Owned("orders", {}, None)}), rest_alone=True)
    plan = make_plan(Desired("orders", {}), live, group_id="g")
    assert names(plan) == ["Forget b"]


@pytest.mark.parametrize("guard", [True, False])
def test_a_guard_waits_and_that_is_said(guard: bool) -> None:
    owned = Owned("orders", SINK.config, None, prevent_delete=not guard)
    plan = plan_of(replace(SINK, prevent_delete=guard), there(owned=owned))
    assert (plan.actions, codes(plan)) == ((), ["plan.guard-put-off"])


def test_a_guard_is_written_with_a_config() -> None:
    owned = Owned("orders", SINK.config, None)
    spec = replace(SINK, prevent_delete=True, config={**SINK.config, "file": "f"})
    plan = plan_of(spec, there(owned=owned))
    assert (names(plan), codes(plan)) == (["Protect a", "UpdateConfig a"], [])


def test_a_rewind_says_that_the_log_was_not_read() -> None:
    plan = plan_of(replace(SINK, pin=BACK), there(owned=Owned("orders", SINK.config, None)))
    assert names(plan) == ["Stop a", "AlterOffsets a", "Resume a"]
    assert codes(plan) == []
    (move,) = plan.actions[1].moves  # type: ignore[union-attr]
    assert move.effect == (
        "t-0 10 → 3: redelivers at least 7 offsets, as far as they are still there:"
        " the log cannot be read here"
    )


@pytest.mark.parametrize("to", ["earliest", "latest", 1_000])
def test_a_position_is_refused(to: object) -> None:
    plan = plan_of(replace(SINK, pin=Pin("p", to=to)), there())  # type: ignore[arg-type]
    assert codes(plan) == ["plan.log-unknown"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (SINK, []),
        (replace(SINK, state=RUNNING), []),
        (replace(SINK, state=PAUSED), ["plan.created-idle"]),
        (replace(SINK, state=STOPPED), ["plan.created-idle"]),
        (replace(SINK, pin=BACK), ["plan.created-idle"]),
    ],
)
def test_before_3_7_it_is_said_how_a_connector_is_created_stopped(
    spec: DesiredConnector, said: list[str]
) -> None:
    assert codes(plan_of(spec, Live(rest_alone=True, version="3.6.2"))) == said
    assert codes(plan_of(spec, Live(rest_alone=True, version="3.7.0"))) == []
    assert codes(plan_of(spec, Live(rest_alone=True, version=""))) == []


def test_a_pin_of_what_no_ledger_names_may_have_been_applied() -> None:
    """Somebody wrote the whole config, without our key in it; or the ledger is gone, or is new."""
    pinned = replace(SINK, pin=BACK)
    assert codes(plan_of(pinned, there())) == ["plan.pin-perhaps-applied"]
    assert codes(plan_of(pinned, there(owned=Owned("orders", SINK.config, None)))) == []
    kept = LiveConnector("a", "sink", {**SINK.config, LEDGER_KEY: "{}"}, RUNNING)
    logs = TopicLogs({("t", 0): LogRange(0, 100)})
    assert codes(plan_of(pinned, Live({"a": kept}, logs=logs))) == ["plan.pin-perhaps-applied"]
    bare = replace(kept, config=SINK.config)
    assert codes(plan_of(pinned, Live({"a": bare}, logs=logs))) == ["plan.pin-perhaps-applied"]


def test_what_cannot_alter_offsets_is_named() -> None:
    assert codes(plan_of(SINK, there(version="3.5.1"))) == ["plan.old-connect"]


def test_over_rest_alone_nobody_knows_what_an_earlier_connector_left() -> None:
    """The trap: a plan that promises a read from the start, while Connect goes on where an earlier
    connector of the name stopped."""
    unknown = "unknown: offsets of an earlier connector of this name may exist"
    source = {"name": "a", "connector.class": "FileStreamSource", "topic": "t", "file": "/f"}
    kinds: dict[str, Kind] = {"FileStreamSource": "source", "FileStreamSink": "sink"}
    live = Live(rest_alone=True, version=KAFKA_VERSION, kinds=kinds)
    recreated = replace(live, ledger=LedgerState({"a": Owned("orders", {}, None, applied_ms=1)}))
    hidden = Live(kinds=kinds, unread_offsets={"a": "Kafka is gone"})
    for world in (live, recreated, hidden):
        for config, start in (
            (source, "reads from the start of its source"),
            (SINK.config, "starts at the beginning of its topics"),
        ):
            spec = DesiredConnector("a", dict(config), Location("a.yaml"))
            (create,) = plan_of(spec, world).actions
            assert create.effects == (f"{unknown}; without them it {start}",)
    renamed = DesiredConnector("a", source, Location("a.yaml"), renamed_from="gone")
    (create,) = plan_of(renamed, live).actions
    assert "\n".join(create.effects).startswith(unknown)
