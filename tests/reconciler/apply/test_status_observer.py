"""Which statuses count after a change, and what they say: pure, and over topics in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
import yaml

from connect_reconciler.apply.context import ApplyContext, Limits
from connect_reconciler.apply.executor import ChangedConnector, Executor
from connect_reconciler.apply.health import (
    CONNECTOR,
    HealthGoal,
    HealthVerdict,
    HealthWatch,
    Observation,
    Periods,
    Verdict,
    judge,
    watch,
)
from connect_reconciler.apply.health_check import await_health
from connect_reconciler.apply.report import ConnectorReport, Health
from connect_reconciler.apply.status_observer import StatusMark, StatusObserver, marked
from connect_reconciler.backend.backend import FollowedTopics
from connect_reconciler.backend.followed_topics import ConfigTopic, StatusTopic
from connect_reconciler.backend.ledger import Ledger
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage import config_topic, status_topic
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.memory import MemoryLogs
from connect_runtime.storage.snapshots import State, Status, TaskId
from connect_specs.desired import DesiredConnector, TargetState
from connect_specs.diagnostics import Location
from support.applying import Applying, FakeTime, desired_of
from support.fake_cluster import GROUP_ID, TOPICS, FakeCluster

RUNNING, PAUSED, STOPPED, FAILED = State.RUNNING, State.PAUSED, State.STOPPED, State.FAILED
TO_RUN, TO_PAUSE = HealthGoal(), HealthGoal(TargetState.PAUSED)
TO_STOP, MAY_IDLE = HealthGoal(TargetState.STOPPED), HealthGoal(zero_tasks=True)
WELL, NOT_YET = Verdict.HEALTHY, Verdict.UNSETTLED


def seen(connector: State, *tasks: State, count: int | None = None, **more: object) -> Observation:
    parts = {number: InstanceStatus(state, "w", "boom") for number, state in enumerate(tasks)}
    status = ConnectorStatus("a", InstanceStatus(connector, "w", "boom"), parts, "unknown")
    return Observation(status, len(tasks) if count is None else count, **more)  # type: ignore[arg-type]


LOOKS = {
    case["case"]: case
    for case in yaml.safe_load(Path(__file__).with_name("health_verdicts.yaml").read_text())
}
GOALS = {"run": TO_RUN, "pause": TO_PAUSE, "stop": TO_STOP, "idle": MAY_IDLE}


@pytest.mark.parametrize("name", LOOKS)
def test_judge(name: str) -> None:
    case = dict(LOOKS[name])
    del case["case"]
    states = [State(each) for each in case.pop("seen")]
    goal, says = GOALS[case.pop("to")], case.pop("says", "")
    verdict = Verdict[case.pop("is").upper().replace("-", "_")]
    for parts in ("outdated", "restarting"):
        named = case.get(parts, ())
        case[parts] = frozenset(CONNECTOR if each == "connector" else each for each in named)
    look = seen(*states, **case) if states else Observation(None, 0, **case)
    assert judge(look, goal) == HealthVerdict(verdict, says)


@pytest.mark.parametrize(
    ("verdict", "now", "final"),
    [
        (Verdict.UNSETTLED, 1000, False),
        (Verdict.FAILED, 0, True),
        (Verdict.OLD_FAILURE, 9, False),
        (Verdict.OLD_FAILURE, 10, True),
        (Verdict.HEALTHY, 4, False),
        (Verdict.HEALTHY, 5, True),
    ],
)
def test_when_a_verdict_is_final(verdict: Verdict, now: float, final: bool) -> None:
    """Well: for two seconds, and five after the change. An old failure: ten after it."""
    state, _ = watch(HealthWatch(), HealthVerdict(verdict), 0, Periods(2, 4, 5, 10))
    assert watch(state, HealthVerdict(verdict), now, Periods(2, 4, 5, 10))[1] is final


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.HEALTHY])
def test_an_unsure_verdict_must_stand_for_a_while(verdict: Verdict) -> None:
    unsure, periods = HealthVerdict(verdict, unsure=True), Periods(2, 4, 5, 10)
    state, final = watch(HealthWatch(), unsure, 4, periods)
    assert not final
    assert not watch(state, unsure, 13, periods)[1]
    assert watch(state, unsure, 14, periods)[1]


def test_task_configs_that_are_new_make_their_tasks_speak_anew() -> None:
    since = marked(marked(None, 5, 3, {}), 7, 3, {})
    assert since == StatusMark(5, 7, 3)
    # they were not there when the statuses were read up to 7
    since = marked(since, 9, 4, {})
    assert since == StatusMark(5, 9, 4, tasks=7)
    assert marked(since, 12, 4, {}) == StatusMark(5, 12, 4, tasks=7)
    assert marked(since, 12, 5, {}) == StatusMark(5, 12, 5, tasks=9)


def test_what_tasks_said_before_a_change_counts_while_they_are_not_gone() -> None:
    old, new = InstanceStatus(RUNNING, "v"), InstanceStatus(RUNNING, "w")
    since = marked(None, 5, 3, {0: old, 1: old})
    assert marked(since, 7, 3, {0: new, 1: old}).earlier == {0: old, 1: old}
    assert marked(marked(since, 7, 3, {0: old}), 9, 4, {0: new, 1: new}).earlier == {0: old}


class World:
    """A running connector with one task, on a cluster of Apache's or ours."""

    def __init__(self, *, ours: bool = False, follow: bool = True) -> None:
        self.logs = MemoryLogs()
        for topic in ("configs", "status"):
            self.logs.create_topic(topic)
        self.writer = self.logs.writer("w")
        self.config("1")
        self.tasks(1)
        self.says(RUNNING)
        self.says(RUNNING, 0)
        configs = ConfigTopic(self.logs.reader("configs"))
        statuses = StatusTopic(self.logs.reader("status"))
        self.observer = StatusObserver(
            FollowedTopics(configs, statuses, ours=ours, tasks_follow=lambda: follow)
        )

    def write(self, *records: NewRecord) -> None:
        self.writer.write(records)

    def config(self, value: str) -> None:
        self.write(config_topic.connector_record("configs", "a", {"v": value}))

    def tasks(self, count: int) -> None:
        self.write(
            *config_topic.task_config_records("configs", "a", [{}] * count),
            config_topic.commit_record("configs", "a", count),
        )

    def says(self, state: State, task: int | None = None, worker: str = "w") -> None:
        status = Status(state, worker, 1, "boom" if state is FAILED else None)
        record = status_topic.connector_record("status", "a", status)
        if task is not None:
            record = status_topic.task_record("status", TaskId("a", task), status)
        self.write(record)

    def judged(self, wanted: HealthGoal = TO_RUN, *, long_ago: bool = False) -> Verdict:
        return self.judgement(wanted, long_ago=long_ago).verdict

    def judgement(self, wanted: HealthGoal = TO_RUN, *, long_ago: bool = False) -> HealthVerdict:
        self.observer.read()
        return judge(self.observer.observe("a", long_ago=long_ago), wanted)


