"""With `exactly.once.source.support=disabled` nobody can fence a source's task: its successor waits
for the end of the attempt before, and begins once that is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from connect_runtime.herder.verbs import RequestError
from connect_runtime.settings.slots import PAUSED_RELEASE
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry
from support.connectors import SINK, source
from support.launcher import SOURCE_PARTITION, MemoryAttempt
from support.memory_cluster import TOPICS, MemoryCluster, MemoryRuntime
from support.misbehaving import RefusingLogs


def running(tasks: int = 1) -> tuple[MemoryCluster, MemoryRuntime]:
    cluster = MemoryCluster(worker={"exactly.once.source.support": "disabled"})
    runtime = cluster.running(source(tasks=str(tasks)))
    return cluster, runtime


def hang(runtime: MemoryRuntime, number: int = 0) -> MemoryAttempt:
    """As Spark kills, this one dies only after it was reported."""
    attempt = runtime.launcher.live[number]
    attempt.hung = True
    return attempt


def hang_until_killed(runtime: MemoryRuntime, number: int = 0) -> None:
    """The kill is seen to have worked."""
    attempt = hang(runtime, number)
    attempt.kill = attempt.lose  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("verbs", "release"),
    [
        (["stop"], "false"),
        (["stop"], "true"),
        (["pause", "stop"], "false"),
        (["pause", "stop"], "true"),
        (["pause"], "true"),
    ],
)
def test_a_sink_whose_end_is_not_proven_holds_up_nothing(verbs: list[str], release: str) -> None:
    """Its group fences it, also once its connector has no instance that says what it is."""
    worker = {"exactly.once.source.support": "disabled", PAUSED_RELEASE: release}
    cluster = MemoryCluster(worker=worker)
    runtime = cluster.leader()
    config = {"name": "c", "connector.class": SINK, "topics": "t", "tasks.max": "1"}
    runtime.verbs.create("c", config, None)
    cluster.settle()
    attempt = hang(runtime)
    for verb in verbs:
        getattr(runtime.verbs, verb)("c")
    runtime.verbs.restart("c")
    cluster.pass_time(40)
    attempt.hung = attempt.alive
    cluster.pass_time(40)
    found = runtime.verbs.status("c")
    if "stop" in verbs:
        assert (found.connector.state, found.tasks) == (State.STOPPED, {})
    else:
        assert found.tasks[0].state is State.PAUSED


# --- what is known to be dead holds up nothing ---


def test_a_killed_attempt_that_was_seen_to_die_is_followed() -> None:
    cluster, runtime = running()
    hang_until_killed(runtime)
    runtime.verbs.put_config("c", source(note="x"))
    cluster.settle()
    assert len(runtime.launcher.live) == 1
    assert runtime.verbs.status("c").connector.state is State.RUNNING


def test_a_killed_attempt_of_a_task_too_many_holds_up_no_other() -> None:
    cluster, runtime = running(tasks=2)
    hang_until_killed(runtime, 1)
    runtime.verbs.put_config("c", source(tasks="1"))
    cluster.settle()
    assert len(runtime.launcher.live) == 1
    assert len(cluster.status.tasks) == 1


def test_offsets_move_after_a_killed_attempt_was_seen_to_die() -> None:
    cluster, runtime = running()
    hang_until_killed(runtime)
    runtime.verbs.stop("c")
    cluster.settle()
    assert not cluster.status.tasks
    entry = OffsetEntry({SOURCE_PARTITION: 0}, {"position": 9})
    assert "altered" in runtime.verbs.alter_offsets("c", [entry])


def test_a_failed_task_restarts_at_once() -> None:
    cluster, runtime = running(tasks=2)
    runtime.launcher.live[0].fail()
    cluster.settle()
    runtime.verbs.restart_task("c", 0)
    cluster.settle()
    assert runtime.verbs.status("c").tasks[0].state is State.RUNNING


def test_an_attempt_of_a_lost_term_that_was_seen_to_die_is_followed() -> None:
    cluster, runtime = running()
    hang_until_killed(runtime)
    cluster.ballot.elect(runtime.candidate)  # lost, and won again
    cluster.pass_time(120)
    assert len(runtime.launcher.live) == 1
    assert runtime.verbs.status("c").connector.state is State.RUNNING


@pytest.mark.parametrize("end", [lambda orphan: orphan._finish("stop"), MemoryAttempt.fail])
def test_an_attempt_that_reported_its_end_before_the_next_leader_had_slots_is_followed(
    end: Callable[[MemoryAttempt], None],
) -> None:
    """The trap: the reason why the task waits takes the place of the report."""
    cluster, first = running()
    (orphan,) = first.launcher.live
    cluster.runtimes.remove(first)
    orphan.ended = lambda outcome: None
    end(orphan)
    second = cluster.leader(slots=0)
    cluster.pass_time(40)
    found = second.verbs.status("c").tasks[0]
    assert (found.state, found.trace) == (State.UNASSIGNED, "Spark is not running yet.")
    second.launcher.slots = 8
    cluster.settle()
    assert second.verbs.status("c").tasks[0].state is State.RUNNING


# --- what may still write is not followed, whatever else happens ---


def a_change(cluster: MemoryCluster, runtime: MemoryRuntime) -> MemoryRuntime:
    runtime.verbs.put_config("c", source(note="x"))
    return runtime


def deletion(cluster: MemoryCluster, runtime: MemoryRuntime) -> MemoryRuntime:
    runtime.verbs.delete("c")
    cluster.pass_time(40)
    runtime.verbs.create("c", source(), None)
    return runtime


def deletion_and_a_failover(cluster: MemoryCluster, runtime: MemoryRuntime) -> MemoryRuntime:
    runtime.verbs.delete("c")
    cluster.pass_time(40)
    second = cluster.leader()
    second.verbs.create("c", source(), None)
    return second


def an_orderly_end(cluster: MemoryCluster, runtime: MemoryRuntime) -> MemoryRuntime:
    herder = runtime.herder

    def wait() -> None:
        cluster.clock.now += 1

    herder._wait = wait  # type: ignore[method-assign]
    herder._stopping.set()
    herder._drain()
    cluster.runtimes.remove(runtime)
    return cluster.leader()


def a_leader_without_a_launcher(cluster: MemoryCluster, runtime: MemoryRuntime) -> MemoryRuntime:
    between = cluster.runtime()
    between.connect.herder._worker._launcher = None
    cluster.ballot.elect(between.candidate)
    cluster.pass_time(40)
    return cluster.leader()


@pytest.mark.parametrize(
    "happens",
    [
        a_change,
        deletion,
        deletion_and_a_failover,
        an_orderly_end,
        a_leader_without_a_launcher,
    ],
)
def test_an_attempt_that_may_still_write_is_not_followed(
    happens: Callable[[MemoryCluster, MemoryRuntime], MemoryRuntime],
) -> None:
    cluster, runtime = running()
    hung = hang(runtime)
    leader = happens(cluster, runtime)
    cluster.pass_time(40)
    live = [attempt for each in cluster.runtimes for attempt in each.launcher.live]
    assert [attempt for attempt in live if attempt is not hung] == []
    # until somebody who knows says that it is gone
    leader.verbs.restart("c", include_tasks=True)
    cluster.pass_time(40)
    assert leader.verbs.status("c").tasks[0].state is State.RUNNING


def test_an_attempt_that_has_said_nothing_yet_may_still_write() -> None:
    cluster = MemoryCluster(worker={"exactly.once.source.support": "disabled"})
    first = cluster.leader()
    first.verbs.create("c", source(), None)
    while not first.launcher.live:
        first.tick()
        first.calls.run()
    first.launcher.live[0].hung = True
    second = cluster.leader()
    cluster.pass_time(40)
    assert second.launcher.live == []
    second.verbs.stop("c")
    cluster.pass_time(40)
    with pytest.raises(RequestError, match="may still write"):
        second.verbs.reset_offsets("c")


def test_waiting_for_an_attempt_is_said_once() -> None:
    cluster, runtime = running()
    hang(runtime)
    runtime.verbs.put_config("c", source(note="x"))
    cluster.pass_time(40)
    before = cluster.ends()
    for _ in range(60):
        cluster.pass_time(1)
        status = runtime.verbs.status("c").connector
        assert status.state is State.FAILED and "may still write" in (status.trace or "")
    assert cluster.ends() == before


# --- statuses that cannot be written ---


def test_no_attempt_runs_beside_one_that_only_the_assignments_know() -> None:
    """No status was ever written, and the leader that stopped the attempt is gone."""
    logs = RefusingLogs()
    logs.unwritable = lambda record: record.topic == TOPICS.status
    cluster = MemoryCluster(logs, worker={"exactly.once.source.support": "disabled"})
    first = cluster.running(source())
    attempt = hang(first)
    first.verbs.stop("c")
    cluster.pass_time(2)
    assert attempt.alive
    logs.unwritable = lambda record: False
    cluster.runtimes.remove(first)
    second = cluster.leader()
    second.verbs.resume("c")
    cluster.pass_time(40)
    assert not second.launcher.attempts
    found = second.verbs.status("c")
    assert found.connector.state is State.FAILED
    assert "may still write" in (found.connector.trace or "")

    # the user confirms that it is gone
    attempt.alive = False
    second.verbs.restart("c", include_tasks=True)
    cluster.settle()
    assert len(second.launcher.live) == 1


def test_what_ended_is_not_remembered_for_ever() -> None:
    cluster, runtime = running(tasks=2)
    runtime.verbs.stop("c")
    cluster.settle()
    assert not cluster.assignments.ending
    runtime.verbs.resume("c")
    cluster.settle()
    runtime.verbs.delete("c")
    cluster.settle()
    assert not cluster.assignments.ending
    assert not cluster.assignments.tasks
