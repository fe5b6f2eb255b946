"""Clusters and specs that an apply is killed in the middle of, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.ledger_records import owned_record
from connect_reconciler.model.live import LogRange
from connect_reconciler.model.offsets import Offsets
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin, TargetState
from connect_specs.diagnostics import Location
from support.applying import Applying, desired_of
from support.fake_cluster import TOPICS, FakeCluster

SOURCE = {"connector.class": "FileStreamSource", "topic": "t", "tasks.max": "1"}
SINK = {"connector.class": "FileStreamSink", "topics": "t", "tasks.max": "1"}
STATES = tuple(TargetState)
# Where a sink stands that is renamed
BEFORE = 5


@dataclass(frozen=True, slots=True)
class Case:
    """One connector: how it is, and what its spec wants. `live` (config, target state, whether it
    is ours) and `spec` may be missing. `guarded`: the ledger protects it. One whose spec renames it
    lives under its old name."""

    name: str
    live: tuple[Mapping[str, str], TargetState, bool] | None
    spec: DesiredConnector | None
    guarded: bool = False

    @property
    def lives_as(self) -> str:
        """Its name before the apply."""
        return (self.spec and self.spec.renamed_from) or self.name


def build(cases: Sequence[Case]) -> tuple[Applying, Desired]:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    world.kafka.ranges["t", 0] = LogRange(0, 100)
    cluster = FakeCluster(world.kafka)
    writer = world.kafka.logs.writer("setup")
    for case in cases:
        if case.live is None:
            continue
        config, target, owned = case.live
        name = case.lives_as
        cluster.create(name, {**config, "name": name}, target)
        if owned:
            record = Owned("orders", {**config, "name": name}, None, prevent_delete=case.guarded)
            writer.write([owned_record(TOPICS.ledger, name, record)])
        if name != case.name and "topics" in config:
            world.kafka.groups[f"connect-{name}"] = {("t", 0): BEFORE}
    return world, desired_of(*(case.spec for case in cases if case.spec is not None))


def expected(case: Case) -> TargetState | None:
    """The target state in the end; None: it is not there."""
    if case.spec is None:
        if case.live is None or case.live[2]:
            return None
        return case.live[1]
    if case.spec.state is not None:
        return case.spec.state
    return case.live[1] if case.live is not None else TargetState.RUNNING


def watched(cluster: FakeCluster, world: Applying, desired: Desired) -> FakeCluster:
    """Asserts on every move and resume what must hold then."""

    def on_alter(name: str) -> None:
        spec = desired.connectors.get(name)
        if spec is None or spec.renamed_from is not None:
            return  # carried from one name to the other
        pin = spec.pin
        assert pin is not None
        assert (name, pin.id) not in world.ledger().pins, "a recorded pin moved offsets again"

    def on_resume(name: str) -> None:
        pin = desired.connectors[name].pin
        assert pin is None or (name, pin.id) in world.ledger().pins, "resumed before the record"

    cluster.on_alter, cluster.on_resume = on_alter, on_resume
    return cluster


def check_renamed(world: Applying, case: Case) -> None:
    """The old name is gone, and its offsets are the new one's."""
    assert case.spec is not None
    assert case.lives_as not in world.observe(desired_of(case.spec)).connectors
    assert f"connect-{case.lives_as}" not in world.kafka.groups
    if "topics" in case.spec.config and case.spec.pin is None:
        assert world.kafka.groups[f"connect-{case.name}"] == {("t", 0): BEFORE}


def check_end(world: Applying, desired: Desired, cases: Sequence[Case]) -> None:
    live = world.observe(desired)
    assert world.plan(desired).actions == ()
    for case in cases:
        found = live.connectors.get(case.name)
        assert (found and found.target) == expected(case), case.name
        if case.lives_as != case.name:
            check_renamed(world, case)
        if case.spec is not None:
            assert found is not None
            assert found.config == {**case.spec.config, "name": case.name}
            owned = live.ledger.connectors[case.name]
            assert owned.restore_to is None or found.target is not TargetState.STOPPED
            assert owned.prevent_delete is case.spec.prevent_delete
            if case.spec.pin is not None and found.target is not TargetState.RUNNING:
                assert found.offsets == Offsets(case.spec.pin.set)


def pins(config: Mapping[str, str]) -> st.SearchStrategy[Pin | None]:
    if "topics" in config:
        entries = (OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7}),)
    else:
        entries = (OffsetEntry({"filename": "f"}, {"position": 7}),)
    return st.sampled_from([None, Pin("p", set=entries), Pin("p", reset=True)])


@st.composite
def case(draw: st.DrawFn, name: str) -> Case:
    base = draw(st.sampled_from([SOURCE, SINK]))
    file = st.sampled_from(["x", "y"])
    live = None
    if draw(st.booleans()):
        live = (
            {**base, "file": draw(file)},
            draw(st.sampled_from(STATES)),
            draw(st.booleans()),
        )
    spec = None
    if live is None or draw(st.booleans()):
        config = {**base, "file": draw(file), "name": name}
        spec = DesiredConnector(
            name=name,
            config=config,
            where=Location("a.yaml", 1, 1),
            state=draw(st.sampled_from([None, *STATES])),
            pin=draw(pins(config)),
            prevent_delete=draw(st.booleans()),
            renamed_from=f"{name}-old" if live and draw(st.integers(0, 3)) == 0 else None,
        )
    guarded = bool(live and live[2] and spec and draw(st.booleans()))
    return Case(name, live, spec, guarded and spec is not None and spec.renamed_from is None)
