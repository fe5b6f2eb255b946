"""What an apply does, refuses and reports, over a fake cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from connect_reconciler.apply.report import (
    Finished,
    Health,
    Outcome,
    Performed,
    Started,
)
from connect_reconciler.backend.followed_topics import ConfigTopic, StoredConnector
from connect_reconciler.backend.ledger import Ledger
from connect_reconciler.backend.observe.connector_offsets import ConnectorClusters
from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_reconciler.backend.rest.client import OutcomeUnknown
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.ledger_records import owned_record
from connect_reconciler.model.live import GroupMember, LogRange
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.desired import DesiredConnector, OffsetEntry, Pin, TargetState
from connect_specs.diagnostics import (
    Diagnostic,
    ExitCode,
    Failed,
    Invalid,
    Location,
    Stale,
    Unreachable,
)
from support.applying import PROJECT, Applying, FakeTime, desired_of, names
from support.fake_cluster import GROUP_ID, TOPICS, FakeCluster, FakeKafka, refused

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
SINK = {"connector.class": "FileStreamSink", "topics": "t"}
ENTRY = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})
ACTIVE = (
    "Failed to alter consumer group offsets for connector a either because its tasks haven't "
    "stopped completely yet or the connector was resumed before ..."
)


def spec(
    name: str,
    config: Mapping[str, str] | None = None,
    state: TargetState | None = None,
    pin: Pin | None = None,
) -> DesiredConnector:
    where = Location(f"{name}.yaml", 1, 1)
    return DesiredConnector(name, {**SINK, **(config or {}), "name": name}, where, state, pin)


PIN = Pin("p", (ENTRY,))


@pytest.fixture
def world() -> Applying:
    made = Applying(key=b"key")
    made.kafka.create_topics()
    made.kafka.ranges["t", 0] = LogRange(0, 100)
    return made


@pytest.fixture
def cluster(world: Applying) -> FakeCluster:
    return FakeCluster(world.kafka)


def own(world: Applying, cluster: FakeCluster, name: str, target: TargetState = RUNNING) -> None:
    config = {**SINK, "name": name}
    cluster.create(name, config, target)
    record = owned_record(TOPICS.ledger, name, Owned("orders", config, None))
    world.kafka.logs.writer("setup").write([record])


def test_progress_follows_the_journal(world: Applying, cluster: FakeCluster) -> None:
    own(world, cluster, "a")
    desired = desired_of(spec("a", pin=PIN))
    report = world.apply(desired, cluster=cluster)
    assert report.exit_code is ExitCode.OK
    assert [type(event) for event in world.events if not isinstance(event, Finished)][1:7] == [
        Started,
        Performed,
        Started,
        Performed,
        Started,
        Performed,
    ]
    assert [type(r.action).__name__ for c in report.connectors for r in c.results] == [
        "Stop",
        "AlterOffsets",
        "Resume",
    ]
    assert report.connectors[0].health is Health.LATER
    assert world.kafka.groups["connect-a"] == {("t", 0): 7}
    assert world.plan(desired).actions == ()


# --- before anything is touched ---


@pytest.mark.parametrize(
    "move",
    [
        lambda cluster: cluster.update_config("a", {**SINK, "name": "a", "tasks.max": "9"}),
        lambda cluster: cluster.delete("a"),
        lambda cluster: cluster.set_target("a", TargetState.STOPPED),
    ],
)
def test_a_stale_plan_touches_nothing(
    world: Applying, cluster: FakeCluster, move: Callable[[FakeCluster], None]
) -> None:
    own(world, cluster, "a")
    desired = desired_of(spec("a", pin=PIN), spec("b"))
    plan = world.plan(desired)
    move(cluster)
    before = len(world.kafka.records(TOPICS.config)), len(world.kafka.records(TOPICS.ledger))
    with pytest.raises(Stale):
        world.apply(desired, plan, cluster=cluster)
    after = len(world.kafka.records(TOPICS.config)), len(world.kafka.records(TOPICS.ledger))
    assert before == after


@pytest.mark.parametrize(
    ("made_for", "code", "what"),
    [
        ({"project": "refunds"}, "stale.project", "the plan is for project refunds on orders"),
        ({"group_id": "other"}, "stale.project", "the plan is for project orders on other"),
        ({"env": "prod"}, "stale.environment", "the plan is for environment prod"),
    ],
)
def test_a_plan_for_another_project_or_environment_touches_nothing(
    world: Applying, cluster: FakeCluster, made_for: dict[str, str], code: str, what: str
) -> None:
    desired = desired_of(spec("a"))
    other = replace(world.plan(desired), **made_for)
    with pytest.raises(Stale) as refused:
        world.apply(desired, other, cluster=cluster)
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.what) == (code, what)
    assert cluster.config("a") is None


def test_a_secret_that_changed_makes_the_plan_stale(world: Applying) -> None:
    plan = world.plan(desired_of(spec("a", {"db.password": "hunter2"})))
    with pytest.raises(Stale, match=r"db\.password") as stale:
        world.apply(desired_of(spec("a", {"db.password": "other"})), plan)
    assert "hunter2" not in str(stale.value)
    assert "other" not in str(stale.value)


def test_secrets_are_written_and_recorded_as_fingerprints(
    world: Applying, cluster: FakeCluster
) -> None:
    desired = desired_of(spec("a", {"db.password": "hunter2"}))
    plan = world.plan(desired)
    assert world.apply(desired, plan, cluster=cluster).exit_code == 0
    assert (cluster.config("a") or {})["db.password"] == "hunter2"
    ledger = world.kafka.records(TOPICS.ledger)
    assert not [record for record in ledger if b"hunter2" in (record.value or b"")]
    assert world.plan(desired).actions == ()


def test_a_first_apply_makes_the_key(world: Applying) -> None:
    world.key = None
    desired = desired_of(spec("a", {"db.password": "hunter2"}))
    assert world.apply(desired).exit_code == 0
    assert len(world.ledger().fingerprint_key or b"") == 32
    assert world.plan(desired).actions == ()


# --- failures ---


def test_one_failure_does_not_stop_the_others(world: Applying, cluster: FakeCluster) -> None:
    own(world, cluster, "a")

    def refuse(name: str) -> None:
        raise refused("Failed to alter consumer group offsets for connector a")

    cluster.on_alter = refuse
    desired = desired_of(spec("a", pin=PIN), spec("b"))
    report = world.apply(desired, cluster=cluster)
    assert report.exit_code is ExitCode.FAILED
    by_name = {each.name: each for each in report.connectors}
    assert [r.outcome for r in by_name["a"].results] == [
        Outcome.DONE,
        Outcome.FAILED,
        Outcome.SKIPPED,
    ]
    assert by_name["a"].left == "stopped; the next apply brings it back to running"
    assert by_name["b"].ok
    cluster.on_alter = lambda name: None
    assert names(world.plan(desired)) == ["AlterOffsets a", "Resume a"]
    assert world.apply(desired, cluster=cluster).exit_code == 0


def test_a_change_from_outside_fails_that_connector_alone(
    world: Applying, cluster: FakeCluster
) -> None:
    own(world, cluster, "a")
    own(world, cluster, "b")
    desired = desired_of(spec("a", {"file": "x"}), spec("b", {"file": "x"}))
    plan = world.plan(desired)

    def interfere(name: str, config: Mapping[str, str]) -> None:
        FakeCluster.update_config(cluster, name, config)
        FakeCluster.update_config(cluster, "b", {**SINK, "name": "b", "file": "by hand"})

    cluster.update_config = interfere  # type: ignore[method-assign]
    report = world.apply(desired, plan, cluster=cluster)
    assert [each.ok for each in report.connectors] == [True, False]
    assert "config is not the one" in report.connectors[1].results[0].detail
    assert report.connectors[1].left == "running"


def test_a_secret_in_an_answer_is_hidden(world: Applying, cluster: FakeCluster) -> None:
    def refuse(name: str, config: Mapping[str, str], state: TargetState) -> None:
        raise refused(f"Invalid value {config['db.password']} for configuration db.password", 400)

    cluster.create = refuse  # type: ignore[method-assign]
    report = world.apply(desired_of(spec("a", {"db.password": "hunter2"})), cluster=cluster)
    detail = report.connectors[0].results[0].detail
    assert detail == "Invalid value (hidden) for configuration db.password"
    assert "hunter2" not in repr(report)
    kept = world.kafka.records(TOPICS.ledger)
    assert not [record for record in kept if b"hunter2" in (record.value or b"")]


def test_a_secret_of_a_template_is_hidden_where_an_answer_quotes_it_alone(
    world: Applying, cluster: FakeCluster
) -> None:
    def refuse(name: str, config: Mapping[str, str], state: TargetState) -> None:
        raise refused("hunter2 is no column", 400)

    cluster.create = refuse  # type: ignore[method-assign]
    query = spec("a", {"query": "select hunter2"})
    desired = desired_of(replace(query, sensitive=("query",), secrets=("hunter2",)))
    report = world.apply(desired, cluster=cluster)
    assert report.connectors[0].results[0].detail == "(hidden) is no column"


@pytest.mark.parametrize("took_place", [True, False])
def test_an_unanswered_request_is_read_back(
    world: Applying, cluster: FakeCluster, took_place: bool
) -> None:
    def silent(name: str, config: Mapping[str, str], state: TargetState) -> None:
        if took_place:
            FakeCluster.create(cluster, name, config, state)
        raise OutcomeUnknown(Diagnostic("cluster.no-answer", "no answer came"))

    cluster.create = silent  # type: ignore[method-assign]
    report = world.apply(desired_of(spec("a"), spec("b", state=STOPPED)), cluster=cluster)
    expected = Outcome.DONE if took_place else Outcome.UNKNOWN
    assert [each.results[0].outcome for each in report.connectors] == [expected, expected]
    assert report.exit_code is (ExitCode.OK if took_place else ExitCode.FAILED)


def test_a_cluster_that_is_gone_ends_the_apply(world: Applying, cluster: FakeCluster) -> None:
    def gone(name: str, config: Mapping[str, str], state: TargetState) -> None:
        raise Unreachable(Diagnostic("cluster.unreachable", "connection refused"))

    cluster.create = gone  # type: ignore[method-assign]
    report = world.apply(desired_of(spec("a"), spec("b")), cluster=cluster)
    assert [each.results[0].outcome for each in report.connectors] == [
        Outcome.UNKNOWN,
        Outcome.SKIPPED,
    ]
    assert report.exit_code is ExitCode.UNREACHABLE
    assert report.ended_by[0].code == "cluster.unreachable"


def test_a_failed_connector_whose_state_cannot_be_read_says_so(
    world: Applying, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, config: Mapping[str, str], state: TargetState) -> None:
        monkeypatch.setattr(ConfigTopic, "__call__", unreadable)
        raise refused("Invalid value", 400)

    def unreadable(*_: object, **__: object) -> None:
        raise Failed(Diagnostic("log.blocked", "an open transaction hides records"))

    cluster.create = fail  # type: ignore[method-assign]
    report = world.apply(desired_of(spec("a")), cluster=cluster)
    assert report.connectors[0].left == "its state could not be read"


def test_a_lost_lease_is_noticed_between_actions(world: Applying, cluster: FakeCluster) -> None:
    own(world, cluster, "a")

    def lose(name: str) -> None:
        world.lease.gone = True

    cluster.on_alter = lose
    report = world.apply(desired_of(spec("a", pin=PIN)), cluster=cluster)
    assert [r.outcome for r in report.connectors[0].results] == [
        Outcome.DONE,
        Outcome.DONE,
        Outcome.SKIPPED,
    ]
    assert report.ended_by[0].code == "apply.lease-lost"
    assert world.observe(desired_of()).connectors["a"].target is STOPPED


def test_an_apply_that_was_taken_over_is_fenced(world: Applying, cluster: FakeCluster) -> None:
    own(world, cluster, "a")
    cluster.on_alter = lambda name: Ledger.open(world.kafka.logs, TOPICS.ledger, GROUP_ID).close()
    desired = desired_of(spec("a", pin=PIN))
    report = world.apply(desired, cluster=cluster)
    assert [r.outcome for r in report.connectors[0].results] == [
        Outcome.DONE,
        Outcome.UNKNOWN,
        Outcome.SKIPPED,
    ]
    assert report.ended_by[0].code == "apply.taken-over"
    assert world.ledger().pins == {}
    cluster.on_alter = lambda name: None
    assert world.apply(desired, cluster=cluster).exit_code == 0


def test_ctrl_c_stops_between_two_actions(world: Applying, cluster: FakeCluster) -> None:
    own(world, cluster, "a")
    told: list[bool] = []
    cluster.on_alter = lambda name: told.append(True)
    desired = desired_of(spec("a", pin=PIN), spec("b"))
    report = world.apply(desired, cluster=cluster, stop=lambda: bool(told))
    assert report.exit_code is ExitCode.INTERRUPTED
    assert report.counts == {
        Outcome.DONE: 2,
        Outcome.FAILED: 0,
        Outcome.SKIPPED: 2,
        Outcome.UNKNOWN: 0,
    }
    assert world.apply(desired, cluster=cluster).exit_code == 0


def test_a_hold_that_was_overtaken_is_taken_back(world: Applying, cluster: FakeCluster) -> None:
    """Else a later stop by hand would be taken for the apply's own."""
    own(world, cluster, "a")
    held = Owned("orders", {**SINK, "name": "a"}, None, restore_to=RUNNING)
    world.kafka.logs.writer("setup").write([owned_record(TOPICS.ledger, "a", held)])
    world.apply(desired_of(spec("a"), spec("b")), cluster=cluster)
    assert world.ledger().connectors["a"].restore_to is None
    cluster.set_target("a", TargetState.STOPPED)
    assert world.plan(desired_of(spec("a"), spec("b"))).actions == ()