def test_a_new_config_needs_a_new_word_of_connector_and_tasks() -> None:
    world = World()
    world.observer.mark("a", expects_status=True)
    world.config("2")
    assert world.judged() is NOT_YET
    world.says(RUNNING)
    assert world.judged() is NOT_YET
    world.says(RUNNING, 0)  # it is of the old config still
    assert world.judged() is NOT_YET
    world.tasks(1)
    assert world.judged() is NOT_YET
    world.says(RUNNING, 0)
    assert world.judged() is WELL


def test_a_task_that_moves_while_the_change_is_asked_for_says_nothing_of_it() -> None:
    """The trap: its worker is gone, another one runs it with the old config, and says so."""
    world = World()
    world.observer.mark("a", expects_status=True)
    world.says(RUNNING, 0)
    world.config("2")
    world.observer.mark("a")
    world.says(RUNNING)
    world.tasks(1)
    assert world.judged() is NOT_YET
    world.says(RUNNING, 0)
    assert world.judged() is WELL


@pytest.mark.parametrize("state", [RUNNING, FAILED])
@pytest.mark.parametrize(
    ("worker", "ours"),
    [("v", False), ("w", False), ("v", True)],
    ids=["taken over", "resumed", "taken over by a standby"],
)
def test_a_task_that_was_not_stopped_may_speak_of_its_old_config(
    ours: bool, state: State, worker: str
) -> None:
    """The trap: it speaks, and then its new config is written, both between two looks."""
    world = World(ours=ours)
    world.observer.mark("a", expects_status=True)
    world.config("2")
    world.observer.mark("a")
    world.says(RUNNING, worker=worker)
    world.says(state, 0, worker=worker)
    world.tasks(1)
    assert world.judgement().unsure
    world.says(State.UNASSIGNED, 0, worker=worker)
    assert world.judgement() != HealthVerdict(WELL)
    world.says(state, 0, worker=worker)
    expected = WELL if state is RUNNING else Verdict.FAILED
    assert world.judgement() == HealthVerdict(
        expected, "" if state is RUNNING else "task 0 failed: boom"
    )


def test_a_task_that_one_worker_stopped_may_be_started_by_another_with_its_old_config() -> None:
    world = World()
    world.observer.mark("a", expects_status=True)
    world.config("2")
    world.says(RUNNING)
    world.says(State.UNASSIGNED, 0)
    world.says(RUNNING, 0, worker="v")
    world.tasks(1)
    assert world.judgement().unsure


