"""Worlds for planning: Live from a few lines of YAML, and what a plan's actions make of a Live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from connect_reconciler.actions import (
    Action,
    Adopt,
    AlterOffsets,
    CopyOffsets,
    Create,
    Delete,
    FieldChange,
    Forget,
    OffsetMove,
    Pause,
    Protect,
    ResetOffsets,
    Restart,
    Resume,
    Stop,
    UpdateConfig,
)
from connect_reconciler.actions.connector_state import ConnectorState, changed
from connect_reconciler.actions.plan import Plan, Target
from connect_reconciler.actions.preconditions import (
    Absent,
    Exists,
    InsideLog,
    NotProtected,
    OfConnector,
    OwnerIs,
    PinNotRecorded,
    PinRecorded,
    Precondition,
    RenameRecorded,
    TargetIs,
)
from connect_reconciler.model.config_values import Plain, Secret, Value
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned, Renaming, Unfinished
from connect_reconciler.model.live import (
    Live,
    LiveConnector,
    LogRange,
    RecordAt,
    TimeAt,
    TopicLogs,
    kind_of,
)
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import reveal
from connect_reconciler.plan.diff import base_config, written_config
from connect_reconciler.plan.remaining import states_before
from connect_runtime import KAFKA_VERSION
from connect_specs.desired import Desired, OffsetEntry, TargetState, content_hash
from connect_specs.diagnostics import Diagnostic, Location
from support.spec_files import load_connectors

PROJECT = "orders"
KEY = b"a key for tests"


def desired_of(text: str, folder: Path) -> Desired:
    """The connectors that a text of specs holds, through the loader."""
    file = folder / "specs.yaml"
    file.write_text(text)
    return Desired(PROJECT, load_connectors([file], folder) if text.strip() else {})


def live_of(data: Mapping[str, Any], desired: Desired) -> Live:
    """The live state that a scenario describes."""
    ledger = data.get("ledger", {})
    key = ledger.get("key", KEY.decode())
    return Live(
        connectors={
            name: _connector(name, each) for name, each in data.get("connectors", {}).items()
        },
        ledger=LedgerState(
            connectors={
                name: _owned(each or {}) for name, each in ledger.get("connectors", {}).items()
            },
            pins=dict(_pin(*item, desired) for item in ledger.get("pins", {}).items()),
            renames={
                tuple(label.split("/")): Renaming(each["stage"], held=each.get("held", False))
                for label, each in ledger.get("renames", {}).items()
            },
            unfinished=tuple(Unfinished(each) for each in ledger.get("unfinished", ())),
            fingerprint_key=None if key is None else key.encode(),
        ),
        logs=TopicLogs(
            {_partition(label): LogRange(*ends) for label, ends in data.get("logs", {}).items()},
            data.get("topics", Counter(_partition(label)[0] for label in data.get("logs", {}))),
            {
                RecordAt(*_partition(label), int(offset)): at
                for label, times in data.get("record_times", {}).items()
                for offset, at in times.items()
            },
            {
                TimeAt(*_partition(label), int(at)): offset
                for label, times in data.get("times", {}).items()
                for at, offset in times.items()
            },
        ),
        orphan_offsets={
            name: Offsets(entries(each)) for name, each in data.get("orphan_offsets", {}).items()
        },
        offsets_after_change={
            name: Offsets(entries(each)) for name, each in data.get("new_offsets", {}).items()
        },
        kinds=data.get("kinds", {}),
        password_keys={
            name: frozenset(keys) for name, keys in data.get("password_keys", {}).items()
        },
        now_ms=data.get("now_ms", 0),
        cluster_id=data.get("cluster_id", "c1"),
        rest_alone=data.get("rest_alone", False),
        version=data.get("version", KAFKA_VERSION if data.get("rest_alone") else ""),
        unread_offsets=data.get("unread_offsets", {}),
    )


def entries(data: Mapping[str, int | None] | list[dict[str, Any]]) -> tuple[OffsetEntry, ...]:
    """Offsets: `orders-0: 5` for a sink's, a list of partition and offset for a source's."""
    if isinstance(data, list):
        return tuple(OffsetEntry(each["partition"], each["offset"]) for each in data)
    found = []
    for label, offset in data.items():
        topic, number = _partition(label)
        partition = {"kafka_topic": topic, "kafka_partition": number}
        found.append(OffsetEntry(partition, None if offset is None else {"kafka_offset": offset}))
    return tuple(found)


def after(live: Live, desired: Desired, actions: Iterable[Action]) -> Live:
    """Live once the actions are done, by folding `predict`."""
    for _, each in groupby(actions, key=lambda action: action.group):
        group = tuple(each)
        states = states_before(group, live, project=desired.project)
        texts = {name: live.connectors[name].config for name in states if name in live.connectors}
        for action in group:
            name, stored = action.connector, live.connectors.get(action.connector)
            if isinstance(action, Create | UpdateConfig):
                spec = desired.connectors[name]
                written = written_config(spec, texts.get(name) or base_config(spec, live))
                key = live.ledger.fingerprint_key
                texts[name] = reveal(action.config, written, connector=name, key=key)
            states = action.predict(states)
            if isinstance(action, UpdateConfig) and _other_kind(stored, texts[name], live):
                states = changed(states, name, offsets=Offsets())
        for name, state in states.items():
            live = _with(live, state, texts.get(name))
        gone = {action.connector for action in group if isinstance(action, Delete | Forget)}
        renames = {key: each for key, each in live.ledger.renames.items() if key[1] not in gone}
        live = replace(live, ledger=replace(live.ledger, renames=renames))
    return live


def _other_kind(stored: LiveConnector | None, texts: Mapping[str, str] | None, live: Live) -> bool:
    """A sink's offsets are none of a source's."""
    return bool(stored and texts) and kind_of(texts or {}, stored, live.kinds) != (
        stored and stored.kind
    )


def _with(live: Live, state: ConnectorState, texts: Mapping[str, str] | None) -> Live:
    name, ledger = state.name, live.ledger
    connectors = {key: each for key, each in live.connectors.items() if key != name}
    orphans = {key: each for key, each in live.orphan_offsets.items() if key != name}
    before = live.connectors.get(name)
    if state.config is not None and state.target is not None and texts is not None:
        kind = kind_of(texts, before, live.kinds)
        connectors[name] = LiveConnector(name, kind, texts, state.target, state.offsets)
    else:
        orphans[name] = state.offsets
    owners = {key: each for key, each in ledger.connectors.items() if key != name}
    if state.owner is not None:
        was = ledger.connectors.get(name, Owned(state.owner, {}, None))
        owners[name] = replace(
            was,
            project=state.owner,
            prevent_delete=state.prevent_delete,
            restore_to=state.restore_to,
        )
    pins = {key: each for key, each in ledger.pins.items() if key[0] != name}
    pins |= {(name, pin): applied for pin, applied in state.pins.items()}
    renames = {key: each for key, each in ledger.renames.items() if key[0] != name}
    renames |= {(name, old): each for old, each in state.renames.items()}
    return replace(
        live,
        connectors=connectors,
        orphan_offsets=orphans,
        ledger=replace(ledger, connectors=owners, pins=pins, renames=renames),
    )


def _connector(name: str, data: Mapping[str, Any]) -> LiveConnector:
    return LiveConnector(
        name,
        data.get("kind", "sink"),
        {"name": name, **data.get("config", {})},
        TargetState(data.get("target", "running")),
        Offsets(entries(data.get("offsets", {}))),
        data.get("state"),
        tuple(data.get("tasks", ())),
        error=data.get("error", ""),
    )


def _owned(data: Mapping[str, Any]) -> Owned:
    state, held = data.get("state"), data.get("held_from")
    return Owned(
        data.get("project", PROJECT),
        {},
        None if state is None else TargetState(state),
        data.get("prevent_delete", False),
        None if held is None else TargetState(held),
        applied_ms=data.get("applied_ms", 1),
        env=data.get("env"),
    )


def _pin(
    label: str, data: Mapping[str, Any], desired: Desired
) -> tuple[tuple[str, str], AppliedPin]:
    """`connector/pin`, with the content of the spec's own pin unless `hash` says otherwise."""
    name, pin_id = label.split("/")
    specs = desired.connectors.values()
    spec = next((each for each in specs if name in (each.name, each.renamed_from)), None)
    pin = spec.pin if spec else None
    known = data.get("hash") or (content_hash(pin) if pin else "unknown")
    resolved = data.get("resolved")
    return (name, pin_id), AppliedPin(
        known, None if resolved is None else entries(resolved), held=data.get("held", False)
    )