# --- waiting ---


def test_what_is_created_to_run_lets_go_of_its_pin(world: Applying, cluster: FakeCluster) -> None:
    """Else a later stop would take its offsets back to where the pin once put them."""
    parked = desired_of(spec("a", state=TargetState.STOPPED, pin=PIN))
    assert world.apply(parked, cluster=cluster).exit_code is ExitCode.OK
    cluster.delete("a")
    assert world.apply(desired_of(spec("a", pin=PIN)), cluster=cluster).exit_code is ExitCode.OK
    world.kafka.groups["connect-a"] = {("t", 0): 90}
    assert names(world.plan(parked)) == ["Stop a"]


def test_a_group_that_is_still_active_is_asked_again(world: Applying, cluster: FakeCluster) -> None:
    own(world, cluster, "a")
    refusals = iter([refused(ACTIVE), refused(ACTIVE)])

    def busy(name: str) -> None:
        error = next(refusals, None)
        if error is not None:
            raise error

    cluster.on_alter = busy
    assert world.apply(desired_of(spec("a", pin=PIN)), cluster=cluster).exit_code == 0
    assert world.time.at > 0


def test_a_group_that_stays_active_fails_the_connector(
    world: Applying, cluster: FakeCluster
) -> None:
    own(world, cluster, "a")

    def busy(name: str) -> None:
        raise refused(ACTIVE)

    cluster.on_alter = busy
    report = world.apply(desired_of(spec("a", pin=PIN)), cluster=cluster)
    assert "haven't stopped completely" in report.connectors[0].results[1].detail
    assert 29 < world.time.at < 35
    # It was stopped for nothing
    assert report.connectors[0].left == "running"
    assert world.ledger().restore_to("a") is None
    assert world.observe(desired_of()).connectors["a"].target is TargetState.RUNNING