def test_a_task_that_had_failed_ran_no_more() -> None:
    world = World()
    world.says(FAILED, 0)
    world.observer.mark("a", expects_status=True)
    world.config("2")
    world.says(RUNNING)
    world.tasks(1)
    world.says(RUNNING, 0)
    assert world.judgement() == HealthVerdict(WELL)


@dataclass
class Waited:
    """What the health check needs of an executor: connector `a`, changed at time 0."""

    changed: Mapping[str, ChangedConnector] = field(
        default_factory=lambda: {"a": ChangedConnector(TO_RUN, None, at=0.0)}
    )

    def redact(self, name: str, text: str) -> str:
        return text


@pytest.mark.parametrize(
    ("says", "fails_at", "health", "detail", "took_s"),
    [
        (RUNNING, None, Health.RUNNING, "", 10),
        (FAILED, None, Health.FAILED, "task 0 failed: boom", 10),
        (RUNNING, 6.0, Health.FAILED, "task 0 failed: boom", 11),
    ],
)
def test_a_task_that_moved_has_time_to_settle_after_the_health_timeout(
    says: State, fails_at: float | None, health: Health, detail: str, took_s: int
) -> None:
    """The trap: with a timeout below `--settle`, a connector whose task moved is never healthy."""
    world, time = World(), FakeTime()
    world.observer.mark("a", expects_status=True)
    world.config("2")
    world.observer.mark("a")
    world.says(RUNNING, worker="v")
    world.says(says, 0, worker="v")
    world.tasks(1)

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        if time.at == fails_at:
            world.says(FAILED, 0, worker="v")

    applying = Applying()
    applying.kafka.create_topics()
    limits = Limits(health_s=1, settle_s=10).healthy_for(0.5)
    context = ApplyContext(
        FakeCluster(applying.kafka, runs_tasks=True),
        Ledger.open(applying.kafka.logs, TOPICS.ledger, GROUP_ID),
        applying.lease,
        ConfigTopic(applying.kafka.logs.reader(TOPICS.config)),
        "test",
        limits,
        replace(time.clock(), sleep=sleep),
        observer=world.observer,
    )
    reports = await_health({"a": ConnectorReport("a", ())}, cast(Executor, Waited()), context)
    assert (reports["a"].health, reports["a"].health_detail) == (health, detail)
    assert int(time.at) == took_s


def test_a_task_that_was_stopped_before_its_change_may_start_on_any_worker() -> None:
    """Its old config is gone."""
    world = World()
    world.observer.mark("a", expects_status=True)
    world.write(status_topic.task_record("status", TaskId("a", 0), None))
    world.tasks(0)
    world.says(STOPPED)
    world.observer.mark("a")
    world.config("2")
    world.says(RUNNING, worker="v")
    world.tasks(1)
    world.says(RUNNING, 0, worker="v")
    assert world.judgement() == HealthVerdict(WELL)


def test_a_task_that_moves_with_its_config_unchanged_counts() -> None:
    world = World()
    world.observer.mark("a", expects_status=False)
    world.says(RUNNING, 0, worker="v")
    assert world.judgement() == HealthVerdict(WELL)


def test_a_task_that_spoke_before_its_new_config_was_seen_counts() -> None:
    """Both between two looks: it can only have been the new task."""
    world = World()
    world.observer.mark("a", expects_status=True)
    world.config("2")
    world.says(RUNNING)
    world.tasks(1)
    world.says(FAILED, 0)
    assert world.judged() is Verdict.FAILED


@pytest.mark.parametrize("ours", [False, True])
def test_a_task_that_failed_before_its_new_config_is_waited_for(ours: bool) -> None:
    """The trap: its start takes longer than a while, so what was mended counts as failed."""
    world = World(ours=ours)
    world.says(FAILED, 0)
    world.observer.mark("a", expects_status=True)
    world.config("2")
    world.says(RUNNING)
    world.tasks(1)
    assert world.judged(long_ago=True) is NOT_YET
    world.says(RUNNING, 0)
    assert world.judged(long_ago=True) is WELL


def test_tasks_whose_configs_stayed_keep_their_status() -> None:
    """A resume: they go on, and say so; nothing is made anew."""
    world = World()
    world.says(PAUSED)
    world.says(PAUSED, 0)
    world.observer.mark("a", expects_status=True)
    assert world.judged() is NOT_YET
    world.says(RUNNING)
    assert world.judged() is NOT_YET
    world.says(RUNNING, 0)
    assert world.judged() is WELL


