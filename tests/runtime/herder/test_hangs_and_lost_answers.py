"""What arrives late, hangs, or is never answered: callers that gave up, plugins that do not return,
leaders that change in between, writes whose end is not known."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from connect_runtime.herder import herder as herder_module
from connect_runtime.herder import offset_changes
from connect_runtime.herder import worker as worker_module
from connect_runtime.herder.instances import Instances, PluginCalls
from connect_runtime.herder.verbs import LEADER_CHANGED, Refusal, RequestError
from connect_runtime.storage import status_topic
from connect_runtime.storage.log import LogRecord, NewRecord, WriteInDoubt
from connect_runtime.storage.memory import (
    MemoryBackgroundWriter,
    MemoryLogs,
    MemoryLogWriter,
)
from connect_runtime.storage.snapshots import State, Status, StatusSnapshot, TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome
from connect_runtime.waiting import TakesTooLong, within
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed
from connect_specs.names import task_transactional_id
from support.connectors import ObedientSource, source
from support.launcher import SOURCE_PARTITION
from support.memory_cluster import TOPICS, MemoryCluster, MemoryRuntime
from support.misbehaving import RefusingLogs
from support.wait import wait_until

AT_ELSEWHERE = [OffsetEntry({SOURCE_PARTITION: 0}, {"position": 100_000})]
AT_7 = [OffsetEntry({SOURCE_PARTITION: 0}, {"position": 7})]


def elsewhere(what: Callable[[], Any]) -> tuple[threading.Thread, list[object]]:
    """Asks on a thread of its own, as REST does; the list gets the answer or the error."""
    answers: list[object] = []

    def run() -> None:
        try:
            answers.append(what())
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, answers


@pytest.fixture
def hooks() -> Iterator[dict[str, Callable[[Any], object]]]:
    yield ObedientSource.hooks
    ObedientSource.hooks.clear()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(herder_module, "REQUEST_TIMEOUT_S", 0.2)
    monkeypatch.setattr(offset_changes, "_HOOK_S", 0.2)


@pytest.mark.usefixtures("impatient")
def test_a_request_whose_asker_gave_up_is_not_carried_out() -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    thread, answers = elsewhere(lambda: runtime.verbs.create("c", source(), None))
    thread.join(10)
    assert isinstance(answers[0], RequestError) and answers[0].message == "Request timed out"
    runtime.tick()
    assert runtime.verbs.connectors() == []


@pytest.mark.usefixtures("impatient")
def test_an_offset_change_whose_asker_gave_up_leaves_its_connector_free() -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    runtime.verbs.create("c", source(), TargetState.STOPPED)
    thread, answers = elsewhere(lambda: runtime.verbs.alter_offsets("c", AT_7))
    thread.join(10)
    assert isinstance(answers[0], RequestError) and answers[0].status == 500
    runtime.tick()
    assert "altered" in runtime.verbs.alter_offsets("c", AT_7)


@pytest.mark.usefixtures("impatient")
def test_what_is_being_done_when_the_asker_gives_up_is_answered() -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        go_on.wait(10)
        return "done"

    thread, answers = elsewhere(lambda: runtime.herder.run_on_thread(slow))
    ticking = threading.Thread(target=runtime.tick, daemon=True)
    wait_until(lambda: runtime.herder._events.qsize() == 1, what="the request")
    ticking.start()
    assert begun.wait(10)
    thread.join(0.5)
    assert not answers
    go_on.set()
    thread.join(10)
    ticking.join(10)
    assert answers == ["done"]


@pytest.mark.usefixtures("impatient")
def test_a_hook_that_hangs_leaves_its_connector_free(
    hooks: dict[str, Callable[[Any], object]],
) -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    runtime.verbs.create("c", source(), TargetState.STOPPED)
    over = threading.Event()
    hooks["c"] = lambda _: over.wait(10)
    try:
        with pytest.raises(RequestError) as refused:
            runtime.verbs.alter_offsets("c", AT_7)
    finally:
        over.set()
    assert "has not returned" in refused.value.message
    assert not cluster.offsets.connectors
    hooks.clear()
    assert "altered" in runtime.verbs.alter_offsets("c", AT_7)


# --- another leader in between ---


def test_offsets_are_not_altered_where_another_leader_ran_the_connector_meanwhile() -> None:
    logs = _LogsWithAFence()
    cluster = MemoryCluster(logs)
    first, second = cluster.leader(), cluster.runtime()
    first.verbs.create("c", source(tasks="2"), None)
    cluster.settle()
    first.verbs.stop("c")
    cluster.settle()

    def another_one_leads() -> None:
        cluster.ballot.elect(second.candidate)
        cluster.settle()
        for verb in (second.verbs.resume, second.verbs.stop):
            verb("c")
            cluster.settle()
        cluster.ballot.elect(first.candidate)
        cluster.settle()

    logs.meanwhile = another_one_leads
    with pytest.raises(RequestError) as refused:
        first.verbs.alter_offsets("c", AT_ELSEWHERE)
    assert refused.value.message == (
        "Failed to complete zombie fencing because a new set of task configs was generated"
    )
    held = cluster.offsets.connectors["c"].values()
    assert AT_ELSEWHERE[0].offset not in [found.offset for found in held]


def test_offsets_are_not_altered_while_an_attempt_is_still_assigned() -> None:
    """It could make its producer after the fencing, and move the offsets again."""
    logs = RefusingLogs()
    cluster = MemoryCluster(logs)
    runtime = cluster.leader()
    runtime.verbs.create("c", source(tasks="1"), None)
    while not (made := cluster.attempts):
        runtime.tick()
        runtime.calls.run()
    (late,) = made  # it has not begun
    logs.refuses = lambda record: record.topic == TOPICS.assignments
    runtime.verbs.stop("c")
    with pytest.raises(RequestError):
        runtime.verbs.alter_offsets("c", AT_ELSEWHERE)

    logs.refuses = lambda record: False
    runtime.verbs.alter_offsets("c", AT_ELSEWHERE)
    late.step()
    assert (late.state, late.alive) == (None, False)
    (found,) = cluster.offsets.connectors["c"].values()
    assert found.offset == AT_ELSEWHERE[0].offset


@pytest.mark.parametrize("leads_again", [True, False])
def test_offsets_are_not_altered_if_another_leader_runs_the_connector_during_the_hook(
    hooks: dict[str, Callable[[Any], object]],
    monkeypatch: pytest.MonkeyPatch,
    leads_again: bool,
) -> None:
    """Its task 0 fences the writer, which was open before the hook was called."""
    # on this thread, which moves the cluster
    monkeypatch.setattr(offset_changes, "within", lambda timeout_s, call: call())
    cluster = MemoryCluster()
    first, second = cluster.leader(), cluster.runtime()
    first.verbs.create("c", source(tasks="2"), None)
    cluster.settle()
    first.verbs.stop("c")
    cluster.settle()

    def another_one_leads(_: Any) -> bool:
        hooks.clear()
        cluster.ballot.elect(second.candidate)
        cluster.settle()
        second.verbs.resume("c")
        cluster.settle()
        if leads_again:
            second.verbs.stop("c")
            cluster.settle()
            cluster.ballot.elect(first.candidate)
            cluster.settle()
        return True

    hooks["c"] = another_one_leads
    with pytest.raises(RequestError) as refused:
        first.verbs.alter_offsets("c", AT_ELSEWHERE)
    new_configs = (
        "Failed to complete zombie fencing because a new set of task configs was generated"
    )
    assert refused.value.message == (new_configs if leads_again else LEADER_CHANGED)
    offsets = [source.offset for source in cluster.offsets.connectors["c"].values()]
    assert AT_ELSEWHERE[0].offset not in offsets


def test_a_refused_producer_is_a_failed_write_if_nothing_is_to_be_fenced() -> None:
    cluster = MemoryCluster(_LogsWithoutProducers())
    runtime = cluster.leader()
    runtime.verbs.create("c", source(), TargetState.STOPPED)
    with pytest.raises(RequestError) as refused:
        runtime.verbs.alter_offsets("c", AT_7)
    text = "Failed to modify offsets for source connector c: Earlier writers cannot be fenced"
    assert (refused.value.message, refused.value.refusal) == (text, Refusal.NOT_WRITTEN)


class _LogsWithoutProducers(MemoryLogs):
    def writer(self, transactional_id: str) -> MemoryLogWriter:
        if transactional_id.endswith("-c-0"):
            raise Failed(Diagnostic("kafka.denied", "Earlier writers cannot be fenced"))
        return super().writer(transactional_id)


class _LogsWithAFence(RefusingLogs):
    meanwhile: Callable[[], None] | None = None

    def fence(self, transactional_ids: Sequence[str]) -> None:
        super().fence(transactional_ids)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()


# --- attempts that are lost ---


def test_each_relaunch_waits_twice_as_long_up_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda least, most: most)
    cluster = MemoryCluster()
    runtime = cluster.running(source())
    waits = []
    for _ in range(8):
        count = len(runtime.launcher.attempts)
        runtime.launcher.attempts[-1].lose()
        runtime.tick()
        lost_at = cluster.clock.now
        while len(runtime.launcher.attempts) == count:
            cluster.clock.now += 0.5
            runtime.move()
        waits.append(cluster.clock.now - lost_at)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]

    cluster.clock.now += 301
    count = len(runtime.launcher.attempts)
    runtime.launcher.attempts[-1].lose()
    runtime.tick()
    cluster.clock.now += 1
    runtime.tick()
    assert len(runtime.launcher.attempts) == count + 1


def test_an_attempt_that_was_fenced_is_no_failure_of_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier attempt made its producer late, and has ended since."""
    monkeypatch.setattr(random, "uniform", lambda least, most: most)
    cluster = MemoryCluster()
    runtime = cluster.running(source())
    for _ in range(4):
        attempt = runtime.launcher.attempts[-1]
        launch = attempt.launch
        fenced = task_transactional_id(launch.group_id, launch.id.connector, launch.id.task)
        cluster.logs.fence([fenced])
        attempt.work_late()
        assert not attempt.alive
        runtime.tick()
        cluster.clock.now += 1
        runtime.move()
        assert runtime.launcher.attempts[-1] is not attempt
        runtime.move()


