"""Any order of requests, failures and failovers: what must hold in between, and in the end.

Two runtimes share topics in memory. Requests go to the leader; ticks, plugin calls, steps of
attempts and time are rules of their own, so that everything interleaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import orjson
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from connect_runtime.herder import herder as herder_module
from connect_runtime.herder.decide import decide
from connect_runtime.herder.earlier_attempts import may_write
from connect_runtime.herder.effects import Effect
from connect_runtime.herder.runs import InstancePhase, RunPhase
from connect_runtime.herder.verbs import NotLeader, Refusal, RequestError
from connect_runtime.herder.view import View
from connect_runtime.settings.slots import PAUSED_RELEASE
from connect_runtime.storage.assignments_topic import reduce_all
from connect_runtime.storage.memory import MemoryLogReader
from connect_runtime.storage.snapshots import AssignmentSnapshot, State, TaskId
from connect_runtime.tasks.launch import AttemptEnd
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.names import leader_transactional_id
from support.connectors import SINK, SOURCE
from support.examples import examples
from support.launcher import SOURCE_PARTITION
from support.memory_cluster import GROUP_ID, TOPICS, MemoryCluster, MemoryRuntime

NAMES = st.sampled_from(["a", "b-1"])
SETTLED = {
    TargetState.RUNNING: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


@pytest.fixture(autouse=True, scope="module")
def decided_for_all() -> Iterator[None]:
    """Deciding only for what changed gives what deciding for all connectors gives."""

    def checked(view: View, now: float, names: Collection[str] | None) -> Sequence[Effect]:
        effects = decide(view, now, names)
        assert effects == decide(view, now), names
        return effects

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(herder_module, "decide", checked)
        yield


@dataclass(frozen=True)
class Acknowledged:
    """What the cluster has said yes to, for one connector."""

    config: dict[str, str]
    target: TargetState


class Herders(RuleBasedStateMachine):
    """See the module."""

    worker: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.cluster = MemoryCluster(worker=self.worker)
        self.model: dict[str, Acknowledged] = {}
        self.altered = 0
        self.ended = False
        # Source offsets as they have to follow one another, and how far they were checked.
        self.offsets: MemoryLogReader = self.cluster.logs.reader(TOPICS.offsets)
        self.positions: dict[bytes, int] = {}
        self.generations: dict[tuple[TaskId, int], int] = {}
        self.begun: dict[str, int] = {}
        self.assignments: MemoryLogReader = self.cluster.logs.reader(TOPICS.assignments)
        self.newest: dict[TaskId, tuple[int, str]] = {}

    @initialize(slots=st.sampled_from([8, 3, 1]), tasks=st.integers(1, 3), rounds=st.integers(0, 5))
    def start(self, slots: int, tasks: int, rounds: int) -> None:
        """Most rules need connectors, and hypothesis seldom makes them first."""
        self.leader = self.cluster.leader(slots)
        self.other = self.cluster.runtime(slots)
        self.create("a", True, tasks, "", None)
        self.create("b-1", False, 2, "", None)
        self.everything_moves(rounds)

    # --- requests ---

    @rule(
        name=NAMES,
        source=st.booleans(),
        tasks=st.integers(0, 3),
        fail=st.sampled_from(["", "", "", "start", "stop", "task_configs"]),
        state=st.sampled_from([None, *TargetState]),
    )
    def create(
        self, name: str, source: bool, tasks: int, fail: str, state: TargetState | None
    ) -> None:
        config = {"name": name, "connector.class": SOURCE if source else SINK}
        config |= {"tasks.max": "3", "tasks": str(tasks), "fail": fail}
        if not source:
            config["topics"] = "t"
        if self.asked(lambda v: v.create(name, config, state), 409 if name in self.model else 0):
            self.model[name] = Acknowledged(config, state or TargetState.RUNNING)

    @rule(name=NAMES, tasks=st.integers(0, 3), fail=st.sampled_from(["", "start"]))
    def patch(self, name: str, tasks: int, fail: str) -> None:
        change = {"tasks": str(tasks), "fail": fail}
        if self.asked(lambda v: v.patch_config(name, change), self.unknown(name)):
            found = self.model[name]
            self.model[name] = replace(found, config={**found.config, **change})

    @rule(name=NAMES, note=st.sampled_from(["x", "y"]))
    def put(self, name: str, note: str) -> None:
        if name in self.model:
            config = {**self.model[name].config, "note": note}
            if self.asked(lambda v: v.put_config(name, config)):
                self.model[name] = replace(self.model[name], config=config)

    @rule(name=NAMES, state=st.sampled_from(TargetState))
    def change_state(self, name: str, state: TargetState) -> None:
        verb = {"running": "resume", "paused": "pause", "stopped": "stop"}[state]
        if self.asked(lambda v: getattr(v, verb)(name), self.unknown(name)):
            self.model[name] = replace(self.model[name], target=state)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if self.asked(lambda v: v.delete(name), self.unknown(name)):
            del self.model[name]

    @rule(name=NAMES, tasks=st.booleans(), failed=st.booleans())
    def restart(self, name: str, tasks: bool, failed: bool) -> None:
        if tasks and not failed and not self.may_restart(name):
            return
        known = name in self.model
        unsaid = (tasks or failed) and name not in self.leader.herder.view.status.connectors
        self.asked(
            lambda v: v.restart(name, include_tasks=tasks, only_failed=failed),
            404 if not known or unsaid else 0,
        )

    @rule(name=NAMES, number=st.integers(0, 2))
    def restart_task(self, name: str, number: int) -> None:
        if not self.may_restart(name):
            return
        state = self.leader.herder.view.config.connectors.get(name)
        if state is None or number >= max(state.tasks_ever, len(state.task_configs)):
            refused = 404
        else:
            refused = 0 if number < len(state.task_configs) else 409
        self.asked(lambda v: v.restart_task(name, number), refused)

    @rule(name=NAMES, number=st.integers(0, 2), reset=st.booleans(), null=st.booleans())
    def alter(self, name: str, number: int, reset: bool, null: bool) -> None:
        """Positions far from each other: a task that goes on from an older one is noticed."""
        found = self.model.get(name)
        if found is not None and "topics" in found.config:
            return
        stopped = found is not None and found.target is TargetState.STOPPED
        self.altered += 100_000
        partition = {SOURCE_PARTITION: number}
        entry = OffsetEntry(partition, None if null else {"position": self.altered})
        done = self.asked(
            (lambda v: v.reset_offsets(name))
            if reset
            else lambda v: v.alter_offsets(name, [entry]),
            self.unknown(name) or (0 if stopped else 400),
        )
        if done:
            held = self.cluster.offsets.connectors.get(name, {})
            if reset:
                assert not held
            else:
                key = orjson.dumps([name, partition])
                assert (held[key].offset if key in held else None) == entry.offset

    @rule(name=NAMES)
    def ask_one_that_does_not_lead(self, name: str) -> None:
        """It may not know that it was replaced, nor what came after."""
        before = self.cluster.ends()
        with pytest.raises(RequestError) as refused:
            self.other.verbs.pause(name)
        unheard_of = name not in self.other.herder.view.config.connectors
        fenced = refused.value.refusal is Refusal.NOT_WRITTEN
        not_there = refused.value.status == 404 and unheard_of
        assert isinstance(refused.value, NotLeader) or fenced or not_there
        assert self.cluster.ends() == before

    # --- what happens by itself ---

    @rule(rounds=st.integers(1, 5))
    def everything_moves(self, rounds: int) -> None:
        for _ in range(rounds):
            for runtime in self.cluster.runtimes:
                runtime.move()

    @rule(what=st.sampled_from(["tick", "tick the other", "call plugins", "step"]))
    def one_thing_moves(self, what: str) -> None:
        match what:
            case "tick":
                self.leader.tick()
            case "tick the other":
                self.other.tick()
            case "call plugins":
                self.leader.calls.run()
            case _:
                self.leader.launcher.step()

    @rule(first=st.integers(0, 20))
    def one_attempt_moves(self, first: int) -> None:
        live = [attempt for attempt in self.cluster.attempts if attempt.alive]
        if live:
            live[first % len(live)].step()

    @rule(seconds=st.sampled_from([0.5, 2.0, 6.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.clock.now += seconds

    @rule(
        first=st.integers(0, 20),
        how=st.sampled_from(["late", "hang", "fail", "lose", "wake", "reap"]),
    )
    def trouble(self, first: int, how: str) -> None:
        live = [attempt for attempt in self.cluster.attempts if attempt.alive]
        if not live:
            return
        attempt = live[first % len(live)]
        match how:
            case "fail":
                attempt.fail()
            case "lose":
                attempt.lose()
            case "reap":
                attempt.reap()
            case "late":
                attempt.work_late()
            case _:
                attempt.hung = how == "hang"

    @rule(name=NAMES, tasks=st.integers(0, 3), stop=st.booleans(), rounds=st.integers(0, 5))
    def change_while_all_are_frozen(self, name: str, tasks: int, stop: bool, rounds: int) -> None:
        """The tasks are killed, which does not end them at once: they wake in the wrong moment."""
        for attempt in self.leader.launcher.live:
            attempt.hung = True
        if stop:
            self.change_state(name, TargetState.STOPPED)
            self.alter(name, 0, False, False)
        else:
            self.patch(name, tasks, "")
        self.cluster.clock.now += rounds * 2.0
        self.everything_moves(rounds)
        self.all_commit_late()

    @rule()
    def all_commit_late(self) -> None:
        for attempt in self.cluster.attempts:
            attempt.work_late()

    @rule(lag=st.sampled_from([0.0, 0.0, 3.0]))
    def fail_over(self, lag: float) -> None:
        """The other one wins; the leader may not know for a while."""
        self.leader, self.other = self.other, self.leader
        # one that waits because Kafka ended its writer may claim it again right after it was
        # replaced, and fence its successor once, which then waits, too: no writes are lost
        self.cluster.ballot.elect(self.leader.candidate, lag_s=0.0 if self.ended else lag)
        self.leader.tick()
        assert self.leader.herder.leading

    @rule()
    def crash(self) -> None:
        """The leader's process dies with all it ran; the other one wins, and a new one comes."""
        for attempt in self.leader.launcher.attempts:
            attempt.ended = lambda outcome: None
            attempt.lose()
        self.cluster.runtimes.remove(self.leader)
        self.leader, self.other = self.other, self.cluster.runtime(self.leader.launcher.slots)
        self.cluster.ballot.elect(self.leader.candidate)
        self.leader.tick()

    @rule()
    def kafka_ends_the_writer(self) -> None:
        """As it does with one whose transaction takes too long: no other leader exists."""
        self.ended = True
        self.cluster.logs.fence([leader_transactional_id(GROUP_ID)])

    # --- at any moment ---

    @invariant()
    def what_was_acknowledged_is_in_the_topic(self) -> None:
        found = self.cluster.config.connectors
        assert {n: Acknowledged(dict(s.config), s.target) for n, s in found.items()} == self.model

    @invariant()
    def attempts_only_grow(self) -> None:
        records = self.assignments.poll()
        for record in records:
            for task, named in reduce_all(AssignmentSnapshot(), [record]).tasks.items():
                now = (named.attempt, named.leader)
                assert now >= self.newest.get(task, now), "an older attempt was named again"
                if task in self.newest and now[0] == self.newest[task][0]:
                    assert now == self.newest[task], "two leaders named one attempt"
                self.newest[task] = now
        launched = [(attempt.id, attempt.launch.attempt) for attempt in self.cluster.attempts]
        assert len(launched) == len(set(launched)), "an attempt was launched twice"

    @invariant()
    def offsets_follow_one_another(self) -> None:
        """No line lost or twice: each commit of a task goes on from what was committed, also where
        that was altered; zombies, and tasks of an older generation, commit nothing."""
        for attempt in self.cluster.attempts:
            key = (attempt.id, attempt.launch.attempt)
            self.generations[key] = attempt.launch.generation
        for record in self.offsets.poll():
            assert record.key is not None
            value = {} if record.value is None else orjson.loads(record.value)
            if "by" in value:
                assert value["position"] == self.positions.get(record.key, 0) + 1
                connector, partition = orjson.loads(record.key)
                task = TaskId(connector, partition[SOURCE_PARTITION])
                generation = self.generations[task, value["by"]]
                assert generation >= self.begun.get(connector, -1), "an older generation commits"
            self.positions[record.key] = value.get("position", 0)
        for attempt in self.cluster.attempts:
            if attempt.state is not None:
                name = attempt.id.connector
                self.begun[name] = max(self.begun.get(name, -1), attempt.launch.generation)

    @invariant()
    def one_that_was_replaced_does_not_take_the_pen_back(self) -> None:
        if self.cluster.runtimes:
            writer: Any = self.other.herder._log._writer
            newest = self.cluster.logs.epoch(leader_transactional_id(GROUP_ID))
            assert writer is None or writer._epoch < newest

    # --- in the end ---

    @rule()
    def settle(self) -> None:
        self.come_to_rest()
        view = self.leader.herder.view
        assert self.leader.herder.leading
        assert not self.other.herder.leading
        assert decide(view, self.cluster.clock.now) == ()
        assert view.status == self.cluster.status
        for name in {"a", "b-1"} - self.model.keys():
            self.is_gone(name)
        for name, found in self.model.items():
            if found.target is TargetState.STOPPED:
                self.is_stopped(name)
            else:
                self.is_as_wanted(name, found.target)

    def come_to_rest(self) -> None:
        self.cluster.settle()

    def teardown(self) -> None:
        if self.cluster.runtimes:
            self.settle()

    def is_gone(self, name: str) -> None:
        status = self.cluster.status
        assert name not in status.connectors
        assert name not in self.leader.herder.view.instances
        self.has_no_tasks(name)

    def is_stopped(self, name: str) -> None:
        assert self.cluster.status.connectors[name].state is State.STOPPED
        assert name not in self.leader.herder.view.instances
        assert self.cluster.config.connectors[name].task_count == 0
        self.has_no_tasks(name)

    def has_no_tasks(self, name: str) -> None:
        assert not [task for task in self.cluster.status.tasks if task.connector == name]
        assert not [task for task in self.cluster.assignments.tasks if task.connector == name]
        # one that is hung may live on in a process that does not lead
        live = [a for a in self.cluster.attempts if a.alive and a.id.connector == name]
        assert all(attempt.hung for attempt in live)

    def is_as_wanted(self, name: str, target: TargetState) -> None:
        view = self.leader.herder.view
        status = self.cluster.status
        instance = view.instances.get(name)
        failed = instance is not None and instance.phase is InstancePhase.FAILED
        assert status.connectors[name].state is (State.FAILED if failed else SETTLED[target])
        state = view.config.connectors[name]
        if target is TargetState.RUNNING and not failed:
            assert instance is not None and instance.phase is InstancePhase.STARTED
            if state.config["fail"] == "task_configs":
                assert instance.task_configs is None
                assert state.task_configs == ()
            else:
                assert list(state.task_configs) == list(instance.task_configs)
                assert state.applied_config == state.config
        tasks = {task for task in status.tasks if task.connector == name}
        assert tasks <= {TaskId(name, number) for number in range(len(state.task_configs))}
        for number in range(len(state.task_configs)):
            self.task_is_as_wanted(TaskId(name, number), target)

    def task_is_as_wanted(self, task: TaskId, target: TargetState) -> None:
        view = self.leader.herder.view
        known = self.cluster.status.tasks.get(task)
        status = None if known is None else known.state
        run = view.runs.get(task)
        if run is None and target is TargetState.PAUSED and view.paused_release:
            assert status is State.PAUSED
            assert task not in self.cluster.assignments.tasks
        elif run is None:
            assert status is State.UNASSIGNED, "it waits for a slot"
            # also attempts of an earlier term of this leader, hung ones, take up slots
            assert view.occupied >= self.leader.launcher.slots
        elif run.phase is RunPhase.ENDED and run.outcome and run.outcome.ended is AttemptEnd.FAILED:
            assert status is State.FAILED
        elif run.phase is RunPhase.ENDED:
            assert status is State.UNASSIGNED
        else:
            [attempt] = [
                a
                for a in self.cluster.attempts
                if (a.id, a.launch.attempt) == (task, run.attempt) and a.alive
            ]
            assert self.cluster.assignments.tasks[task].attempt == run.attempt
            if not attempt.hung:
                assert status is SETTLED[target]

    # --- how ---

    def unknown(self, name: str) -> int:
        return 0 if name in self.model else 404

    def asked(self, what: Callable[[Any], object], refused: int = 0) -> bool:
        """Asks the leader; False when it was refused, with the status that was to be expected.
        NOT_WRITTEN is also the answer of a leader whose writer was ended."""
        runtime: MemoryRuntime = self.leader
        before = self.cluster.ends()
        try:
            what(runtime.verbs)
        except RequestError as error:
            if isinstance(error, NotLeader) or error.refusal is Refusal.NOT_WRITTEN:
                assert not runtime.herder.leading
            else:
                assert error.status == refused or self.may_refuse(error), error
            assert self.cluster.ends() == before
            return False
        assert not refused
        # as the herder's loop does
        runtime.tick()
        return True

    def may_refuse(self, error: RequestError) -> bool:
        return False

    def may_restart(self, name: str) -> bool:
        return True


