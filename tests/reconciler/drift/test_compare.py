"""Where each difference between what was applied, the specs and the cluster was made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_reconciler.drift.compare import compare
from connect_reconciler.drift.model import (
    ApplyRun,
    Drift,
    Finding,
    History,
    LiveWithHistory,
    Mark,
    changes,
)
from connect_reconciler.model.ledger import AppliedPin, LedgerState, Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import fingerprint
from connect_reconciler.render.drift_report import (
    MARKDOWN_MAX,
    drift_markdown,
    drift_text,
    finding_json,
    sentence,
    summary_json,
)
from connect_specs.desired import (
    Desired,
    DesiredConnector,
    OffsetEntry,
    Pin,
    TargetState,
    content_hash,
)
from connect_specs.diagnostics import Location

KEY = b"a key for tests"


def owned(state: str | None = None, **more: Any) -> Owned:
    project, held = more.pop("project", "orders"), more.pop("restore_to", None)
    config = {"name": "a", "connector.class": "X"} | more
    return Owned(project, config, None if state is None else TargetState(state), restore_to=held)


def spec(state: str | None = None, **more: Any) -> DesiredConnector:
    ignore, pin = more.pop("ignore", ()), more.pop("pin", None)
    config = {"name": "a", "connector.class": "X"} | more
    wanted = None if state is None else TargetState(state)
    return DesiredConnector("a", config, Location("a.yaml"), wanted, pin, ignore=ignore)


def there(state: str = "running", **more: Any) -> LiveConnector:
    offsets, tasks = more.pop("offsets", ()), more.pop("tasks", ())
    status = more.pop("status", None)
    config = {"name": "a", "connector.class": "X"} | more
    return LiveConnector("a", "sink", config, TargetState(state), Offsets(offsets), status, tasks)


def at(offset: int | None) -> tuple[OffsetEntry, ...]:
    partition = {"kafka_topic": "t", "kafka_partition": 0}
    return (OffsetEntry(partition, None if offset is None else {"kafka_offset": offset}),)


PINS = {"p": Pin("p", at(5)), "q": Pin("q", at(7))}


def held(*, still: bool) -> dict[tuple[str, str], AppliedPin]:
    return {("a", "p"): AppliedPin(content_hash(PINS["p"]), at(5), held=still)}


@dataclass
class World:
    applied: Owned | None
    spec: DesiredConnector | None
    live: LiveConnector | None
    pins: dict[tuple[str, str], AppliedPin] = field(default_factory=dict)
    key: bytes | None = KEY
    history: History = field(default_factory=History)
    passwords: frozenset[str] = frozenset()
    groups_hidden: bool = False
    rest_alone: bool = False
    unread: dict[str, str] = field(default_factory=dict)
    # Another connector of the project, in sync
    sibling: bool = False

    def drift(self) -> Drift:
        specs = {"z": replace(spec(), name="z")} if self.sibling else {}
        live = {"z": replace(there(), name="z")} if self.sibling else {}
        ledger = {"z": owned()} if self.sibling else {}
        return compare(
            Desired("orders", {**({} if self.spec is None else {"a": self.spec}), **specs}),
            LiveWithHistory(
                Live(
                    {**({} if self.live is None else {"a": self.live}), **live},
                    LedgerState(
                        {**({} if self.applied is None else {"a": self.applied}), **ledger},
                        self.pins,
                        fingerprint_key=self.key,
                    ),
                    password_keys={"a": self.passwords},
                    rest_alone=self.rest_alone,
                    unread_offsets=self.unread,
                ),
                self.history,
                groups_hidden=self.groups_hidden,
            ),
        )


def short(finding: Finding) -> str:
    whose = json.loads(finding_json(finding))["whose"] or "-"
    return f"{finding.kind.value} {whose} | {sentence(finding)}"


# Each scalar is a text
TABLE = yaml.load(Path(__file__).with_name("cases.yaml").read_text(), yaml.BaseLoader)
CASES, SECRETS, ALONE = (
    {each["case"]: each for each in TABLE[part]} for part in ("cases", "secrets", "rest_alone")
)


def world_of(case: dict[str, Any]) -> World:
    """The world that a case describes."""
    parts: dict[str, dict[str, Any] | None] = {
        part: case["world"].get(part) for part in ("applied", "spec", "live")
    }
    parts = {part: fields and with_secrets(fields) for part, fields in parts.items()}
    applied, wanted, live = (parts[each] for each in ("applied", "spec", "live"))
    if applied and "restore_to" in applied:
        applied["restore_to"] = TargetState(applied["restore_to"])
    resuming = applied.pop("resuming", None) if applied else None
    if wanted and "pin" in wanted:
        wanted["pin"] = PINS[wanted["pin"][0]]
    if live and "offsets" in live:
        live["offsets"] = at(int(live["offsets"]))
    failure = live.pop("failure", "") if live else ""
    pins = case["world"].get("pins")
    return World(
        None if applied is None else replace(owned(**applied), resuming=resuming),
        None if wanted is None else spec(**wanted),
        None if live is None else replace(there(**live), failure=failure),
        held(still=pins == "held") if pins else {},
        None if case["world"].get("key") == "none" else KEY,
        groups_hidden="groups_hidden" in case["world"],
        unread=case["world"].get("unread", {}),
        sibling="sibling" in case["world"],
    )


def with_secrets(fields: dict[str, Any]) -> dict[str, Any]:
    """With the fingerprints of secrets in place of their names."""
    return {
        key: secret(text[1:]) if isinstance(text, str) and text.startswith("$h") else text
        for key, text in fields.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_whose_is_it(case: str) -> None:
    """Three ways: last applied, desired, live; drift is ours, theirs, both, or to be ignored."""
    expected, found = CASES[case]["says"], world_of(CASES[case]).drift()
    assert [short(finding) for finding in found.findings] == expected
    may_be_drift = ("theirs", "both", "unknown")
    assert found.drifted is any(each.split()[1] in may_be_drift for each in expected)


def secret(text: str) -> str:
    return fingerprint(KEY, "a", "db.password", text)


@pytest.mark.parametrize("case", SECRETS)
def test_secrets_are_told_apart_and_never_shown(case: str) -> None:
    expected, found = SECRETS[case]["says"], world_of(SECRETS[case]).drift()
    assert [short(finding) for finding in found.findings] == expected
    shown = drift_text(found) + drift_markdown(found) + "".join(map(finding_json, found.findings))
    for hidden in ("hunter", secret("hunter2"), secret("hunter3")):
        assert hidden not in shown + repr(found)


@pytest.mark.parametrize("case", ALONE)
def test_over_rest_alone_nothing_is_claimed_that_nothing_tells(case: str) -> None:
    expected, drift = ALONE[case]["says"], replace(world_of(ALONE[case]), rest_alone=True).drift()
    assert [short(finding) for finding in drift.findings] == expected
    told = any(each.split()[1] in ("theirs", "unknown") for each in expected)
    assert drift.drifted is told


def test_a_value_that_has_become_secret_since_is_no_change() -> None:
    world = World(owned(k="v"), spec(k="v"), there(k="v"), passwords=frozenset({"k"}))
    assert world.drift().findings == ()


def test_since_when_and_whether_an_apply_did_it() -> None:
    by_hand, by_apply = Mark(100_000, "c", 0, 7), Mark(200_000, "c", 0, 9)
    history = History(
        keys={("a", "j"): by_hand, ("a", "k"): by_apply},
        runs=(ApplyRun("r1", "orders", "me@here", {"a": (199_000, 200_500)}),),
    )
    world = World(owned(j="1", k="1"), spec(j="1", k="1"), there(j="2", k="2"), history=history)
    first, second = world.drift().findings
    assert (first.since, first.run) == (by_hand, None)
    assert second.run is not None
    assert second.run.id == "r1"
    assert "since 1970-01-01T00:01:40Z (c-0, offset 7), by no apply on record" in drift_text(
        world.drift()
    )
    assert "by apply r1 of orders by me@here" in drift_text(world.drift())


@pytest.mark.parametrize(
    ("set_ms", "by", "says"),
    [
        (300_000, {}, "both | state: paused; the spec wants running"),
        (300_000, {"a": (299_000, 300_500)}, "ours | state: paused → running"),
        (100_000, {}, "ours | state: paused → running"),
        (230_000, {}, "ours | state: paused → running"),
        (230_000, {"a": (199_000, 201_000)}, "both | state: paused; the spec wants running"),
    ],
    ids=[
        "manually",
        "by an apply",
        "before the last apply",
        "perhaps by the last apply",
        "after the last apply",
    ],
)
def test_a_state_that_no_apply_recorded(
    set_ms: int, by: dict[str, tuple[int, int]], says: str
) -> None:
    """The trap: `state: running` is added to a spec whose connector runs, which is no change to
    apply; a pause from then on looks like a change of the spec."""
    history = History(
        targets={"a": Mark(set_ms, "c", 0, 7)}, runs=(ApplyRun("r1", "orders", "me@here", by),)
    )
    applied = replace(owned(), applied_ms=200_000)
    drift = World(applied, spec("running"), there("paused"), history=history).drift()
    (found,) = drift.findings
    assert short(found) == f"state {says}"
    assert drift.drifted is says.startswith("both")


def test_what_belongs_to_nobody_any_more() -> None:
    """Connectors that are unmanaged, and offsets that deleted connectors left."""
    entry = OffsetEntry({"filename": "/x"}, {"position": 6})
    live = Live(
        ledger=LedgerState({"theirs": owned(project="other"), "b": owned(project="other")}),
        orphan_offsets=dict.fromkeys(("gone", "a", "theirs"), Offsets((entry,))),
    )
    seen = LiveWithHistory(live, left_groups={"sunk": 2, "a": 1})
    found = compare(Desired("orders", {"a": spec()}), seen)
    assert [
        (each.kind.value, each.connector) for each in found.findings if not each.changed_in
    ] == [
        ("left-offsets", "gone"),
        ("left-offsets", "sunk"),
    ]
    assert not found.drifted
    assert found.other_projects == {"other": 2}
    for report in (drift_text, drift_markdown):
        assert "2 deleted connectors left offsets (--all lists them)" in report(found)
        assert "position 6" not in report(found)
        whole = report(found, left_offsets=True)
        assert "source offsets of 1 partition: /x at position 6" in whole
        assert "connect-sunk holds 2 partitions" in whole
        assert "left offsets (--all" not in whole


def test_connectors_are_counted_and_keys_by_how_often_they_drift() -> None:
    names = [f"c{number}" for number in range(6)]
    place = Location("all.yaml", 7, 3)
    specs = {name: replace(spec(k="1"), name=name, key_locations={"k": place}) for name in names}
    live = {name: replace(there(k="1"), name=name) for name in names}
    for name in names[:3]:
        live[name] = replace(there(k="2", l="x"), name=name)
    specs["c4"] = replace(spec(k="3"), name="c4")
    ledger = LedgerState({name: owned(k="1") for name in (*names, "owned")})
    live["owned"] = replace(there(k="1"), name="owned")
    found = compare(Desired("orders", specs), LiveWithHistory(Live(live, ledger=ledger)))
    assert found.connectors() == {"in_sync": 2, "drifted": 3, "pending": 2}
    assert found.keys() == {"k": 3, "l": 3}
    text = drift_text(found)
    assert text.startswith(
        "Drift: 6 changed in the cluster; 2 not applied yet\n"
        "Connectors: 2 in sync, 3 drifted, 2 not applied yet\n"
        "Keys that drift most: k (3), l (3)\n"
    )
    assert "  c0: ~ k: 1 → 2\n      all.yaml:7:3\n" in text
    assert "  owned: its spec is gone: apply deletes it\n  " not in text
    assert json.loads(summary_json(found))["connectors"]["in_sync"] == 2


def test_nothing_to_tell_is_said_with_how_much_was_compared() -> None:
    found = World(owned(k="1"), spec(k="1"), there(k="1")).drift()
    assert drift_text(found) == "No drift\nConnectors: 1 in sync\n"
    assert drift_text(Drift("orders", 0)) == "No drift\n"


def test_a_rename_that_is_pending_is_one_thing() -> None:
    renamed = replace(spec(), name="b", config={**spec().config, "name": "b"}, renamed_from="a")
    live = Live({"a": there()}, LedgerState({"a": owned()}, fingerprint_key=KEY))
    found = compare(Desired("orders", {"b": renamed}), LiveWithHistory(live))
    assert [(each.connector, short(each)) for each in found.findings] == [
        ("a", "connector ours | apply renames it to b"),
        ("b", "connector ours | apply renames a to it"),
    ]
    assert not found.drifted


def test_json_lines_have_the_documented_fields() -> None:
    world = world_of(CASES["both changed"])
    found = world.drift()
    (line,) = map(json.loads, map(finding_json, found.findings))
    assert line == {
        "v": 1,
        "type": "finding",
        "event": "found",
        "kind": "config",
        "connector": "a",
        "key": "k",
        "whose": "both",
        "drift": True,
        "applied": {"text": "1"},
        "desired": {"text": "2"},
        "live": {"text": "3"},
        "what": "~ k: 1 → 3; the spec wants 2",
        "file": "a.yaml",
        "line": 0,
        "since": None,
        "apply": None,
    }
    summary = json.loads(summary_json(found))
    assert (summary["v"], summary["type"], summary["drift"]) == (1, "summary", True)
    assert summary["counts"] == {
        "theirs": 0,
        "both": 1,
        "unknown": 0,
        "ours": 0,
        "unmanaged": 0,
        "left_offsets": 0,
        "failed": 0,
    }
    assert summary["connectors"] == {"in_sync": 0, "drifted": 1, "pending": 0}
    assert summary["keys"] == {"k": 1}


def test_what_is_new_and_what_is_gone() -> None:
    before = now = world_of(CASES["paused manually"])
    later = History(targets={"a": Mark(5, "c", 0, 1)})
    again = World(now.applied, now.spec, now.live, history=later)
    assert changes(before.drift(), again.drift()) == ((), ())
    new, gone = changes(before.drift(), world_of(CASES["deleted manually"]).drift())
    assert [each.kind.value for each in new] == ["connector"]
    assert [each.kind.value for each in gone] == ["state"]


def test_markdown_shows_what_others_named_as_it_is_and_fits_an_issue() -> None:
    world = World(owned(k="1"), spec(k="1"), there(k="<b>@all</b> `x` [l](u)"))
    assert "`` ~ k: 1 → <b>@all</b> `x` [l](u) ``" in drift_markdown(world.drift())
    many = {f"k{number}": "x" * 70 for number in range(2000)}
    text = drift_markdown(World(owned(), spec(), there(**many)).drift())
    assert MARKDOWN_MAX * 0.9 < len(text) < 65_536
    assert "lines more" in text