def test_a_jvm_that_is_killed_again_and_again_starts_soon_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kill says little of the task; if the system does it all the time, the pause grows."""
    monkeypatch.setattr(random, "uniform", lambda least, most: most)
    cluster = MemoryCluster()
    runtime = cluster.running(source())
    waits = []
    for _ in range(30):
        attempt = runtime.launcher.attempts[-1]
        attempt.alive = False
        killed = Outcome(
            attempt.id, attempt.launch.attempt, AttemptEnd.INTERRUPTED, "SIGKILL", killed=True
        )
        attempt.ended(killed)
        runtime.tick()
        lost_at = cluster.clock.now
        while runtime.launcher.attempts[-1] is attempt:
            cluster.clock.now += 0.1
            runtime.move()
        waits.append(cluster.clock.now - lost_at)
    assert waits[:10] == pytest.approx([0.1] * 10, abs=0.11)
    assert waits[10] == pytest.approx(1.07, abs=0.11)
    assert waits[-1] == pytest.approx(4, abs=0.11)


def test_the_producer_of_a_lost_java_task_is_fenced_before_the_next_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its open transaction hides the offsets of others; one that has stopped leaves none."""
    fenced = _java_fences(monkeypatch)
    cluster = MemoryCluster()
    runtime = cluster.running(source())
    (attempt,) = runtime.launcher.attempts
    attempt.lose()
    runtime.tick()
    assert runtime.herder.view.runs[attempt.id].active
    runtime.calls.run()
    runtime.tick()
    assert fenced == [("c", [0])]
    assert not runtime.herder.view.runs[attempt.id].active
    cluster.settle()
    runtime.verbs.stop("c")
    cluster.settle()
    assert len(runtime.launcher.attempts) == 2
    assert fenced == [("c", [0])]


