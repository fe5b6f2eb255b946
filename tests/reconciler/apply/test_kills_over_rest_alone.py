"""An apply over REST alone that is killed at any request, and run again, ends where the specs want.

All of the real path but the network: the ledger in the configs, the read-backs, the observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import httpx
import pytest

from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.context import ApplyContext, Limits
from connect_reconciler.apply.report import ApplyReport, Outcome
from connect_reconciler.apply.scheduler import apply_plan
from connect_reconciler.backend.observe.rest import observe_rest
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest_only import connection_over_rest
from connect_reconciler.ledger.config_entry import load_entry
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import AppliedPin, Renaming, carried
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_runtime import KAFKA_VERSION
from connect_specs.desired import (
    Desired,
    DesiredConnector,
    OffsetEntry,
    Pin,
    RestTarget,
    TargetState,
)
from connect_specs.diagnostics import Location
from support.applying import INSTALLED, FakeTime, desired_of, names
from support.dooming import Doom, Killed
from support.fake_worker import FakeWorker
from support.projects import project_of

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
TARGET = RestTarget("http://connect.test")
# the clock is not real, but each look costs
LIMITS = Limits(every_s=1.0)
PROJECT = project_of("orders", target=TARGET)


class Deleting(FakeWorker):
    """Someone deletes the connector right before its config is written."""

    def _change(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT" and request.url.path.endswith("/config"):
            self.connectors.pop(request.url.path.split("/")[2])
        return super()._change(request)


@dataclass
class Alone:
    """A project whose cluster is one fake worker. Each apply is a process of its own."""

    worker: FakeWorker
    time: FakeTime = field(default_factory=FakeTime)

    def client(self) -> RestClient:
        return RestClient(
            TARGET,
            transport=self.worker.transport,
            clock=lambda: self.time.at,
            sleep=self.time.sleep,
        )

    def observe(self, desired: Desired) -> Live:
        with self.client() as client:
            return observe_rest(
                desired,
                client,
                now_ms=lambda: 0,
                fingerprint_key=None,
                plugins=INSTALLED,
            )

    def plan(self, desired: Desired) -> Plan:
        return make_plan(desired, self.observe(desired), group_id="orders")

    def apply(self, desired: Desired) -> ApplyReport:
        plan = self.plan(desired)
        with self.client() as client:
            connection = connection_over_rest(client, desired, None)
            context = replace(
                ApplyContext.over(connection, "test", {}), clock=self.time.clock(), limits=LIMITS
            )
            return apply_plan(plan, desired, PROJECT, self.observe(desired), context)


def spec(name: str, kind: str, *, file: str = "x", **more: object) -> DesiredConnector:
    topic = {"topics": "t"} if kind == "Sink" else {"topic": "t"}
    config = {"name": name, "connector.class": f"FileStream{kind}", "file": file, **topic}
    return replace(DesiredConnector(name, config, Location(f"{name}.yaml")), **more)  # type: ignore[arg-type]


def pin_of(kind: str) -> Pin:
    entry = OffsetEntry({"filename": "f"}, {"position": 7})
    if kind == "Sink":
        entry = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})
    return Pin("back", (entry,))


@dataclass(frozen=True)
class Change:
    """From specs that are applied to others; `asked` is a state asked for by hand in between.
    `ends` says how each connector ends, by name; those that are not in it are gone."""

    before: tuple[DesiredConnector, ...]
    after: tuple[DesiredConnector, ...]
    ends: dict[str, TargetState]
    asked: dict[str, TargetState] = field(default_factory=dict)


def changes(kind: str) -> dict[str, Change]:
    a, pin = spec("a", kind), pin_of(kind)
    other = spec("a", kind, file="y")
    b = spec("b", kind, renamed_from="a")
    reset = Pin("again", reset=True)
    return {
        "config": Change((a,), (other,), {"a": RUNNING}),
        "config and pin": Change((a,), (replace(other, pin=pin),), {"a": RUNNING}),
        "pin of a paused one": Change((a,), (replace(a, pin=pin),), {"a": PAUSED}, {"a": PAUSED}),
        "pin and pause": Change((a,), (replace(other, pin=pin, state=PAUSED),), {"a": PAUSED}),
        "pin and stop": Change((a,), (replace(other, pin=pin, state=STOPPED),), {"a": STOPPED}),
        "resume of a pin": Change(
            (replace(a, pin=pin, state=STOPPED),),
            (replace(a, pin=pin, state=RUNNING),),
            {"a": RUNNING},
        ),
        "create with pin": Change((), (replace(a, pin=pin),), {"a": RUNNING}),
        "create paused with pin": Change((), (replace(a, pin=pin, state=PAUSED),), {"a": PAUSED}),
        "create paused": Change((), (replace(a, state=PAUSED),), {"a": PAUSED}),
        "create stopped": Change((), (replace(a, state=STOPPED),), {"a": STOPPED}),
        "rename": Change((a,), (b,), {"b": RUNNING}),
        "rename with pin": Change((a,), (replace(b, pin=pin),), {"b": RUNNING}),
        "rename of a stopped one": Change((a,), (b,), {"b": STOPPED}, {"a": STOPPED}),
        "delete": Change((a,), (), {}),
        "reset": Change((a,), (replace(a, pin=reset),), {"a": RUNNING}),
        "two": Change(
            (a, spec("c", kind)),
            (replace(other, pin=pin), spec("d", kind, pin=pin)),
            {"a": RUNNING, "d": RUNNING},
        ),
    }


SINK, SOURCE = changes("Sink"), changes("Source")
MOVING = ("config and pin", "create with pin", "rename with pin", "reset")
OLD = ("config and pin", "pin and pause", *(label for label in SINK if label[:3] in ("cre", "ren")))

# An apply for each request of each change: once more for the rest would take ten seconds
CASES = [
    *(("Sink", label, KAFKA_VERSION, False) for label in SINK),
    *(("Source", label, KAFKA_VERSION, False) for label in MOVING),
    *(
        pytest.param("Sink", label, KAFKA_VERSION, True, marks=pytest.mark.long)
        for label in (*MOVING, "resume of a pin")
    ),
    *(pytest.param("Sink", label, "3.6.2", False, marks=pytest.mark.long) for label in OLD),
]
TURNED_AWAY = [
    pytest.param(label, marks=() if label in (*MOVING, "delete", "two") else pytest.mark.long)
    for label in SINK
]


def begun(change: Change, kind: str, version: str, *, busy: bool) -> tuple[Alone, Desired]:
    """The cluster before the change, and what is to be."""
    alone = Alone(FakeWorker(version))
    if change.before:
        assert alone.apply(desired_of(*change.before)).exit_code == 0
    for name, target in change.asked.items():
        alone.worker.connectors[name].target = target
    for each in change.before:
        entry = pin_of(kind).set[0]
        at = dict.fromkeys(entry.offset or {}, 100)
        if each.pin is None:
            alone.worker.set_offsets(
                each.name, [{"partition": dict(entry.partition), "offset": at}]
            )
    alone.worker.busy = busy
    alone.worker.asked.clear()
    desired = desired_of(*change.after)
    _watch(alone.worker, desired)
    return alone, desired


def _watch(worker: FakeWorker, desired: Desired) -> None:
    """Asserts what must hold whenever offsets move and whenever something runs."""

    def pins(name: str) -> Mapping[str, AppliedPin]:
        text = worker.connectors[name].config.get(LEDGER_KEY)
        return {} if text is None else load_entry(name, text).pins

    def renames(name: str) -> Mapping[str, Renaming]:
        text = worker.connectors[name].config.get(LEDGER_KEY)
        return {} if text is None else load_entry(name, text).renames

    def on_alter(name: str) -> None:
        wanted = desired.connectors.get(name)
        if wanted is not None and wanted.pin is not None and wanted.renamed_from is None:
            assert wanted.pin.id not in pins(name), "a recorded pin moved offsets again"

    before = frozenset(worker.connectors)

    def on_run(name: str) -> None:
        wanted = desired.connectors.get(name)
        if wanted is None:
            return
        if wanted.pin is not None and wanted.pin.id not in pins(name):
            # Only what runs as it did before the change
            assert name in before and worker.connectors[name].config["file"] == "x"
        if wanted.renamed_from is not None:
            assert carried(renames(name), wanted.renamed_from), (
                "it ran without the old one's offsets"
            )

    worker.on_alter, worker.on_run = on_alter, on_run


def check_end(alone: Alone, desired: Desired, change: Change, kind: str) -> None:
    live = alone.observe(desired)
    left = make_plan(desired, live, group_id="orders")
    assert left.actions == ()
    assert not [each for each in left.warnings if each.code == "plan.unfinished-apply"]
    found = {name: each.target for name, each in alone.worker.connectors.items()}
    assert found == change.ends
    for name, wanted in desired.connectors.items():
        config = dict(live.connectors[name].config)
        config.pop(LEDGER_KEY, None)
        assert config == {**wanted.config, "name": name}
        if not alone.worker.busy or change.ends[name] is not RUNNING:
            held = alone.worker.offsets.get(name, {}).values()
            assert [OffsetEntry(*each) for each in held] == offsets_of(wanted, change, kind)


def check_told(killed: Alone, desired: Desired, change: Change) -> None:
    """What is stopped only for now is said to be left half done."""
    found = killed.plan(desired).warnings
    told = {each.where for each in found if each.code == "plan.unfinished-apply"}
    stopped = {name for name, at in killed.worker.connectors.items() if at.target is STOPPED}
    for name in stopped & change.ends.keys():
        if change.ends[name] is STOPPED:
            assert name not in told
        elif desired.connectors[name].state is None:
            assert name in told


def offsets_of(wanted: DesiredConnector, change: Change, kind: str) -> list[OffsetEntry]:
    """What a connector has that did not move since it was let go."""
    pin = wanted.pin
    if pin is not None:
        return [] if pin.reset else list(pin.set)
    if wanted.name in {each.name for each in change.before} or wanted.renamed_from is not None:
        entry = pin_of(kind).set[0]
        return [replace(entry, offset=dict.fromkeys(entry.offset or {}, 100))]
    return []


@pytest.mark.parametrize(("kind", "label", "version", "busy"), CASES)
def test_killed_after_any_request_it_converges(
    kind: str, label: str, version: str, busy: bool
) -> None:
    """Nothing is left stopped, no pin is applied twice, and nothing runs before its pin is kept."""
    change = (SINK if kind == "Sink" else SOURCE)[label]
    alone, desired = begun(change, kind, version, busy=busy)
    report = alone.apply(desired)
    assert report.exit_code == 0, report
    check_end(alone, desired, change, kind)
    for at in range(1, len(alone.worker.asked) + 1):
        killed, desired = begun(change, kind, version, busy=busy)
        killed.worker.doom = Doom(at, before=False)
        with pytest.raises(Killed):
            killed.apply(desired)
        killed.worker.doom = None
        check_told(killed, desired, change)
        report = killed.apply(desired)
        assert report.exit_code == 0, (at, killed.worker.asked, report)
        check_end(killed, desired, change, kind)


@pytest.mark.parametrize("kind", ["Sink", "Source"])
def test_a_rename_that_was_killed_and_reverted_repeats_nothing(kind: str) -> None:
    """The trap: offsets that were forgotten before the delete are gone when the spec is back, and
    over REST alone none can be set once the connector is deleted."""
    change = (SINK if kind == "Sink" else SOURCE)["rename"]
    (before,), at = change.before, 0
    while True:
        at += 1
        killed, desired = begun(change, kind, KAFKA_VERSION, busy=False)
        killed.worker.doom = Doom(at, before=False)
        with pytest.raises(Killed):
            killed.apply(desired)
        killed.worker.doom, worker = None, killed.worker
        if "a" not in worker.connectors:
            break
        newest = offsets_of(before, change, kind)
        if "b" in worker.connectors and worker.connectors["b"].target is RUNNING:
            newest = [
                replace(each, offset=dict.fromkeys(each.offset or {}, 103)) for each in newest
            ]
            moved = [{"partition": dict(each.partition), "offset": each.offset} for each in newest]
            worker.set_offsets("b", moved)

        def on_run(name: str, worker: FakeWorker = worker, newest: object = newest) -> None:
            found = [OffsetEntry(*each) for each in worker.offsets.get(name, {}).values()]
            assert found == newest, (name, found)

        worker.on_run = on_run
        report = killed.apply(desired_of(before))
        assert report.exit_code == 0, (at, report)
        assert {n: each.target for n, each in worker.connectors.items()} == {"a": RUNNING}
        assert killed.plan(desired_of(before)).actions == ()
    assert at > 8


@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "busy"])
def test_a_stop_by_hand_is_told_from_a_resume_that_never_came(busy: bool) -> None:
    """By the offsets, which moved if it went on; where they did not, the plan says that."""
    alone, desired = begun(SINK["config and pin"], "Sink", KAFKA_VERSION, busy=busy)
    assert alone.apply(desired).exit_code == 0
    alone.worker.connectors["a"].target = STOPPED
    plan = alone.plan(desired)
    told = [each.code for each in plan.warnings if each.code == "plan.unfinished-apply"]
    assert (names(plan), told) == (([], []) if busy else (["Resume a"], ["plan.unfinished-apply"]))


@pytest.mark.parametrize("label", SINK)
def test_a_worker_that_follows_its_leader_late_is_waited_for(label: str) -> None:
    """What was just written is not judged by what a worker said before it."""
    alone, desired = begun(SINK[label], "Sink", KAFKA_VERSION, busy=False)
    alone.worker.lag = 4
    report = alone.apply(desired)
    assert report.exit_code == 0, report
    alone.worker.caught_up()
    check_end(alone, desired, SINK[label], "Sink")


@pytest.mark.parametrize("passed", [True, False], ids=["done all the same", "not done"])
@pytest.mark.parametrize("label", TURNED_AWAY)
def test_a_load_balancer_that_turns_away_any_request_ends_no_apply(
    label: str, passed: bool
) -> None:
    """The trap: one 503 ends the whole apply. What was done counts, the rest is asked once more."""
    alone, desired = begun(SINK[label], "Sink", KAFKA_VERSION, busy=False)
    assert alone.apply(desired).exit_code == 0
    for at in range(1, len(alone.worker.asked) + 1):
        again, desired = begun(SINK[label], "Sink", KAFKA_VERSION, busy=False)
        again.worker.away = {again.worker.changes + at: passed}
        report = again.apply(desired)
        assert report.exit_code == 0, (at, again.worker.asked, report)
        check_end(again, desired, SINK[label], "Sink")


def test_an_apply_whose_update_creates_fails() -> None:
    """Someone deletes it between the read and the write: it must not come back unsaid."""
    before, desired = begun(SINK["config"], "Sink", KAFKA_VERSION, busy=False)
    assert names(before.plan(desired)) == ["UpdateConfig a"]
    alone = Alone(Deleting(connectors=before.worker.connectors))
    report = alone.apply(desired)
    (result,) = report.connectors[0].results
    assert (report.exit_code, result.outcome) == (1, Outcome.FAILED)
    assert "was not there when its config was to be updated" in result.detail
    assert "PUT http://connect.test/connectors/a/config answered 201 Created" in result.detail


@pytest.mark.parametrize("version", [KAFKA_VERSION, "3.7.2"])
def test_a_delete_that_was_killed_is_taken_back(version: str) -> None:
    """A spec that is back finds a connector that only the delete has stopped."""
    back, change = desired_of(spec("a", "Sink")), SINK["delete"]
    alone, gone = begun(change, "Sink", version, busy=False)
    assert alone.apply(gone).exit_code == 0
    for at in range(1, len(alone.worker.asked) + 1):
        killed, gone = begun(change, "Sink", version, busy=False)
        killed.worker.doom = Doom(at, before=False)
        with pytest.raises(Killed):
            killed.apply(gone)
        killed.worker.doom = None
        assert killed.apply(back).exit_code == 0
        assert killed.worker.connectors["a"].target is RUNNING, (at, killed.worker.asked)
        assert killed.plan(back).actions == ()


def test_a_delete_needs_no_note_in_a_config_that_cannot_be_written() -> None:
    alone, gone = begun(SINK["delete"], "Sink", "3.7.2", busy=False)
    alone.worker.connectors["a"].config["password"] = "********"
    assert alone.apply(gone).exit_code == 0
    assert alone.worker.asked == ["PUT /connectors/a/stop", "DELETE /connectors/a"]