class Leaving(FakeTime):
    """After ten seconds Kafka gives up the members of all groups."""

    def __init__(self, kafka: FakeKafka) -> None:
        super().__init__()
        self.kafka = kafka

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.at > 10:
            self.kafka.members.clear()


def test_a_sink_is_not_stopped_while_strangers_read_with_its_group(
    world: Applying, cluster: FakeCluster
) -> None:
    """Kafka would not move its offsets, and it would stand still for nothing."""
    own(world, cluster, "a")
    member = GroupMember("mine", "/10.0.0.1")
    world.kafka.members["connect-a"] = [member]
    desired = desired_of(spec("a", pin=PIN))
    plan = world.plan(desired)
    assert [each.code for each in plan.warnings] == ["plan.group-members"]
    assert "mine at 10.0.0.1" in plan.warnings[0].what
    asked: list[TargetState] = []
    set_target = cluster.set_target
    cluster.set_target = lambda name, target: (asked.append(target), set_target(name, target))[1]  # type: ignore[method-assign,func-returns-value]
    (report,) = world.apply(desired, cluster=cluster).connectors
    assert [each.outcome for each in report.results] == [
        Outcome.FAILED,
        Outcome.SKIPPED,
        Outcome.SKIPPED,
    ]
    assert "mine at 10.0.0.1" in report.results[0].detail
    assert asked == []
    assert report.left == "running"
    # A task that was killed is a member until Kafka gives it up
    world.time = Leaving(world.kafka)
    assert world.apply(desired, cluster=cluster).exit_code == 0