@pytest.mark.parametrize("when", ["before its leader knows", "after that"])
def test_a_java_task_of_an_earlier_term_that_is_lost_late_fences_no_successor(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    fenced = _java_fences(monkeypatch)
    cluster = MemoryCluster()
    old = cluster.running(source())
    (attempt,) = old.launcher.attempts
    cluster.ballot.elect(cluster.runtime().candidate)
    if when == "before its leader knows":
        attempt.lose()
        old.tick()
    else:
        old.tick()
        attempt.lose()
    assert not old.herder.leading
    cluster.settle()
    assert len(cluster.attempts) == 2
    assert fenced == []


def _java_fences(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[int]]]:
    """All connectors are Java's; returns those whose tasks were fenced, as they are."""
    fenced: list[tuple[str, list[int]]] = []

    def fence(self: Instances, name: str, config: object, tasks: Iterable[int]) -> None:
        fenced.append((name, list(tasks)))

    monkeypatch.setattr(worker_module, "java_settings", lambda config: {})
    monkeypatch.setattr(Instances, "fence", fence)
    return fenced


def test_a_task_that_takes_its_executor_with_it_lets_the_others_get_on() -> None:
    """The trap: all that is lost together starts together, and is lost again."""
    random.seed(1)
    cluster = MemoryCluster()
    runtime = cluster.leader()
    for name in ("kills", "good"):
        runtime.verbs.create(name, {**source(), "name": name}, None)
    ran, longest = 0.0, 0.0
    for _ in range(600):
        runtime.move()
        names = {each.id.connector for each in runtime.launcher.live}
        ran = ran + 1 if "good" in names else 0.0
        longest = max(longest, ran)
        if "kills" in names:
            for each in runtime.launcher.live:
                each.lose()
        cluster.clock.now += 1
    assert longest > 10


