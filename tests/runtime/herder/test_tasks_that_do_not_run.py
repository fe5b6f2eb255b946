"""What is shown of tasks that do not run, or of which the leader cannot know whether they do.

An attempt that has ended, or that was never launched, is UNASSIGNED with the reason within 15 s.
One of an earlier leader that may still deliver keeps its state, and says since when nobody confirms
it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_runtime.herder.verbs import InstanceStatus
from connect_runtime.storage.snapshots import State
from support.connectors import SINK, SOURCE
from support.launcher import MemoryAttempt
from support.memory_cluster import GROUP_ID, Later, MemoryCluster, MemoryRuntime
from support.misbehaving import RefusingLogs

WITHIN_S = 15
DISABLED = {"exactly.once.source.support": "disabled"}


def source(tasks: int = 1, **more: str) -> dict[str, str]:
    return {"name": "c", "connector.class": SOURCE, "tasks.max": "3", "tasks": str(tasks), **more}


def sink(**more: str) -> dict[str, str]:
    return {"name": "c", "connector.class": SINK, "tasks.max": "1", "topics": "t", **more}


def task(runtime: MemoryRuntime, number: int = 0) -> InstanceStatus:
    return runtime.verbs.status("c").tasks[number]


def without_slots(cluster: MemoryCluster) -> MemoryRuntime:
    """The next leader, whose Spark has no executors yet; the one before is gone, and its tasks go
    on where they run."""
    first = cluster.runtimes.pop()
    for attempt in first.launcher.live:
        attempt.ended = lambda outcome: None
    cluster.former = first  # type: ignore[attr-defined]
    return cluster.leader(slots=0)


def failed_over(
    config: Mapping[str, str], worker: Mapping[str, str] = {}
) -> tuple[MemoryCluster, MemoryRuntime, list[MemoryAttempt]]:
    cluster = MemoryCluster(worker=worker)
    first = cluster.running(config)
    attempts = first.launcher.live
    return cluster, without_slots(cluster), attempts


@pytest.mark.parametrize("config", [source(), sink()])
def test_what_an_earlier_leader_launched_keeps_its_state_and_says_that_nobody_confirms_it(
    config: Mapping[str, str],
) -> None:
    cluster, runtime, (attempt,) = failed_over(config)
    cluster.pass_time(WITHIN_S)
    found = task(runtime)
    assert found.state is State.RUNNING
    assert str(found.trace).startswith("Not confirmed since 20")
    assert "an earlier leader" in str(found.trace)
    (unconfirmed,) = runtime.verbs.runtime().unconfirmed
    assert str(unconfirmed) == "c-0"
    since = runtime.verbs.runtime().unconfirmed_since
    assert since is not None
    assert since in str(found.trace)
    assert runtime.verbs.runtime().waiting == ()
    # it says itself that it has ended, and is believed
    ends = cluster.ends()
    cluster.pass_time(60)
    assert cluster.ends() == ends, "said once"
    attempt._finish("stop")
    cluster.pass_time(2)
    assert task(runtime).state is State.UNASSIGNED
    assert runtime.verbs.runtime().unconfirmed == ()
    runtime.launcher.slots = 8
    cluster.pass_time(WITHIN_S)
    assert (task(runtime).state, task(runtime).trace) == (State.RUNNING, None)


def test_a_fast_failover_says_nothing_of_the_kind() -> None:
    cluster, runtime, _ = failed_over(source())
    cluster.pass_time(5)
    assert task(runtime).trace is None
    runtime.launcher.slots = 8
    cluster.pass_time(WITHIN_S)
    assert (task(runtime).state, task(runtime).trace) == (State.RUNNING, None)
    assert runtime.verbs.runtime().unconfirmed == ()


def test_a_note_does_not_hide_what_the_attempt_has_just_said() -> None:
    """The trap: the leader decides by what it has read, and the task fails meanwhile."""
    cluster, runtime, (attempt,) = failed_over(sink())
    cluster.pass_time(5)
    written = runtime.herder._log.write

    def late(records: object) -> object:
        attempt.fail()
        runtime.herder._log.write = written  # type: ignore[method-assign]
        return written(records)  # type: ignore[arg-type]

    runtime.herder._log.write = late  # type: ignore[method-assign, assignment]
    cluster.pass_time(WITHIN_S)
    # it waits for its next launch
    assert (task(runtime).state, task(runtime).trace) == (
        State.UNASSIGNED,
        "Spark is not running yet.",
    )
    assert cluster.status.tasks == runtime.herder.view.status.tasks


def test_without_fencing_what_may_still_write_stays_as_it_is() -> None:
    cluster, runtime, (attempt,) = failed_over(source(), DISABLED)
    attempt.hung = True
    cluster.pass_time(WITHIN_S)
    found = runtime.verbs.status("c")
    assert found.connector.state is State.FAILED
    assert found.tasks[0].state in (State.RUNNING, State.RESTARTING)
    assert str(found.tasks[0].trace).startswith("Not confirmed since 20")
    runtime.launcher.slots = 8
    cluster.pass_time(60)
    assert runtime.launcher.live == [], "its note is no proof of its end"
    attempt.hung = False
    attempt.step()
    cluster.pass_time(20)
    assert task(runtime).state is State.RUNNING


def refusing(logs: RefusingLogs) -> None:
    logs.unfenced = f"{GROUP_ID}-c-"


def fence_fails(*, dead: bool) -> tuple[MemoryCluster, MemoryRuntime, MemoryAttempt]:
    logs = RefusingLogs()
    cluster = MemoryCluster(logs)
    cluster.running(source(tasks=2))
    second = without_slots(cluster)
    second.launcher.slots = 8
    attempts = cluster.former.launcher.live  # type: ignore[attr-defined]
    for attempt in attempts:
        attempt.hung = dead
    refusing(logs)
    second.verbs.put_config("c", source(tasks=2, note="x"))
    cluster.pass_time(3)
    return cluster, second, attempts[0]


def test_after_a_fence_that_failed_the_end_of_an_attempt_is_believed() -> None:
    cluster, runtime, attempt = fence_fails(dead=False)
    attempt.step()
    cluster.pass_time(3)
    assert runtime.verbs.status("c").connector.state is State.FAILED
    assert task(runtime).state is State.UNASSIGNED
    assert "the connector has failed" in str(task(runtime).trace)


def test_after_a_fence_that_failed_an_attempt_that_died_is_unassigned_with_the_reason() -> None:
    cluster, runtime, _ = fence_fails(dead=True)
    cluster.pass_time(WITHIN_S)
    assert runtime.verbs.status("c").connector.state is State.FAILED
    for number in (0, 1):
        assert task(runtime, number).state is State.UNASSIGNED
        assert "the connector has failed" in str(task(runtime, number).trace)


def test_tasks_of_a_failed_connector_that_were_never_launched_are_unassigned() -> None:
    logs = RefusingLogs()
    cluster = MemoryCluster(logs)
    runtime = cluster.running(source(tasks=1))
    refusing(logs)
    runtime.verbs.put_config("c", source(tasks=3))
    cluster.pass_time(WITHIN_S)
    assert {n: t.state for n, t in runtime.verbs.status("c").tasks.items()} == {
        0: State.UNASSIGNED,
        1: State.UNASSIGNED,
        2: State.UNASSIGNED,
    }


def hangs(cluster: MemoryCluster, runtime: MemoryRuntime) -> None:
    """From now on calls of plugins and fencing never return."""
    runtime.calls.run = lambda: runtime.calls.waiting.clear()  # type: ignore[method-assign]


def test_a_killed_attempt_is_unassigned_while_its_connector_takes_long_to_start() -> None:
    cluster = MemoryCluster()
    runtime = cluster.running(source())
    hangs(cluster, runtime)
    runtime.verbs.put_config("c", source(tasks=1, note="x"))
    cluster.pass_time(3)
    runtime.launcher.live[0].lose()
    cluster.pass_time(WITHIN_S)
    assert task(runtime).state is State.UNASSIGNED
    assert "has not started with its newest config yet" in str(task(runtime).trace)
    assert runtime.verbs.runtime().waiting == (), "a slot would not help it"


def test_attempts_that_ended_are_unassigned_while_a_fence_hangs() -> None:
    cluster = MemoryCluster()
    runtime = cluster.running(source(tasks=2))
    for attempt in runtime.launcher.live:
        attempt.kill = attempt.lose  # type: ignore[method-assign]
        attempt.hung = True
    runtime.connect.herder._worker._pool = Later()  # which nobody runs
    runtime.verbs.put_config("c", source(tasks=3, note="x"))
    cluster.pass_time(10 + WITHIN_S)
    assert {n: t.state for n, t in runtime.verbs.status("c").tasks.items()} == dict.fromkeys(
        (0, 1, 2), State.UNASSIGNED
    )
    assert all("fenced" in str(t.trace) for t in runtime.verbs.status("c").tasks.values())
