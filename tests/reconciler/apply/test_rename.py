"""A connector that goes on under another name: its offsets go with it, whenever the apply dies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from connect_reconciler.actions import verb_of
from connect_reconciler.backend.ledger import read_ledger
from connect_reconciler.ledger.topic import LedgerSnapshot, reduce_all
from connect_reconciler.model.ledger import AppliedPin, Owned, Renaming
from connect_reconciler.model.ledger_records import owned_record, pin_record, rename_record
from connect_reconciler.model.live import LogRange
from connect_runtime.herder.verbs import RequestError
from connect_runtime.storage.offsets_topic import offset_records
from connect_specs.desired import (
    Desired,
    DesiredConnector,
    OffsetEntry,
    Pin,
    TargetState,
    content_hash,
)
from connect_specs.diagnostics import ExitCode, Location
from connect_specs.names import sink_group
from support.applying import Applying, desired_of, names
from support.dooming import Doom
from support.fake_cluster import TOPICS, FakeCluster, refused

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
SOURCE = {"connector.class": "FileStreamSource", "topic": "t", "tasks.max": "1"}
SINK = {"connector.class": "FileStreamSink", "topics": "t", "tasks.max": "1"}
SHARED = {**SINK, "consumer.override.group.id": "mine"}


def at(offset: int) -> OffsetEntry:
    return OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": offset})


def line(file: str, position: int | None) -> OffsetEntry:
    return OffsetEntry({"filename": file}, None if position is None else {"position": position})


@dataclass(frozen=True)
class Case:
    """What is renamed, from which target state, and where its offsets are to be in the end."""

    config: Mapping[str, str]
    before: tuple[OffsetEntry, ...]
    target: TargetState = RUNNING
    state: TargetState | None = None
    goal: TargetState = RUNNING
    owned: bool = True
    pin: Pin | None = None
    after: tuple[OffsetEntry, ...] | None = None
    change: Mapping[str, str] | None = None
    left: tuple[OffsetEntry, ...] = ()

    @property
    def spec(self) -> DesiredConnector:
        config = {**self.config, **(self.change or {}), "name": "new"}
        where = Location("new.yaml", 1, 1)
        return DesiredConnector("new", config, where, self.state, self.pin, renamed_from="old")


CASES = {
    "sink": Case(SINK, (at(5),)),
    "sink of nobody": Case(SINK, (at(5),), owned=False),
    "sink in a group of its own name": Case(SHARED, (at(5),)),
    "sink without offsets": Case(SINK, ()),
    "sink over an older one": Case(SINK, (), left=(at(9),)),
    "source": Case(SOURCE, (line("f", 5), line("g/h", 8))),
    "source over an older one": Case(SOURCE, (line("f", 5),), left=(line("f", 1), line("x", 2))),
    "paused": Case(SOURCE, (line("f", 5),), PAUSED, goal=PAUSED),
    "stopped": Case(SOURCE, (line("f", 5),), STOPPED, goal=STOPPED),
    "stopped by its spec": Case(SINK, (at(5),), state=STOPPED, goal=STOPPED),
    "config and state too": Case(
        SINK, (at(5),), state=PAUSED, goal=PAUSED, change={"tasks.max": "4", "file": "z"}
    ),
    "with a pin": Case(SINK, (at(5),), pin=Pin("p", (at(3),)), after=(at(3),)),
    "with a reset": Case(SOURCE, (line("f", 5),), pin=Pin("p", reset=True), after=()),
}


def build(case: Case) -> tuple[Applying, Desired]:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    world.kafka.ranges["t", 0] = LogRange(0, 100)
    cluster = FakeCluster(world.kafka)
    if case.left:
        cluster.create("new", {**case.config, "name": "new"}, STOPPED)
        cluster.alter_offsets("new", case.left)
        cluster.delete("new")
    config = {**case.config, "name": "old"}
    cluster.create("old", config, STOPPED)
    if case.before:
        cluster.alter_offsets("old", case.before)
    if case.target is RUNNING:
        cluster.set_target("old", TargetState.RUNNING)
    elif case.target is PAUSED:
        cluster.set_target("old", TargetState.PAUSED)
    if case.owned:
        record = owned_record(TOPICS.ledger, "old", Owned("orders", config, None))
        world.kafka.logs.writer("setup").write([record])
    return world, desired_of(case.spec)


def watched(cluster: FakeCluster, case: Case) -> FakeCluster:
    """The new name never runs without its offsets, nor the old one again."""

    def on_resume(name: str) -> None:
        assert name == "new"
        assert offsets(cluster, name) == wanted(case)

    cluster.on_resume = on_resume
    return cluster


def offsets(cluster: FakeCluster, name: str) -> set[str]:
    return {repr(entry) for entry in cluster.offsets(name) if entry.offset is not None}


def wanted(case: Case) -> set[str]:
    return {repr(entry) for entry in (case.before if case.after is None else case.after)}


def check_end(world: Applying, case: Case) -> None:
    desired = desired_of(case.spec)
    live, cluster = world.observe(desired), FakeCluster(world.kafka)
    assert set(live.connectors) == {"new"}
    assert live.connectors["new"].target is case.goal
    assert live.connectors["new"].config == case.spec.config
    assert offsets(cluster, "new") == wanted(case)
    # A later connector of the old name begins anew
    cluster.create("old", {**case.config, "name": "old"}, STOPPED)
    if "consumer.override.group.id" not in case.config:
        assert offsets(cluster, "old") == set()
    cluster.delete("old")
    assert set(live.ledger.connectors) == {"new"}
    assert {pin for _, pin in live.ledger.pins} == ({case.pin.id} if case.pin else set())
    assert live.ledger.renames == {}
    assert world.plan(desired).empty
    without = desired_of(replace(case.spec, renamed_from=None))
    assert world.plan(without).empty


@pytest.mark.parametrize("name", CASES)
def test_one_apply_moves_it(name: str) -> None:
    case = CASES[name]
    world, desired = build(case)
    report = world.apply(desired, cluster=watched(FakeCluster(world.kafka), case))
    assert report.exit_code == 0, report
    check_end(world, case)
    steps = read_ledger(world.kafka.logs, TOPICS.ledger).steps(report.apply_id)
    actions = [result.action for result in report.connectors[0].results]
    assert [verb_of(step.action) for step in steps] == [action.imperative for action in actions]


def test_the_journal_names_its_steps_as_earlier_versions_do() -> None:
    """Else their rollback of it would reset the offsets of the new name."""
    world, desired = build(CASES["sink"])
    report = world.apply(desired, cluster=FakeCluster(world.kafka))
    steps = read_ledger(world.kafka.logs, TOPICS.ledger).steps(report.apply_id)
    names = "StopOld Create CarryOffsets Resume DeleteOld"
    assert " ".join(step.action for step in steps) == names


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(True, id="before its effect", marks=pytest.mark.long),
        pytest.param(False, id="after its effect"),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_killed_at_any_call_it_converges(name: str, before: bool) -> None:
    case = CASES[name]
    last = 1
    while killed(case, last, before=before):
        last += 1
    assert last > 10


def killed(case: Case, at: int, *, before: bool) -> bool:
    """Whether there was such a call. A second apply then ends the rename."""
    world, desired = build(case)
    if not world.killed(desired, Doom(at, before), watch=lambda cluster: watched(cluster, case)):
        return False
    report = world.apply(desired, cluster=watched(FakeCluster(world.kafka), case))
    assert report.exit_code == 0, report
    check_end(world, case)
    return True


REVERTED = ("sink", "source", "sink in a group of its own name", "paused", "stopped")


@pytest.mark.parametrize("before", [True, False], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("name", REVERTED)
def test_killed_at_any_call_and_reverted_nothing_is_repeated(name: str, before: bool) -> None:
    """The trap: the old name has lost its offsets, or the new one has gone on from them, when the
    spec is put back as it was."""
    case, at_call = CASES[name], 1
    while (world := killed_and_run(case, at_call, before=before)) is not None:
        check_reverted(world, case)
        at_call += 1
    assert at_call > 10


@pytest.mark.long
@pytest.mark.parametrize("name", ["sink", "source"])
def test_a_revert_that_is_killed_at_any_call_repeats_nothing(name: str) -> None:
    case, at_call, kills = CASES[name], 1, 0
    while killed_and_run(case, at_call, before=False) is not None:
        again = 1
        while True:
            world = killed_and_run(case, at_call, before=False)
            assert world is not None
            expected = newest(world)
            if not world.killed(desired_of(reverted(case)), Doom(again, before=False)):
                break
            check_reverted(world, case, expected)
            again, kills = again + 1, kills + 1
        at_call += 1
    assert kills > 100


def reverted(case: Case) -> DesiredConnector:
    config = {**case.config, "name": "old"}
    return DesiredConnector("old", config, Location("old.yaml", 1, 1), case.state)


def killed_and_run(case: Case, at_call: int, *, before: bool) -> Applying | None:
    """The world after a kill at that call, in which the new name has gone on if it runs; None
    where there was no such call."""
    world, desired = build(case)
    if not world.killed(desired, Doom(at_call, before)):
        return None
    live = world.observe(desired).connectors
    if "old" not in live and not world.ledger().carried_to("old"):
        # Nothing tells any more that it was renamed
        return None
    if "new" in live and live["new"].target is RUNNING:
        go_on(world, "new")
    return world


def go_on(world: Applying, name: str) -> None:
    """What the connector would commit if it processed some data."""
    fake = FakeCluster(world.kafka)
    for entry in fake.offsets(name):
        if "kafka_topic" in entry.partition:
            config = fake.config(name)
            assert config is not None
            world.kafka.groups[sink_group(name, config)]["t", 0] += 3
        else:
            assert entry.offset is not None
            moved = [(entry.partition, {"position": int(str(entry.offset["position"])) + 3})]
            records = offset_records(TOPICS.offsets, name, moved, fake._offsets())
            world.kafka.logs.writer("task").write(records)


def newest(world: Applying) -> set[str]:
    """The offsets of whichever of the two names got further."""
    fake, live = FakeCluster(world.kafka), world.ledger()
    name = "new" if live.carried_to("old") else "old"
    if any(each.stage == "carried" for each in live.renames_of("old").values()):
        name = "old"
    return offsets(fake, name)


def check_reverted(world: Applying, case: Case, expected: set[str] | None = None) -> None:
    expected = newest(world) if expected is None else expected
    desired, cluster = desired_of(reverted(case)), FakeCluster(world.kafka)

    def on_resume(name: str) -> None:
        assert name == "old"
        assert offsets(cluster, name) == expected

    cluster.on_resume = on_resume
    report = world.apply(desired, cluster=cluster)
    assert report.exit_code == 0, report
    live = world.observe(desired)
    assert set(live.connectors) == set(live.ledger.connectors) == {"old"}
    assert live.connectors["old"].target is case.goal
    assert offsets(cluster, "old") == expected
    assert live.ledger.renames == {}
    assert world.plan(desired).empty


@pytest.mark.parametrize("name", ["sink", "source", "with a pin"])
def test_a_rename_that_an_earlier_version_began_converges(name: str) -> None:
    """It recorded the rename as a pin; once it is done nothing of that is left."""
    case = CASES[name]
    stages = set()
    for at_call in range(1, 100):
        world, desired = build(case)
        if not world.killed(desired, Doom(at_call, before=False)):
            break
        stages |= as_earlier_versions_recorded(world)
        report = world.apply(desired, cluster=watched(FakeCluster(world.kafka), case))
        assert report.exit_code == 0, report
        check_end(world, case)
        assert kept_for_ever(world) == {}
    assert stages == {"begun", "carried"}


def as_earlier_versions_recorded(world: Applying) -> set[str]:
    """Puts a pin in place of each record of a rename, and tells the stages."""
    found = world.ledger().renames
    records = []
    for (name, old), each in found.items():
        pin = AppliedPin(each.stage, (), each.applied_ms, each.held)
        records += [
            rename_record(TOPICS.ledger, name, old, None),
            pin_record(TOPICS.ledger, name, f"renamed_from:{old}", pin),
        ]
    world.kafka.logs.writer("earlier").write(records)
    assert world.ledger().renames.keys() == found.keys()
    return {each.stage for each in found.values()}


def kept_for_ever(world: Applying) -> Mapping[tuple[str, str], Renaming]:
    """The renames in what Kafka keeps: the last record of each key, without removals."""
    last = {each.key: each for each in world.kafka.records(TOPICS.ledger)}
    kept = [each for each in last.values() if each.value is not None]
    return reduce_all(LedgerSnapshot(), kept).state.renames


def test_what_moved_since_the_plan_is_carried() -> None:
    case = CASES["sink"]
    world, desired = build(case)
    plan = world.plan(desired)
    world.kafka.groups["connect-old"]["t", 0] = 42
    assert world.apply(desired, plan).exit_code == 0
    assert world.kafka.groups == {"connect-new": {("t", 0): 42}}


def test_a_rename_that_goes_on_resumes_nothing_before_the_offsets_have_moved() -> None:
    world, desired = build(CASES["sink"])
    cluster = FakeCluster(world.kafka)

    def busy(name: str) -> None:
        raise refused("its tasks haven't stopped completely yet")

    cluster.on_alter = busy
    for _ in range(2):
        assert world.apply(desired, cluster=cluster).exit_code is ExitCode.FAILED
        assert world.observe(desired).connectors["new"].target is STOPPED
    assert world.apply(desired).exit_code is ExitCode.OK
    assert set(world.observe(desired).connectors) == {"new"}


def test_a_pin_of_the_old_name_counts() -> None:
    """The file was renamed with its pin in it: that pin was applied, however far it went since."""
    pin = Pin("p", (at(3),))
    case = Case(SINK, (at(50),), pin=pin, after=(at(50),))
    world, desired = build(case)
    record = pin_record(TOPICS.ledger, "old", "p", AppliedPin(content_hash(pin), pin.set))
    world.kafka.logs.writer("setup").write([record])
    assert world.apply(desired, cluster=watched(FakeCluster(world.kafka), case)).exit_code == 0
    check_end(world, case)


def test_offsets_that_did_not_arrive_are_noticed() -> None:
    case = CASES["sink"]
    world, desired = build(case)
    cluster = FakeCluster(world.kafka)
    alter = cluster.alter_offsets
    cluster.alter_offsets = lambda name, entries: (  # type: ignore[method-assign]
        "altered" if name == "new" else alter(name, entries)
    )
    report = world.apply(desired, cluster=cluster)
    assert report.exit_code is ExitCode.FAILED
    assert "the offsets of new are not those that old has" in str(report)
    live = world.observe(desired)
    assert {name: each.target for name, each in live.connectors.items()} == {
        "old": STOPPED,
        "new": STOPPED,
    }
    assert world.apply(desired).exit_code == 0
    check_end(world, case)


def test_a_refused_create_leaves_the_old_one_to_the_next_apply() -> None:
    case = CASES["source"]
    world, desired = build(case)
    cluster = FakeCluster(world.kafka)

    def refuse(*_: object) -> None:
        raise RequestError(400, "the file is not there")

    cluster.create = refuse  # type: ignore[method-assign]
    report = world.apply(desired, cluster=cluster)
    assert report.exit_code is ExitCode.FAILED
    assert report.connectors[0].left == (
        "it is not there; old, which is renamed to it: stopped; the next apply goes on with the"
        " rename, or brings old back to running if its spec replaces that of new"
    )
    assert world.observe(desired).connectors["old"].target is STOPPED
    back = replace(case.spec, name="old", config={**SOURCE, "name": "old"}, renamed_from=None)
    assert names(world.plan(desired_of(back))) == ["Forget new", "Resume old"]
    assert world.apply(desired).exit_code == 0
    check_end(world, case)


def test_a_source_that_refuses_its_offsets_can_be_given_up() -> None:
    """Both names are stopped then, and the report says what brings which back."""
    case = CASES["source"]
    world, desired = build(case)
    cluster = FakeCluster(world.kafka)

    def throws(name: str) -> None:
        raise RequestError(500, "offsets of this connector cannot be altered")

    cluster.on_alter = throws
    (report,) = world.apply(desired, cluster=cluster).connectors
    assert report.left == (
        "stopped; the next apply brings it back to running; old, which is renamed to it: stopped;"
        " the next apply goes on with the rename, or brings old back to running if its spec"
        " replaces that of new"
    )
    back = replace(case.spec, name="old", config={**SOURCE, "name": "old"}, renamed_from=None)
    assert names(world.plan(desired_of(back))) == ["Delete new", "Resume old"]
    assert world.apply(desired_of(back)).exit_code == 0
    assert world.observe(desired_of(back)).connectors["old"].target is RUNNING


def test_the_group_is_left_to_others_that_read_with_it() -> None:
    case = Case(SHARED, (at(5),), change={"consumer.override.group.id": "own"})
    world, desired = build(case)
    FakeCluster(world.kafka).create("third", {**SHARED, "name": "third"}, STOPPED)
    assert world.apply(desired).exit_code == 0
    assert world.kafka.groups == {"mine": {("t", 0): 5}, "own": {("t", 0): 5}}
    assert sink_group("new", case.spec.config) == "own"


def test_an_ignored_secret_moves_from_the_old_name_and_is_told_nowhere() -> None:
    case = Case({**SOURCE, "db.password": "hunter2"}, (line("f", 5),), owned=False)
    world, _ = build(case)
    spec = replace(case.spec, config={**SOURCE, "name": "new"}, ignore=("config.db.*",))
    desired = desired_of(spec)
    plan = world.plan(desired)
    assert "hunter2" not in repr(plan)
    assert world.apply(desired, plan).exit_code == 0
    assert FakeCluster(world.kafka).config("new") == case.spec.config
    ledger = world.kafka.records(TOPICS.ledger)
    assert not [each for each in ledger if b"hunter" in (each.value or b"")]
    assert world.plan(desired).empty


def test_what_only_the_new_spec_calls_sensitive_is_so_under_the_old_name() -> None:
    case = Case({**SOURCE, "my.key": "hunter2"}, (line("f", 5),), owned=False)
    world, _ = build(case)
    assert world.apply(desired_of(replace(case.spec, sensitive=("my.*",)))).exit_code == 0
    ledger = world.kafka.records(TOPICS.ledger)
    assert not [each for each in ledger if b"hunter" in (each.value or b"")]


def test_a_secret_of_the_old_name_is_not_in_an_error() -> None:
    case = Case({**SOURCE, "db.password": "hunter2"}, (line("f", 5),))
    world, _ = build(case)
    spec = replace(case.spec, config={**SOURCE, "db.password": "hunter3", "name": "new"})
    cluster = FakeCluster(world.kafka)

    def refuse(*_: object) -> str:
        raise RequestError(500, "cannot log in with hunter2 nor hunter3")

    cluster.reset_offsets = refuse  # type: ignore[method-assign]
    report = world.apply(desired_of(spec), cluster=cluster)
    assert report.exit_code is ExitCode.FAILED
    assert "cannot log in with" in str(report)
    assert "hunter" not in str(report)