def _partition(label: str) -> tuple[str, int]:
    topic, _, number = label.rpartition("-")
    return topic, int(number)


def plan_with_everything() -> Plan:
    """A plan that no planner makes: every action, every precondition, every kind of value."""
    place = Location("connectors/a.yaml", 3, 5)
    sink = OffsetEntry({"kafka_topic": "orders", "kafka_partition": 0}, {"kafka_offset": 98000})
    source = OffsetEntry({"file": "é", "n": 1.5, "yes": True, "none": None}, {"at": 7})
    config: dict[str, Value] = {
        "name": Plain("a"),
        "password": Secret("ab" * 32),
        "odd": Plain(' "x"\n'),
    }
    changes = (
        FieldChange("password", Secret("cd" * 32), Secret("ab" * 32)),
        FieldChange("added", None, Plain("1")),
        FieldChange("removed", Plain("1"), None),
        FieldChange("changed", Plain("1"), Plain("2"), "redelivery", ("redelivers 5 offsets",)),
    )
    moves = (
        OffsetMove(sink, OffsetEntry(sink.partition, {"kafka_offset": 120430}), "back", "back"),
        OffsetMove(source, None, "start", "start"),
        OffsetMove(OffsetEntry(source.partition, None), source, "forgotten", "forgotten"),
    )
    requires: tuple[Precondition, ...] = (
        Exists(config_fingerprint="ef" * 32, leaving_out=("password",)),
        Absent(),
        TargetIs(state=TargetState.PAUSED),
        OwnerIs(project="orders"),
        OwnerIs(project=None),
        NotProtected(),
        PinNotRecorded(pin="p1"),
        PinRecorded(pin="p1", content_hash="12" * 32),
        RenameRecorded(old="b", stage="carried"),
        InsideLog(topic="orders", partition=0, offset=98000),
        OfConnector(connector="b", condition=Exists(config_fingerprint="ef" * 32)),
        OfConnector(connector="b", condition=RenameRecorded(old="b", stage="carried")),
    )
    alter = AlterOffsets(
        connector="a", reason="r", pin="p1", pin_hash="12" * 32, moves=moves, held=True
    )
    reset = ResetOffsets(connector="a", reason="r", pin="p2", pin_hash="34" * 32, moves=())
    stopped, running = TargetState.STOPPED, TargetState.RUNNING
    return Plan(
        project=PROJECT,
        group_id="orders",
        cluster_id="kafka-1",
        observed_ms=1_700_000_000_000,
        actions=(
            Delete(connector="z", reason="r", effects=("one", "two")),
            Create(
                connector="a",
                reason="r",
                config=config,
                initial_state=stopped,
                restore_to=running,
                requires=requires,
                pins={
                    "p3": AppliedPin("56" * 32, (sink,), 7, held=True),
                    "p4": AppliedPin("78" * 32, None),
                },
            ),
            Adopt(connector="a", reason="r"),
            Protect(connector="a", reason="r", prevent_delete=True),
            Stop(connector="a", reason="r", restore_to=TargetState.PAUSED),
            UpdateConfig(connector="a", reason="r", config=config, changes=changes),
            alter,
            reset,
            Restart(connector="a", reason="r"),
            Pause(connector="a", reason="r"),
            Resume(connector="a", reason="r"),
            Forget(connector="b", reason="r"),
            Stop(connector="b", reason="r", renamed_to="c", restore_to=TargetState.PAUSED),
            Create(
                connector="c",
                reason="r",
                config=config,
                initial_state=stopped,
                renamed_from="b",
            ),
            CopyOffsets(connector="c", reason="r", source="b", moves=moves),
            Delete(connector="b", reason="r", renamed_to="c", reset_offsets=True),
        ),
        warnings=(
            Diagnostic("plan.below-start", "what", "a", "why", "hint"),
            Diagnostic("config.slip", "what", place),
        ),
        errors=(Diagnostic("plan.pin-reused", "what", place), Diagnostic("plan.x", "what")),
        key_id="56" * 8,
        env="prod",
        rolls_back="20261121T140000Z-1f2e3d4c",
        target=Target("https://connect.prod:8083", "kafka-1:9092,kafka-2:9092"),
        places={"a": place, "z": Location("connectors/z.yaml", 4, 1)},
        unchanged=(Diagnostic("config.slip", "what", place),),
    )