def test_a_sink_whose_own_kafka_cannot_be_asked_stops_no_other(
    world: Applying, cluster: FakeCluster
) -> None:
    """The trap: that counted as if the worker's cluster were unreachable, and ended the apply. Who
    reads with the group is not known then, and whether its offsets move is for the workers."""
    clusters = ConnectorClusters(PROJECT, {}, world.kafka)

    def view_of_sink(name: str, config: Mapping[str, str]) -> KafkaPort:
        if name == "b":
            # It was there when the plan was made
            raise Unreachable(Diagnostic("kafka.unreachable", "no broker answers"))
        return clusters.view_of_sink(name, config)

    world.view_of_sink = view_of_sink
    away = {"consumer.override.sasl.jaas.config": "${file:/etc/kafka:login}"}
    world.apply(desired_of(spec("a", away), spec("b"), spec("c")), cluster=cluster)
    to_start, more = spec("b", pin=Pin("p", to="earliest")), spec("c", {"tasks.max": "2"})
    report = world.apply(desired_of(spec("a", away, pin=PIN), to_start, more), cluster=cluster)
    outcomes = {each.name: [done.outcome for done in each.results] for each in report.connectors}
    assert outcomes == {
        "a": [Outcome.DONE] * 3,
        "b": [Outcome.DONE, Outcome.FAILED, Outcome.DONE],
        "c": [Outcome.DONE],
    }
    assert world.observe(desired_of()).connectors["b"].target is RUNNING


