"""SIGKILL of the runtime under load, at moments that are observed with all its processes frozen.

Each test leaves the runtime as `up` brought it back, and the next one kills that.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.lines import Account, Feeder, account, last_number, once
from support.processes import frozen, kill
from support.rig import TRANSFORMED, Ends, Rig, Tail, Up, committed_lines, count_of, lines_of
from support.wait import wait_until

LINES = 20_000
RECOVERY_S = 60.0
# A killed sink's place in its group is kept for 6 s here, and for 10 s by default.
SINK_S = 60.0

Record = Callable[[str, object], None]
RUNNING = ("RUNNING", ["RUNNING"])


@dataclass(slots=True)
class Load:
    """A growing file, its source, and a sink of what the source writes."""

    rig: Rig
    up: Up
    source: str
    sink: str
    infile: Path
    outfile: Path
    ends: Ends
    feeder: Feeder

    def gate(self, kind: str, state: str = "running") -> Path:
        """Has a source of `support.gated` in place of the plain one; returns its gate."""
        gate = self.rig.folder / f"{self.source}.gate"
        config = {"connector.class": f"support.gated.{kind}", "gate": str(gate)}
        self.rig.source(self.source, state, **config)
        return gate

    def start(self) -> None:
        """Applies the specs and returns when both connectors have moved lines."""
        self.rig.apply()
        wait_until(lambda: count_of(self.outfile) > 0, what="the first lines in the sink's file")

    def kill_when(self, holds: Callable[[], bool], *, tree: bool) -> float:
        """SIGKILL while `holds` is true of the frozen runtime: to all its processes, or to the
        Python driver alone. Returns when."""
        wait_until(
            lambda: self.kill_if(holds, tree=tree), what="the moment to kill at", every_s=0.001
        )
        return time.monotonic()

    def kill_if(self, holds: Callable[[], bool], *, tree: bool) -> bool:
        """The same, once; whether it held."""
        if not holds():
            return False
        with frozen(self.up.processes):
            held = holds()
            if held:
                self.feeder.stop()
                alive = self.up.processes
                kill(*(alive if tree else alive[:1]))
        return held

    def recover(self, killed: float, record: Record, *names: str) -> None:
        """`up` again, and all tasks of `names` run again within a bounded time."""
        status = Tail(self.up.kafka, self.rig.topics.status)
        try:
            self.up = self.rig.up()
            for name in names or (self.source, self.sink):
                status.wait_until_runs(name, timeout_s=RECOVERY_S)
        finally:
            status.close()
        record("running_again_after_s", round(time.monotonic() - killed, 1))

    def account(self, *, torn: int) -> None:
        """Ends the load and holds topic and file against it."""
        before = count_of(self.outfile)
        last = self.feeder.finish(LINES)
        wait_until(
            lambda: count_of(self.outfile) > before,
            what="the sink to go on",
            timeout_s=SINK_S,
        )
        wait_until(
            lambda: last_number(self.outfile) == last,
            what=f"line {last} in the sink's file",
            timeout_s=90,
            every_s=0.2,
        )
        found = account(committed_lines(self.up.kafka, self.source), once(last))
        assert found == Account(found=last, lost=0, duplicated=0, torn=0, extra=0)
        delivered = account(lines_of(self.outfile), once(last))
        assert (delivered.lost, delivered.extra) == (0, 0), delivered
        assert delivered.torn <= torn, delivered


@pytest.fixture
def load(rig: Rig, unique: str) -> Iterator[Load]:
    """A load on the living runtime, which nobody else uses."""
    rig.no_specs()
    up = rig.running or rig.up()
    source, sink = f"{unique}-in", f"{unique}-out"
    infile = rig.source(source)
    outfile = rig.sink(sink, source)
    with Feeder(infile) as feeder:
        yield Load(rig, up, source, sink, infile, outfile, Ends(up.kafka), feeder)


TREE = pytest.mark.parametrize("tree", [False, True], ids=["driver", "tree"])


@pytest.mark.long
@TREE
def test_inside_an_open_transaction(load: Load, tree: bool, record_property: Record) -> None:
    """Of a source with transformations and an offsets topic of its own."""
    own_offsets = {"offsets.storage.topic": f"{load.source}-offsets"}
    load.rig.source(load.source, **own_offsets, **TRANSFORMED)
    load.start()

    def transaction_is_open() -> bool:
        end = load.ends.high(load.source)
        return 0 < load.ends.stable(load.source) < end

    killed = load.kill_when(transaction_is_open, tree=tree)
    load.recover(killed, record_property)
    load.account(torn=1)
    load.rig.assert_nothing_to_do()
    assert load.rig.states() == {load.source: RUNNING, load.sink: RUNNING}


@pytest.mark.long
@TREE
def test_while_the_sink_writes(load: Load, tree: bool, record_property: Record) -> None:
    load.start()

    def wrote_more_than_it_committed() -> bool:
        committed = load.ends.committed(f"connect-{load.sink}", load.source)
        return 0 < committed < count_of(load.outfile)

    killed = load.kill_when(wrote_more_than_it_committed, tree=tree)
    load.recover(killed, record_property)
    load.account(torn=1)
    load.rig.assert_nothing_to_do()
    assert load.rig.states() == {load.source: RUNNING, load.sink: RUNNING}


@pytest.mark.long
@TREE
def test_during_a_stop(load: Load, tree: bool, record_property: Record) -> None:
    """The target state is in the topic, the task's end is not."""
    gate = load.gate("SlowToStop")
    load.start()
    config = Tail(load.up.kafka, load.rig.topics.config)
    status = Tail(load.up.kafka, load.rig.topics.status)
    load.gate("SlowToStop", state="stopped")
    apply = load.rig.start("apply", "--yes")
    config.wait_for(f"target-state-{load.source}")
    gone = (f"status-task-{load.source}-0".encode(), None)
    assert load.kill_if(lambda: gone not in status.seen(), tree=tree)
    killed = time.monotonic()
    config.close()
    status.close()
    _, told = apply.communicate(timeout=60)
    assert apply.returncode != 0, told
    gate.touch()
    load.recover(killed, record_property, load.sink)
    load.rig.apply()
    assert load.rig.states() == {load.source: ("STOPPED", []), load.sink: RUNNING}
    load.rig.assert_nothing_to_do()

    load.gate("SlowToStop")
    load.rig.apply()
    load.account(torn=1)
    load.rig.assert_nothing_to_do()


@pytest.mark.long
def test_right_after_a_create(load: Load, record_property: Record) -> None:
    """The connector's config is in the topic, and no attempt at its tasks."""
    config = Tail(load.up.kafka, load.rig.topics.config)
    assignments = Tail(load.up.kafka, load.rig.topics.assignments)
    gate = load.gate("SlowToStart")
    # What the tests before left goes with it; nobody is there to make its tasks run.
    apply = load.rig.start("apply", "--yes", "--allow-empty", "--health-timeout", "20")
    config.wait_for(f"connector-{load.source}")

    def is_not_launched() -> bool:
        return not any(load.source.encode() in key for key, _ in assignments.seen())

    assert load.kill_if(is_not_launched, tree=True)
    killed = time.monotonic()
    config.close()
    assignments.close()
    shown, told = apply.communicate(timeout=60)
    assert apply.returncode != 0, shown + told
    gate.touch()
    load.recover(killed, record_property, load.source)
    load.rig.apply()
    load.account(torn=0)
    load.rig.assert_nothing_to_do()
    assert load.rig.states() == {load.source: RUNNING, load.sink: RUNNING}