def test_a_kill_that_is_missed_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the attempt would keep its slot, and its task never start again."""
    cluster = MemoryCluster()
    runtime = cluster.running(source())
    [hung] = runtime.launcher.live
    hung.hung = True
    kill, missed = runtime.launcher.kill, []

    def misses_the_first(task: TaskId, attempt: int) -> None:
        if missed:
            kill(task, attempt)
        missed.append(attempt)

    monkeypatch.setattr(runtime.launcher, "kill", misses_the_first)
    runtime.verbs.restart("c", include_tasks=True)
    cluster.settle()
    assert len(missed) == 2
    assert [each.hung for each in runtime.launcher.live] == [False]


def test_an_attempt_that_hangs_after_a_lost_term_is_killed_and_counts_until_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MemoryCluster()
    first, second = cluster.leader(slots=1), cluster.runtime(slots=1)
    first.verbs.create("c", source(), None)
    cluster.settle()
    [hung] = first.launcher.attempts
    hung.hung = True
    cluster.ballot.elect(second.candidate)
    for _ in range(3):
        first.move()
        second.move()
    assert len(second.launcher.live) == 1
    cluster.ballot.elect(first.candidate)
    for _ in range(3):
        first.move()
        second.move()
    # its only slot is still taken
    assert len(first.launcher.attempts) == 1
    status = first.verbs.status("c").tasks[0]
    assert status.state is State.UNASSIGNED
    assert "all 1 are taken" in (status.trace or "")
    # Spark misses the first kill
    with monkeypatch.context() as missed:
        missed.setattr(first.launcher, "kill", lambda task, attempt: None)
        cluster.clock.now += 70
        first.move()
    cluster.clock.now += 20
    first.move()
    hung.reap()
    cluster.settle()
    assert first.verbs.status("c").tasks[0].state is State.RUNNING


# --- writes whose end is not known ---


class _DoubtfulLogs(MemoryLogs):
    """The end of one of the leader's writes is not known; `written` says what it was."""

    doubtful = -1
    written = False
    writes = 0

    def writer(self, transactional_id: str) -> MemoryLogWriter:
        with self.changed:
            return _DoubtfulWriter(self, transactional_id, self.take_over(transactional_id))


class _DoubtfulWriter(MemoryLogWriter):
    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        logs = self._logs
        assert isinstance(logs, _DoubtfulLogs)
        if records and self._id.startswith("connect-cluster-"):
            logs.writes += 1
            if logs.writes == logs.doubtful:
                if logs.written:
                    super().write(records)
                self._fenced = True  # this one writes no more
                raise WriteInDoubt(Diagnostic("write.in-doubt", "Kafka did not say"))
        return super().write(records)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("doubtful", (3, 4))
