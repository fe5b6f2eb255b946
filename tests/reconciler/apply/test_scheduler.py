"""Several connectors at a time: which may be under way together, and what ends them all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from connect_reconciler.apply.context import NewStarts
from connect_reconciler.apply.report import Outcome
from connect_reconciler.apply.scheduler import run_jobs
from connect_reconciler.backend.ledger import Ledger
from connect_reconciler.model.live import LogRange
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin, TargetState
from connect_specs.diagnostics import Diagnostic, ExitCode, Failed, Location
from support.applying import Applying, desired_of
from support.fake_cluster import GROUP_ID, TOPICS, FakeCluster, refused

SINK = {"connector.class": "FileStreamSink", "topics": "t"}
PIN = Pin("p", (OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7}),))
_WRITES = ("create", "update_config", "set_target", "delete", "alter_offsets")


def spec(name: str, state: TargetState | None = None, **more: str) -> DesiredConnector:
    where = Location(f"{name}.yaml", 1, 1)
    pin = PIN if name.startswith("pinned") else None
    return DesiredConnector(name, {**SINK, **more, "name": name}, where, state, pin)


class Watched(FakeCluster):
    """Tells of each request when it begins and ends; requests meet where `meet` says so."""

    def __init__(self, world: Applying) -> None:
        super().__init__(world.kafka)
        self.told: list[tuple[str, str, str]] = []
        self.meet: Callable[[str, str], None] = lambda verb, name: None
        self._one = threading.Lock()

    def __getattribute__(self, verb: str) -> object:
        found = super().__getattribute__(verb)
        if verb not in _WRITES:
            return found

        def asked(name: str, *rest: object) -> object:
            what = str(rest[0]) if verb == "set_target" else verb
            self.told.append(("begin", what, name))
            self.meet(what, name)
            with self._one:
                answer = found(name, *rest)
            self.told.append(("end", what, name))
            return answer

        return asked


@pytest.fixture
def world() -> Applying:
    made = Applying(key=b"key", parallelism=8)
    made.kafka.create_topics()
    made.kafka.ranges["t", 0] = LogRange(0, 100)
    return made


LIVE = desired_of(
    *(spec(f"gone{n}") for n in range(3)),
    *(spec(f"paused{n}") for n in range(3)),
    *(spec(f"pinned{n}") for n in range(3)),
    *(spec(f"changed{n}") for n in range(3)),
)
WANTED = desired_of(
    *(spec(f"paused{n}", TargetState.PAUSED) for n in range(3)),
    *(spec(f"changed{n}", file="x") for n in range(3)),
    *(spec(f"pinned{n}") for n in range(3)),
    *(spec(f"new{n}") for n in range(3)),
)
RANKS = {"gone": 0, "paused": 1, "changed": 2, "pinned": 2, "new": 3}


def live(world: Applying) -> None:
    """All of LIVE is there, and ours."""
    bare = Desired(
        "orders",
        {
            name: DesiredConnector(name, each.config, each.where)
            for name, each in LIVE.connectors.items()
        },
    )
    assert world.apply(bare).exit_code == 0


def rank(name: str) -> int:
    return RANKS[name.rstrip("0123456789")]


def test_ranks_are_barriers_and_peers_are_under_way_together(world: Applying) -> None:
    live(world)
    cluster = Watched(world)
    # nobody's first request is answered before all three peers have asked theirs
    together = {kind: threading.Barrier(3) for kind in ("gone", "paused", "new")}
    met: set[str] = set()

    def meet(verb: str, name: str) -> None:
        kind = name.rstrip("0123456789")
        if kind in together and name not in met:
            met.add(name)
            together[kind].wait(20)

    cluster.meet = meet
    report = world.apply(WANTED, cluster=cluster)
    assert report.exit_code == 0, report
    ranks = [rank(name) for _, _, name in cluster.told]
    assert ranks == sorted(ranks)
    for name in WANTED.connectors:
        of_one = [(when, verb) for when, verb, who in cluster.told if who == name]
        assert [when for when, _ in of_one] == ["begin", "end"] * (len(of_one) // 2)
    verbs = [verb for when, verb, who in cluster.told if who == "pinned0" and when == "begin"]
    assert verbs == ["stopped", "alter_offsets", "running"]
    assert [each.name for each in report.connectors] == sorted(
        [*WANTED.connectors, *(f"gone{n}" for n in range(3))], key=lambda name: (rank(name), name)
    )
    assert world.plan(WANTED).actions == ()


@pytest.mark.parametrize("fail_fast", [True, False])
def test_one_failure_ends_the_others_only_if_that_is_wanted(
    world: Applying, fail_fast: bool
) -> None:
    world.parallelism, world.fail_fast = 1, fail_fast
    cluster = Watched(world)

    def meet(verb: str, name: str) -> None:
        if name == "new1":
            raise refused("no", 400)

    cluster.meet = meet
    report = world.apply(desired_of(*(spec(f"new{n}") for n in range(4))), cluster=cluster)
    rest = Outcome.SKIPPED if fail_fast else Outcome.DONE
    outcomes = [each.results[0].outcome for each in report.connectors]
    assert outcomes == [Outcome.DONE, Outcome.FAILED, rest, rest]
    assert report.exit_code is ExitCode.FAILED


def test_a_ledger_that_is_taken_over_ends_all_that_is_under_way(world: Applying) -> None:
    """Each does at most the action in flight."""
    live(world)
    cluster = Watched(world)
    barrier = threading.Barrier(3)
    taken = threading.Event()

    def meet(verb: str, name: str) -> None:
        if verb == "alter_offsets":
            if barrier.wait(20) == 0:
                Ledger.open(world.kafka.logs, TOPICS.ledger, GROUP_ID).close()
                taken.set()
            assert taken.wait(20)

    cluster.meet = meet
    report = world.apply(WANTED, cluster=cluster)
    assert report.ended_by[0].code == "apply.taken-over"
    after = cluster.told[[verb for _, verb, _ in cluster.told].index("alter_offsets") :]
    begun = [(verb, name) for when, verb, name in after if when == "begin"]
    assert {name for verb, name in begun if verb == "alter_offsets"} == {
        f"pinned{n}" for n in range(3)
    }
    assert not [name for verb, name in begun if verb in ("running", "create")]
    world.apply(WANTED)
    assert world.plan(WANTED).actions == ()


@pytest.mark.parametrize("parallelism", [1, 8])
def test_interrupted_twice_it_reports_what_is_known_by_then(
    world: Applying, parallelism: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in flight is not waited for: it is unknown, and the next apply looks."""
    world.parallelism = parallelism
    cluster = Watched(world)
    hangs, goes_on = threading.Event(), threading.Event()

    def meet(verb: str, name: str) -> None:
        if name == "new1":
            hangs.set()
            if parallelism == 1:
                raise KeyboardInterrupt
            goes_on.wait(20)

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        # The main thread waits here when the second Ctrl-C comes
        if thread.name.startswith("apply-") and hangs.wait(20):
            raise KeyboardInterrupt
        joins(thread, timeout)

    joins = threading.Thread.join
    monkeypatch.setattr(threading.Thread, "join", join)
    cluster.meet = meet
    wanted = desired_of(*(spec(f"{kind}") for kind in ("new0", "new1")), spec("pinned0"))
    report = world.apply(wanted, cluster=cluster)
    goes_on.set()
    assert (report.exit_code, report.interrupted) == (ExitCode.INTERRUPTED, True)
    outcomes = {each.name: each.results[0] for each in report.connectors}
    assert outcomes["new1"].outcome is Outcome.UNKNOWN
    assert outcomes["new1"].detail == "interrupted while it was under way"
    if parallelism == 1:
        assert outcomes["new0"].outcome is Outcome.DONE
        assert [each.outcome for each in report.connectors[-1].results] == [Outcome.SKIPPED] * 3
    (unfinished,) = world.ledger().unfinished
    assert "new1" in {step.connector for step in unfinished.steps}