class HerdersWithoutFencing(Herders):
    """With `exactly.once.source.support=disabled`: no attempt can be fenced, so none may begin
    while an earlier one may still write."""

    worker: ClassVar[Mapping[str, str]] = {"exactly.once.source.support": "disabled"}

    def come_to_rest(self) -> None:
        """What hung wakes up or dies; then an operator restarts what nobody can know to be over."""
        self.cluster.settle()
        for attempt in self.cluster.attempts:
            attempt.hung = False
            attempt.reap()
        self.cluster.settle()
        for _ in range(2):  # the first request may find that Kafka has ended the writer
            for name in self.leader.verbs.connectors():
                with suppress(RequestError):
                    self.leader.verbs.restart(name, include_tasks=True)
            self.cluster.settle()

    def is_gone(self, name: str) -> None:
        """But for the status of what may still write: a connector of that name waits for it."""
        view = self.leader.herder.view
        assert name not in self.cluster.status.connectors
        assert name not in view.instances
        assert not [task for task in self.cluster.assignments.tasks if task.connector == name]
        left = [task for task in self.cluster.status.tasks if task.connector == name]
        assert all(may_write(view, None, task) is not None for task in left)

    def may_refuse(self, error: RequestError) -> bool:
        return "may still write" in error.message

    def may_restart(self, name: str) -> bool:
        """Whoever restarts a task says that nothing is left of what ran before."""
        runs = self.leader.herder.view.runs
        current = {(run.id, run.attempt) for run in runs.values() if run.active}
        return all(
            (attempt.id, attempt.launch.attempt) in current
            for attempt in self.cluster.attempts
            if attempt.alive and attempt.id.connector == name
        )