def test_a_write_in_doubt_is_looked_up_by_the_next_writer(written: bool, doubtful: int) -> None:
    """The second write is the request's own, whose asker is told."""
    logs = _DoubtfulLogs()
    logs.written, logs.doubtful = written, doubtful
    cluster = MemoryCluster(logs)
    runtime = cluster.running(source(tasks="2"))
    runtime.verbs.pause("c")
    cluster.settle()
    assert logs.writes > doubtful, "no write was in doubt"
    assert [t.state for t in runtime.verbs.status("c").tasks.values()] == [State.PAUSED] * 2
    # neither lost nor done again
    assert cluster.config.connectors["c"].generation == 0
    assert len(runtime.launcher.live) == 2


# --- calls of plugins ---


def test_calls_that_hang_hold_up_no_others() -> None:
    calls = PluginCalls(at_once=2, long_s=0.1)
    over = threading.Event()
    try:
        hanging = [calls.submit(over.wait, 20) for _ in range(6)]
        assert calls.submit(lambda: "done").result(10) == "done"
        assert not any(each.done() for each in hanging)
    finally:
        over.set()
    assert all(each.result(10) for each in hanging)


def test_quick_calls_are_bounded() -> None:
    calls = PluginCalls(at_once=3)
    running: list[int] = []
    most: list[int] = []

    def call() -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()

    for future in [calls.submit(call) for _ in range(30)]:
        future.result(10)
    assert max(most) <= 3


def test_what_a_call_raises_reaches_who_waits_and_no_other() -> None:
    calls = PluginCalls(at_once=1)
    with pytest.raises(SystemExit):
        calls.submit(lambda: exec("import sys; sys.exit(3)")).result(10)
    assert calls.submit(lambda: 1).result(10) == 1
    calls.shutdown(cancel_futures=True)
    with pytest.raises(RuntimeError):
        calls.submit(lambda: 1)


def test_within_gives_up_and_says_so() -> None:
    over = threading.Event()
    try:
        with pytest.raises(TakesTooLong):
            within(0.1, lambda: over.wait(10))
    finally:
        over.set()
    assert within(10, lambda: 3) == 3
    with pytest.raises(ValueError, match="x"):
        within(10, lambda: int("x"))

    def asks_a_silent_database() -> None:
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        within(10, asks_a_silent_database)


def test_hanging_starts_hold_up_no_other_connectors_stop() -> None:
    """With the pool of a real runtime, whose threads hang."""
    over = threading.Event()
    starts = 40
    pool = PluginCalls(at_once=4, long_s=0.2)
    try:
        for _ in range(starts):
            pool.submit(over.wait, 20)
        assert pool.submit(lambda: "stopped").result(15) == "stopped"
    finally:
        over.set()
        pool.shutdown(cancel_futures=True)


# --- statuses ---