def status(
    connector: State, task: State | None = None, trace: str | None = None
) -> ConnectorStatus:
    tasks = {} if task is None else {0: InstanceStatus(task, "w", trace)}
    return ConnectorStatus("a", InstanceStatus(connector, "w"), tasks, "sink")


def runs(world: Applying) -> FakeCluster:
    return FakeCluster(world.kafka, runs_tasks=True)


def test_it_waits_until_everything_runs(world: Applying) -> None:
    """An apply waits until its connectors and their tasks are healthy."""
    cluster = runs(world)
    cluster.statuses["a"] = [
        None,
        status(State.RUNNING),
        status(State.RUNNING, State.UNASSIGNED),
        status(State.RUNNING, State.UNASSIGNED),
        status(State.RUNNING, State.RUNNING),
    ]
    report = world.apply(desired_of(spec("a")), cluster=cluster)
    assert report.connectors[0].health is Health.RUNNING
    assert report.exit_code is ExitCode.OK
    # It looked until the last of them
    assert cluster.statuses["a"] == [status(State.RUNNING, State.RUNNING)]


def test_a_cluster_without_an_answer_while_it_is_watched_is_asked_again(
    world: Applying, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [refused("a rebalance is expected", 409)]

    class Rebalancing(ConfigTopic):
        def __call__(self, name: str) -> StoredConnector | None:
            if world.time.at > 0 and refusals:
                raise refusals.pop()
            return super().__call__(name)

    monkeypatch.setattr("support.applying.ConfigTopic", Rebalancing)
    cluster = runs(world)
    cluster.statuses["a"] = [status(State.RUNNING, State.RUNNING)]
    report = world.apply(desired_of(spec("a")), cluster=cluster)
    assert refusals == []
    assert report.exit_code is ExitCode.OK


def test_a_task_that_has_not_begun_is_waited_for(world: Applying) -> None:
    cluster = runs(world)
    seen: list[float] = []

    def status_of(name: str) -> ConnectorStatus:
        if len(seen) == 1:  # the first look was before the connector was created
            cluster.publish_tasks(name, 1)
        seen.append(world.time.at)
        return status(State.RUNNING, State.RUNNING if world.time.at > 9 else None)

    cluster.status = status_of  # type: ignore[method-assign]
    report = world.apply(desired_of(spec("a")), cluster=cluster)
    assert report.connectors[0].health is Health.RUNNING
    assert 19 < world.time.at < 20


def test_a_failed_task_is_a_failed_connector(world: Applying) -> None:
    cluster = runs(world)
    trace = 'Traceback (most recent call last):\n  File "x", line 1\nValueError: hunter2 is wrong\n'
    cluster.statuses["a"] = [None, status(State.RUNNING, State.FAILED, trace)]
    report = world.apply(desired_of(spec("a", {"db.password": "hunter2"})), cluster=cluster)
    assert report.connectors[0].health is Health.FAILED
    assert report.connectors[0].health_detail == "task 0 failed: ValueError: (hidden) is wrong"
    assert report.exit_code is ExitCode.FAILED


def test_a_failure_from_before_the_change_counts_only_if_it_stays(world: Applying) -> None:
    cluster = runs(world)
    own(world, cluster, "a")
    old = status(State.RUNNING, State.FAILED, "old")
    cluster.statuses["a"] = [old] * 4 + [status(State.RUNNING, State.RUNNING)]
    report = world.apply(desired_of(spec("a", {"file": "x"})), cluster=cluster)
    assert report.connectors[0].health is Health.RUNNING
    cluster.statuses["a"] = [old]
    report = world.apply(desired_of(spec("a", {"file": "y"})), cluster=cluster)
    assert report.connectors[0].health is Health.FAILED


def test_what_does_not_come_up_is_said(world: Applying) -> None:
    cluster = runs(world)
    cluster.statuses["a"] = [status(State.RUNNING, State.UNASSIGNED)]
    report = world.apply(desired_of(spec("a")), cluster=cluster)
    assert report.connectors[0].health is Health.TIMED_OUT
    assert report.connectors[0].health_detail == "task 0 is UNASSIGNED"


def test_whether_it_runs_is_not_known_when_the_cluster_is_gone(world: Applying) -> None:
    cluster = runs(world)
    looks: list[str] = []

    def status_of(name: str) -> ConnectorStatus | None:
        looks.append(name)
        if len(looks) > 2:
            raise Unreachable(Diagnostic("cluster.unreachable", "connection refused"))
        return None

    cluster.status = status_of  # type: ignore[method-assign]
    report = world.apply(desired_of(spec("a")), cluster=cluster)
    assert [each.outcome for each in report.connectors[0].results] == [Outcome.DONE]
    assert report.connectors[0].health is Health.UNKNOWN
    assert "connection refused" in report.connectors[0].health_detail
    assert report.exit_code is ExitCode.FAILED


def test_a_stop_waits_until_the_tasks_are_gone(world: Applying) -> None:
    cluster = runs(world)
    own(world, cluster, "a")
    ends = [status(State.RUNNING, State.RUNNING)] * 3 + [status(State.STOPPED)]
    cluster.statuses["a"] = ends
    report = world.apply(desired_of(spec("a", state=STOPPED)), cluster=cluster)
    assert report.exit_code is ExitCode.OK
    assert world.time.at >= 0.5


def test_one_that_does_not_stop_is_left_alone(world: Applying) -> None:
    cluster = runs(world)
    own(world, cluster, "a")
    cluster.statuses["a"] = [status(State.RUNNING, State.RUNNING)]
    report = world.apply(desired_of(spec("a", pin=PIN)), cluster=cluster)
    assert [r.outcome for r in report.connectors[0].results] == [
        Outcome.FAILED,
        Outcome.SKIPPED,
        Outcome.SKIPPED,
    ]
    assert "task 0 is RUNNING" in report.connectors[0].results[0].detail
    assert world.kafka.groups == {}


def test_ctrl_c_lets_a_stop_in_progress_finish(world: Applying) -> None:
    cluster = runs(world)
    own(world, cluster, "a")
    ends = [status(State.RUNNING, State.RUNNING)] * 9 + [status(State.STOPPED)]
    cluster.statuses["a"] = ends
    told: list[bool] = []
    set_target = cluster.set_target

    def stopped(name: str, target: TargetState) -> None:
        set_target(name, target)
        told.append(True)

    cluster.set_target = stopped  # type: ignore[method-assign]
    desired = desired_of(spec("a", pin=PIN))
    report = world.apply(desired, cluster=cluster, stop=lambda: bool(told))
    outcomes = [each.outcome for each in report.connectors[0].results]
    assert outcomes == [Outcome.DONE, Outcome.SKIPPED, Outcome.SKIPPED]
    assert report.exit_code is ExitCode.INTERRUPTED


def test_ctrl_c_lets_a_request_to_a_busy_group_finish(
    world: Applying, cluster: FakeCluster
) -> None:
    own(world, cluster, "a")
    told: list[bool] = []

    def active(name: str) -> None:
        told.append(True)
        if len(told) < 4:
            raise refused(ACTIVE)

    cluster.on_alter = active
    desired = desired_of(spec("a", pin=PIN))
    report = world.apply(desired, cluster=cluster, stop=lambda: bool(told))
    outcomes = [each.outcome for each in report.connectors[0].results]
    assert outcomes == [Outcome.DONE, Outcome.DONE, Outcome.SKIPPED]


def test_a_lost_lease_ends_a_wait_in_an_action(world: Applying) -> None:
    """Nothing may be asked of a connector for a minute that another apply works on."""
    cluster = runs(world)
    own(world, cluster, "a")
    cluster.statuses["a"] = [status(State.RUNNING, State.RUNNING)]
    set_target = cluster.set_target

    def stopped(name: str, target: TargetState) -> None:
        set_target(name, target)
        world.lease.gone = True

    cluster.set_target = stopped  # type: ignore[method-assign]
    report = world.apply(desired_of(spec("a", pin=PIN)), cluster=cluster)
    outcomes = [each.outcome for each in report.connectors[0].results]
    assert outcomes == [Outcome.FAILED, Outcome.SKIPPED, Outcome.SKIPPED]
    assert world.time.at < world.limits.stop_again_s


def test_ctrl_c_ends_the_health_check(world: Applying) -> None:
    cluster = runs(world)
    cluster.statuses["a"] = [status(State.RUNNING, State.UNASSIGNED)]
    report = world.apply(desired_of(spec("a")), cluster=cluster, stop=lambda: world.time.at > 1)
    assert [each.outcome for each in report.connectors[0].results] == [Outcome.DONE]
    assert report.connectors[0].health is Health.NOT_AWAITED
    assert report.exit_code is ExitCode.INTERRUPTED
    assert world.time.at < 2


def test_a_lease_that_is_lost_ends_the_health_check(world: Applying) -> None:
    """Another apply may have changed the connectors: what is seen now says nothing of this one."""
    cluster = runs(world)

    def status_of(name: str) -> ConnectorStatus:
        world.lease.gone = world.time.at > 1
        return status(State.RUNNING, State.UNASSIGNED)

    cluster.status = status_of  # type: ignore[method-assign]
    report = world.apply(desired_of(spec("a")), cluster=cluster)
    assert report.connectors[0].health is Health.UNKNOWN
    assert "another apply may have the lease" in report.connectors[0].health_detail
    assert report.exit_code is ExitCode.FAILED
    assert world.time.at < 2


def test_a_plan_with_errors_is_never_applied(world: Applying) -> None:
    plan = replace(world.plan(desired_of()), errors=(Diagnostic("x", "no"),))
    with pytest.raises(Invalid):
        world.apply(desired_of(), plan)


def test_a_new_kafka_is_an_empty_cluster() -> None:
    world = Applying(kafka=FakeKafka())
    assert names(world.plan(desired_of(spec("a")))) == ["Create a"]


def test_the_ledger_keeps_the_environment(world: Applying, monkeypatch: pytest.MonkeyPatch) -> None:
    desired = desired_of(spec("a"))
    monkeypatch.setattr("support.applying.PROJECT", replace(PROJECT, env="prod"))
    assert world.apply(desired, replace(world.plan(desired), env="prod")).exit_code == 0
    assert world.ledger().connectors["a"].env == "prod"
