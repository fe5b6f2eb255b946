"""Laws of planning, over worlds that hypothesis makes up."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from connect_reconciler.actions import CopyOffsets
from connect_reconciler.actions.connector_state import ConnectorState
from connect_reconciler.actions.plan import Plan, grouped
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned, Renaming
from connect_reconciler.model.live import Live, LiveConnector, LogRange, TimeAt, TopicLogs
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.remaining import check_plan, states_before, unmet
from connect_reconciler.render.plan_file import dump_plan, load_plan, render_plan_json
from connect_reconciler.render.plan_text import render_plan
from connect_reconciler.render.texts import COLOUR
from connect_specs.desired import (
    Desired,
    DesiredConnector,
    OffsetEntry,
    Pin,
    TargetState,
    content_hash,
)
from connect_specs.diagnostics import Location
from support.examples import examples
from support.plan_sources import planned_again
from support.plans import KEY, PROJECT, after

NAMES = ("a", "b", "c")
TOPICS = ("orders", "refunds")
SECRETS = ("hunter2", "hunter-three", "hunter$4")
KEYS = ("tasks.max", "file", "errors.tolerance", "consumer.override.group.id", "transforms")
TEXTS = ("1", "2", "x", "")
NOON = 1_795_262_400_000

states = st.sampled_from(TargetState)
numbers = st.integers(0, 120)


@st.composite
def configs(draw: st.DrawFn, name: str, kind: str) -> dict[str, str]:
    config = {
        "name": name,
        "connector.class": f"File{kind}",
        "topics": draw(st.sampled_from(TOPICS)),
    }
    config |= draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS), max_size=3))
    hidden = st.sampled_from(("db.password", "named", "typed", "url"))
    for key, secret in draw(st.dictionaries(hidden, st.sampled_from(SECRETS))).items():
        config[key] = f"jdbc://me:{secret}@db" if key == "url" else secret
    return config


@st.composite
def sink_entries(draw: st.DrawFn) -> tuple[OffsetEntry, ...]:
    found = draw(st.dictionaries(st.sampled_from(TOPICS), st.none() | numbers))
    return tuple(
        OffsetEntry(
            {"kafka_topic": topic, "kafka_partition": 0},
            None if number is None else {"kafka_offset": number},
        )
        for topic, number in found.items()
    )


@st.composite
def source_entries(draw: st.DrawFn) -> tuple[OffsetEntry, ...]:
    found = draw(st.dictionaries(st.sampled_from(("/a", "/b")), st.none() | numbers))
    return tuple(
        OffsetEntry({"filename": file}, None if number is None else {"position": number})
        for file, number in found.items()
    )


def _entries(kind: str) -> st.SearchStrategy[tuple[OffsetEntry, ...]]:
    return sink_entries() if kind == "Sink" else source_entries()


@st.composite
def pins(draw: st.DrawFn, kind: str) -> Pin | None:
    shape = draw(st.sampled_from(("none", "reset", "set", "other shape", "to")))
    pin = draw(st.sampled_from(("p1", "p2")))
    if shape == "none":
        return None
    if shape == "reset":
        return Pin(pin, reset=True)
    if shape == "to":
        return Pin(pin, to=draw(st.sampled_from(("earliest", "latest", NOON))))
    other = "Source" if kind == "Sink" else "Sink"
    entries = draw(_entries(kind if shape == "set" else other))
    return Pin(pin, entries) if entries else None


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Desired, Live]:
    """Any desired, any live; what nobody would do by intent is among them."""
    specs: dict[str, DesiredConnector] = {}
    live: dict[str, LiveConnector] = {}
    owners: dict[str, Owned] = {}
    applied: dict[tuple[str, str], AppliedPin] = {}
    renames: dict[tuple[str, str], Renaming] = {}
    orphans: dict[str, Offsets] = {}
    for name in NAMES:
        kind = draw(st.sampled_from(("Sink", "Source")))
        pin = draw(pins(kind))
        if draw(st.booleans()):
            specs[name] = DesiredConnector(
                name,
                draw(configs(name, kind)),
                Location(f"{name}.yaml", 1, 1),
                state=draw(st.none() | states),
                pin=pin,
                prevent_delete=draw(st.booleans()),
                ignore=draw(st.sampled_from(((), ("config.f*",), ("state",), ("config.typed",)))),
                sensitive=("named",),
            )
        if draw(st.booleans()):
            was = draw(st.sampled_from((kind, "Sink", "Source")))
            live[name] = LiveConnector(
                name,
                "sink" if was == "Sink" else "source",
                draw(configs(name, was)),
                draw(states),
                Offsets(draw(_entries(was))),
                draw(st.sampled_from((None, "RUNNING", "FAILED"))),
            )
        elif draw(st.booleans()):
            orphans[name] = Offsets(draw(_entries(kind)))
        if draw(st.booleans()):
            owners[name] = Owned(
                draw(st.sampled_from((PROJECT, PROJECT, PROJECT, "other"))),
                {},
                None,
                draw(st.booleans()),
                draw(st.none() | st.sampled_from((TargetState.RUNNING, TargetState.PAUSED))),
            )
        if pin is not None and draw(st.booleans()):
            resolved = draw(sink_entries()) if pin.to else None if pin.reset else pin.set
            known = draw(st.sampled_from((content_hash(pin), content_hash(pin), "other")))
            applied[(name, pin.id)] = AppliedPin(known, resolved, held=draw(st.booleans()))
    for name, old in draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES))).items():
        # As the loader has it: an old name has no spec, and became one connector
        taken = old in specs or any(each.renamed_from == old for each in specs.values())
        if name in specs and not taken:
            specs[name] = replace(specs[name], renamed_from=old)
        if name != old and draw(st.booleans()):
            # As the ledger has it: what was carried from is owned, until both records go
            of_owned = (Renaming("carried"),) if old in owners else ()
            both = Renaming("begun", held=True), Renaming("begun")
            renames[(name, old)] = draw(st.sampled_from((*both, *of_owned)))
    ledger = LedgerState(
        owners, applied, renames, fingerprint_key=draw(st.sampled_from((KEY, None)))
    )
    return Desired(PROJECT, specs), Live(
        live,
        ledger,
        TopicLogs(
            {("orders", 0): LogRange(20, 100), ("refunds", 0): LogRange(0, 50)},
            {"orders": 1, "refunds": 1},
            first_since={TimeAt("orders", 0, NOON): 60, TimeAt("refunds", 0, NOON): 50},
        ),
        orphans,
        password_keys={name: frozenset({"typed"}) for name in NAMES},
    )


def _plan(desired: Desired, live: Live) -> Plan:
    return make_plan(desired, live, group_id="connect")


def _without_errors(desired: Desired, live: Live) -> tuple[Desired, Live]:
    """The world without the connectors that make its plan impossible."""
    names = set(NAMES)
    while errors := _plan(*_only(desired, live, *sorted(names))).errors:
        names -= {str(each.where).partition(".yaml")[0] for each in errors}
    return _only(desired, live, *sorted(names))


def _only(desired: Desired, live: Live, *names: str) -> tuple[Desired, Live]:
    owners = {key: each for key, each in live.ledger.connectors.items() if key in names}
    pins = {key: each for key, each in live.ledger.pins.items() if key[0] in names}
    renames = {key: each for key, each in live.ledger.renames.items() if key[0] in names}
    return replace(
        desired,
        connectors={key: desired.connectors[key] for key in names if key in desired.connectors},
    ), replace(
        live,
        connectors={key: each for key, each in live.connectors.items() if key in names},
        ledger=replace(live.ledger, connectors=owners, pins=pins, renames=renames),
    )


@given(worlds())
@examples(50)
def test_plan_after_apply_is_empty(world: tuple[Desired, Live]) -> None:
    desired, live = _without_errors(*world)
    plan = _plan(desired, live)
    assert not plan.errors
    assert _plan(desired, after(live, desired, plan.actions)).empty


@given(worlds(), st.data())
@examples(50)
def test_any_prefix_followed_by_a_new_plan_converges(
    world: tuple[Desired, Live], data: st.DataObject
) -> None:
    desired, live = _without_errors(*world)
    actions = _plan(desired, live).actions
    cut = data.draw(st.integers(0, len(actions)))
    part = after(live, desired, actions[:cut])
    end = after(part, desired, _plan(desired, part).actions)
    whole = after(live, desired, actions)
    assert _plan(desired, end).empty
    assert {name: each.target for name, each in end.connectors.items()} == {
        name: each.target for name, each in whole.connectors.items()
    }
    assert {name: each.config for name, each in end.connectors.items()} == {
        name: each.config for name, each in whole.connectors.items()
    }
    assert end.ledger.pins == whole.ledger.pins
    assert end.ledger.renames == whole.ledger.renames


@given(worlds())
@examples(50)
def test_a_saved_plan_is_what_the_specs_give_where_it_was_made(
    world: tuple[Desired, Live],
) -> None:
    """Made anew for its own connectors only, it does the same: none is stale for no reason."""
    desired, live = _without_errors(*world)
    plan = _plan(desired, live)
    again = planned_again(load_plan(dump_plan(plan)), desired, live)
    assert again.actions == plan.actions
    assert not again.errors


@given(worlds())
@examples(50)
def test_every_action_meets_the_state_that_the_plan_predicts(world: tuple[Desired, Live]) -> None:
    desired, live = world
    plan = _plan(desired, live)
    assert check_plan(plan, live) == ()
    for actions in grouped(plan):
        states = states_before(actions, live, project=PROJECT)
        for action in actions:
            assert action.requires
            assert unmet(action, states) == ()
            states = action.predict(states)


@given(worlds())
@examples(40)
def test_planning_does_not_depend_on_any_order(
    world: tuple[Desired, Live],
) -> None:
    desired, live = world
    back = replace(desired, connectors=dict(reversed(desired.connectors.items())))
    ledger = replace(
        live.ledger,
        connectors=dict(reversed(live.ledger.connectors.items())),
        pins=dict(reversed(live.ledger.pins.items())),
        renames=dict(reversed(live.ledger.renames.items())),
    )
    turned = replace(
        live,
        connectors={
            name: replace(
                each,
                config=dict(reversed(each.config.items())),
                offsets=Offsets(reversed(tuple(each.offsets))),
            )
            for name, each in reversed(live.connectors.items())
        },
        orphan_offsets={
            name: Offsets(reversed(tuple(each)))
            for name, each in reversed(live.orphan_offsets.items())
        },
        ledger=ledger,
    )
    assert dump_plan(_plan(desired, live)) == dump_plan(_plan(back, turned))


@given(worlds())
@examples(50)
def test_no_secret_is_in_any_output(world: tuple[Desired, Live]) -> None:
    plan = _plan(*world)
    for text in (
        dump_plan(plan),
        str(render_plan_json(plan)),
        render_plan(plan),
        render_plan(plan, COLOUR),
        repr(plan),
    ):
        assert not any(secret in text for secret in SECRETS)


@given(worlds())
@examples(40)
def test_plan_file_holds_all_of_the_plan(world: tuple[Desired, Live]) -> None:
    plan = _plan(*world)
    assert load_plan(dump_plan(plan)) == plan


def _held(state: ConnectorState) -> dict[str, object]:
    """What the pins hold a connector to; entries have no order."""
    return {
        pin: (applied.content_hash, applied.held, sorted(map(repr, applied.resolved or ())))
        for pin, applied in state.pins.items()
    }


@given(worlds())
@examples(50)
def test_offsets_move_only_while_stopped(world: tuple[Desired, Live]) -> None:
    desired, live = world
    for actions in grouped(_plan(desired, live)):
        states = states_before(actions, live, project=PROJECT)
        for action in actions:
            before, states = states[action.connector], action.predict(states)
            state = states[action.connector]
            if isinstance(action, CopyOffsets):
                assert before.target is TargetState.STOPPED
                assert states[action.source].target is TargetState.STOPPED
            if type(action).__name__ in ("AlterOffsets", "ResetOffsets"):
                assert before.target is TargetState.STOPPED
                assert state.pins.keys() > before.pins.keys() or _held(before) == _held(state)