class HerdersThatReleaseSlots(Herders):
    """With `paused.tasks.release.slots`: nothing runs of a paused connector that has settled."""

    worker: ClassVar[Mapping[str, str]] = {PAUSED_RELEASE: "true"}

    def task_is_as_wanted(self, task: TaskId, target: TargetState) -> None:
        super().task_is_as_wanted(task, target)
        run = self.leader.herder.view.runs.get(task)
        assert target is not TargetState.PAUSED or run is None or not run.active


class HerdersThatReleaseSlotsWithoutFencing(HerdersWithoutFencing):
    """Both."""

    worker: ClassVar[Mapping[str, str]] = {
        **HerdersWithoutFencing.worker,
        **HerdersThatReleaseSlots.worker,
    }


MACHINES = (
    Herders,
    HerdersWithoutFencing,
    HerdersThatReleaseSlots,
    HerdersThatReleaseSlotsWithoutFencing,
)
for machine in MACHINES:
    machine.TestCase.settings = examples(
        50,
        stateful_step_count=30,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
TestHerders = Herders.TestCase
TestHerdersWithoutFencing = HerdersWithoutFencing.TestCase
TestHerdersThatReleaseSlots = HerdersThatReleaseSlots.TestCase
TestHerdersThatReleaseSlotsWithoutFencing = HerdersThatReleaseSlotsWithoutFencing.TestCase