def test_a_restart_of_what_failed_says_nothing_of_the_rest() -> None:
    world = World()
    world.says(FAILED, 0)
    world.observer.mark("a", expects_status=False)
    assert world.judged() is Verdict.OLD_FAILURE
    world.says(RUNNING, 0)
    assert world.judged() is WELL


def test_before_connect_3_9_tasks_may_stay_as_they_are() -> None:
    """A config that makes the same task configs: nothing tells, so it is waited for."""
    world = World(follow=False)
    world.observer.mark("a", expects_status=True)
    world.config("2")
    world.says(RUNNING)
    assert world.judged() is NOT_YET
    assert world.judged(long_ago=True) is WELL
    strict = World()
    strict.observer.mark("a", expects_status=True)
    strict.config("2")
    strict.says(RUNNING)
    assert strict.judged(long_ago=True) is NOT_YET


def test_our_runtime_does_not_repeat_what_it_said() -> None:
    """It makes task configs only of a connector that runs with its config."""
    world = World(ours=True)
    world.observer.mark("a", expects_status=True)
    world.config("2")
    assert world.judged() is NOT_YET
    world.tasks(1)
    assert world.judged() is NOT_YET
    world.says(RUNNING, 0)
    assert world.judged() is WELL


class Late(FakeCluster):
    """Over REST its task goes on saying that it runs, until it says otherwise."""

    def __init__(self, world: Applying, then: State, after_s: float) -> None:
        super().__init__(world.kafka, runs_tasks=True)
        self.world, self.then, self.after_s = world, then, after_s

    def status(self, name: str) -> ConnectorStatus:
        runs = InstanceStatus(RUNNING, "w")
        task = InstanceStatus(self.then, "w", "boom") if self.passed else runs
        return ConnectorStatus(name, runs, {0: task}, "sink")

    @property
    def passed(self) -> bool:
        return self.world.time.at >= self.after_s


@pytest.mark.parametrize(
    ("settle_s", "health", "at_s"),
    [(10, Health.FAILED, 18), (0, Health.FAILED, 8)],
    ids=["settle", "at once"],
)
def test_over_rest_alone_a_status_counts_only_after_a_while(
    settle_s: float, health: Health, at_s: float
) -> None:
    """A task that existed before failed after 8 s, perhaps still with its old config."""
    world = Applying(key=b"key", limits=Limits(settle_s=settle_s))
    world.kafka.create_topics()
    config = {"name": "a", "connector.class": "FileStreamSink", "topics": "t"}
    spec = DesiredConnector("a", config, Location("a.yaml", 1, 1))
    report = world.apply(desired_of(spec), cluster=Late(world, FAILED, 8))
    assert report.connectors[0].health is health
    assert at_s <= world.time.at < at_s + 1


def test_over_rest_alone_a_task_that_fails_with_its_old_config_first_is_waited_for() -> None:
    """The trap: a paused task is resumed before its new config is there, and fails once more."""

    class Mended(Late):
        def status(self, name: str) -> ConnectorStatus:
            found = super().status(name)
            if self.world.time.at < 2 or self.world.time.at >= 4:
                return found
            return replace(found, tasks={0: InstanceStatus(FAILED, "w", "old")})

    world = Applying(key=b"key")
    world.kafka.create_topics()
    config = {"name": "a", "connector.class": "FileStreamSink", "topics": "t"}
    spec = DesiredConnector("a", config, Location("a.yaml", 1, 1))
    report = world.apply(desired_of(spec), cluster=Mended(world, RUNNING, 0))
    assert report.connectors[0].health is Health.RUNNING


def test_over_rest_alone_what_failed_before_counts_after_a_while() -> None:
    world = Applying(key=b"key")
    world.kafka.create_topics()
    config = {"name": "a", "connector.class": "FileStreamSink", "topics": "t"}
    spec = DesiredConnector("a", config, Location("a.yaml", 1, 1))
    report = world.apply(desired_of(spec), cluster=Late(world, FAILED, 0))
    assert report.connectors[0].health is Health.FAILED
    assert report.connectors[0].health_detail == "task 0 failed before: boom"
    assert 10 <= world.time.at < 11


def test_the_first_status_that_was_ever_written_counts() -> None:
    """The topic is empty before the first change."""
    world = World()
    logs = MemoryLogs()
    logs.create_topic("status")
    statuses = StatusTopic(logs.reader("status"))
    world.observer.followed = replace(world.observer.followed, statuses=statuses)
    world.observer.mark("a", expects_status=True)
    logs.writer("x").write(
        [
            status_topic.connector_record("status", "a", Status(RUNNING, "w", 1)),
            status_topic.task_record("status", TaskId("a", 0), Status(RUNNING, "w", 1)),
        ]
    )
    assert world.judged() is WELL