def test_what_a_task_says_while_the_leader_repeats_its_status_is_kept() -> None:
    cluster = MemoryCluster()
    runtime = cluster.running(source())
    runtime.verbs.pause("c")
    runtime.tick()
    late = Status(State.UNASSIGNED, "w0:8083", 0, attempt=0)
    record = status_topic.task_record(TOPICS.status, TaskId("c", 0), late)
    cluster.logs.writer("late").write([record])
    runtime.herder._log.poll()
    runtime.herder._refresh()
    runtime.launcher.live[0].step()  # says PAUSED, which the leader has not read yet
    runtime.herder._settle(cluster.clock.now)
    cluster.settle()
    for status in (runtime.herder.view.status, cluster.status):
        assert status.tasks[TaskId("c", 0)].state is State.PAUSED
        assert not status.outdated


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(
            lambda term: status_topic.connector_record(
                TOPICS.status, "c", Status(State.FAILED, "w9:8083", term - 1, "it fell")
            ),
            id="a connector's status",
        ),
        pytest.param(
            lambda term: status_topic.connector_record(
                TOPICS.status, "c", Status(State.RUNNING, "w0:8083", term - 1, version="1")
            ),
            id="the same worker's status of an earlier term",
        ),
        pytest.param(
            lambda term: status_topic.connector_record(TOPICS.status, "c", None),
            id="a connector's removal",
        ),
        pytest.param(
            lambda term: status_topic.task_record(
                TOPICS.status, TaskId("c", 0), Status(State.UNASSIGNED, "w9:8083", term - 1)
            ),
            id="a task without a slot",
        ),
        pytest.param(
            lambda term: status_topic.task_record(
                TOPICS.status, TaskId("c", 0), Status(State.FAILED, "w9:8083", term - 1, "it fell")
            ),
            id="a task whose end nobody proved",
        ),
        pytest.param(
            lambda term: status_topic.task_record(TOPICS.status, TaskId("c", 0), None),
            id="a task's removal",
        ),
    ],
)
def test_a_former_leaders_late_status_does_not_stay(late: Callable[[int], NewRecord]) -> None:
    """It is written without a transaction, so nothing fences it."""
    cluster = MemoryCluster()
    runtime = cluster.running(source())
    before = cluster.status
    cluster.logs.background_writer().write([late(runtime.herder.view.term)])
    cluster.settle()
    # what is last in the topic, for whoever begins to read it then
    records = cluster.records(TOPICS.status)
    newest = status_topic.reduce_all(StatusSnapshot(), {r.key: r for r in records}.values())
    for status in (runtime.herder.view.status, cluster.status, newest):
        assert (status.connectors, status.tasks) == (before.connectors, before.tasks)
        assert not status.outdated


def test_a_leader_that_was_replaced_stops_when_it_reads_of_a_newer_term() -> None:
    """It has not noticed, and writes nothing but statuses, which Kafka does not fence: the two
    would correct each other's without end."""
    cluster = MemoryCluster()
    first = cluster.running(source())
    second = cluster.runtime()
    cluster.ballot.elect(second.candidate, lag_s=30.0)
    second.tick()
    written = len(cluster.records(TOPICS.status))
    for _ in range(20):
        first.move()
        second.move()
    assert (first.herder.leading, second.herder.leading) == (False, True)
    assert len(cluster.records(TOPICS.status)) - written < 20
    assert cluster.status.connectors["c"].worker_id == second.url.removeprefix("http://")


# --- statuses that cannot be written ---


def test_statuses_that_cannot_be_written_hold_up_nothing_and_are_written_later() -> None:
    logs = RefusingLogs()
    cluster = MemoryCluster(logs)
    runtime = cluster.leader()
    logs.unwritable = lambda record: record.key.startswith(
        (b"status-connector-c", b"status-task-c")
    )
    runtime.verbs.create("c", source(), None)
    runtime.verbs.create("d", {**source(), "name": "d"}, None)
    cluster.settle()
    assert {each.id.connector for each in runtime.launcher.live} == {"c", "d"}
    assert cluster.status.connectors.keys() == {"d"}
    # the leader itself knows
    assert runtime.verbs.status("c").connector.state is State.RUNNING
    for said in (runtime.verbs.degraded(), runtime.verbs.runtime().problem):
        assert said == f"Statuses cannot be written: {TOPICS.status}-0: no broker"
    runtime.verbs.stop("c")
    cluster.settle()
    assert {each.id.connector for each in runtime.launcher.live} == {"d"}

    logs.unwritable = lambda record: False
    runtime.verbs.resume("c")
    cluster.settle()
    assert cluster.status.connectors["c"].state is State.RUNNING
    assert cluster.status.tasks[TaskId("c", 0)].state is State.RUNNING
    assert runtime.verbs.degraded() is None


def test_statuses_that_a_lost_term_left_unwritten_are_written_by_the_same_leader() -> None:
    """A broker is away: nobody leads for a moment, and its partition of the topic is away, too."""
    logs = RefusingLogs()
    cluster = MemoryCluster(logs)
    runtime = cluster.leader()
    for name in ("c", "d"):
        runtime.verbs.create(name, {**source(), "name": name}, None)
    cluster.settle()
    logs.unwritable = lambda record: record.topic == TOPICS.status
    runtime.verbs.delete("c")
    runtime.launcher.slots = 0
    runtime.launcher.live[-1].lose()
    cluster.settle()
    assert cluster.status.connectors.keys() == {"c", "d"}
    cluster.ballot.elect(runtime.candidate)  # lost, and won again
    runtime.tick()
    logs.unwritable = lambda record: False
    cluster.settle()
    for status in (cluster.status, runtime.herder.view.status):
        assert status.connectors.keys() == {"d"}
        assert {task: each.state for task, each in status.tasks.items()} == {
            TaskId("d", 0): State.UNASSIGNED
        }