CASES = {
    "nothing happened": ((), False, ""),
    "a failure elsewhere": (("failed",), False, "another connector failed before"),
    "a failure elsewhere, and it is under way": (("failed",), True, ""),
    "it ended": (("ended",), True, "the apply ended before"),
    "it ended and is interrupted": (("ended", "stop"), False, "the apply ended before"),
    "interrupted": (("stop",), True, "interrupted"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_may_start(case: str) -> None:
    happened, begun, expected = CASES[case]
    starts = NewStarts(lambda: "stop" in happened, fail_fast=True)
    if "failed" in happened:
        starts.connector_failed()
    if "ended" in happened:
        starts.end(Failed(Diagnostic("first", "first")))
        starts.end(Failed(Diagnostic("second", "second")))
        assert str(starts.ended_by) == "first"
    assert starts.skip_reason(in_progress=begun) == expected


def test_what_a_job_raises_is_raised_when_the_others_have_ended() -> None:
    ended: list[int] = []
    both = threading.Barrier(2)

    def job(number: int) -> None:
        if number < 2:
            both.wait(20)
        if number == 0:
            raise KeyboardInterrupt
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        run_jobs([partial(job, number) for number in range(2)], 2)
    assert ended == [1]
    with pytest.raises(KeyboardInterrupt):
        run_jobs([both.abort, partial(job, 2), _interrupted, partial(job, 3)], 1)
    assert ended == [1, 2]


def _interrupted() -> None:
    raise KeyboardInterrupt