class _HeldLogs(MemoryLogs):
    """While `held`, what leaders say of tasks waits for Kafka, and what tasks say does not."""

    held = False

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[NewRecord] = []

    def background_writer(self) -> MemoryBackgroundWriter:
        return _HeldStatuses(self)

    def release(self) -> None:
        self.held = False
        MemoryBackgroundWriter(self).write(self.waiting)


class _HeldStatuses(MemoryBackgroundWriter):
    def write(self, records: Sequence[NewRecord]) -> None:
        logs = self._logs
        assert isinstance(logs, _HeldLogs)
        if logs.held:
            logs.waiting += [each for each in records if each.key.startswith(b"status-task-")]
        else:
            super().write(records)


def _is_lost(runtime: MemoryRuntime) -> None:
    runtime.launcher.live[0].lose()


def _is_stopped_and_resumed(runtime: MemoryRuntime) -> None:
    runtime.verbs.stop("c")
    for _ in range(5):
        runtime.move()
    assert not runtime.herder.view.status.tasks
    runtime.verbs.resume("c")


def _is_restarted(runtime: MemoryRuntime) -> None:
    runtime.verbs.restart("c", include_tasks=True)


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("support", ["enabled", "disabled"])
@pytest.mark.parametrize("happens", [_is_lost, _is_stopped_and_resumed, _is_restarted])
def test_what_the_leader_said_of_an_earlier_attempt_may_arrive_after_what_the_next_one_says(
    happens: Callable[[MemoryRuntime], None], support: str, read: bool
) -> None:
    """`read`: the leader has read that before. Partitions that are back get them in any order."""
    logs = _HeldLogs()
    cluster = MemoryCluster(logs, worker={"exactly.once.source.support": support})
    runtime = cluster.running(source())
    logs.held = True
    happens(runtime)
    for _ in range(60):
        runtime.tick()
        runtime.calls.run()
        runtime.launcher.step()
        if len(runtime.launcher.attempts) > 1 and runtime.launcher.attempts[1].state:
            break
        cluster.clock.now += 1
    while runtime.launcher.attempts[1].state is not State.RUNNING:
        runtime.launcher.step()
    if read:
        runtime.tick()
    assert logs.waiting
    logs.release()
    cluster.settle()
    records = cluster.records(TOPICS.status)
    newest = status_topic.reduce_all(StatusSnapshot(), {r.key: r for r in records}.values())
    for status in (runtime.herder.view.status, cluster.status, newest):
        assert status.tasks[TaskId("c", 0)].state is State.RUNNING
        assert not status.outdated


def test_terms_grow_without_any_status() -> None:
    """A new leader may be unable to read the statuses of the one before."""
    cluster = MemoryCluster()
    first = cluster.running(source())
    for key in {record.key for record in cluster.records(TOPICS.status)}:
        assert key is not None
        cluster.logs.background_writer().write([NewRecord(TOPICS.status, key, None)])
    cluster.logs._topics[TOPICS.status].partitions[0].clear()
    second = cluster.leader()
    assert second.herder.view.term == first.herder.view.term + 1


def test_a_request_to_a_leader_whose_writer_is_gone_is_told_to_retry() -> None:
    logs = RefusingLogs()
    cluster = MemoryCluster(logs)
    runtime = cluster.running(source())
    logs.no_writer = True
    runtime.herder._log._writer._fenced = True  # type: ignore[union-attr]
    with pytest.raises(ConnectError):
        runtime.tick()  # cannot open another
    for verb in (runtime.verbs.stop, runtime.verbs.pause, runtime.verbs.delete):
        with pytest.raises(RequestError, match="can be safely retried") as refused:
            verb("c")
        assert refused.value.status == 500
    logs.no_writer = False
    cluster.settle()
    runtime.verbs.stop("c")
