"""The states of connectors: the test plans of KIP-875 and KIP-980 line by line, and what each
operation writes to the config topic, in order and to the byte."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from connect_runtime.herder.assembly import ConnectHerder, Edges
from connect_runtime.herder.errors import NotLeader, Refusal, RequestError
from connect_runtime.herder.events import Request
from connect_runtime.herder.worker_settings import WorkerSettings
from connect_runtime.settings.slots import PAUSED_RELEASE
from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.desired import OffsetEntry
from connect_specs.names import task_transactional_id
from connect_specs.states import TargetState
from support.connectors import SINK, SOURCE, ObedientSource
from support.launcher import SOURCE_PARTITION, MemoryLauncher
from support.memory_cluster import GROUP_ID, TOPICS, MemoryCluster, MemoryRuntime
from support.wait import wait_until

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED
STATE = {RUNNING: State.RUNNING, PAUSED: State.PAUSED, STOPPED: State.STOPPED}

STARTED_VALUE = '{"state":"STARTED","state.v2":"STARTED"}'
PAUSED_VALUE = '{"state":"PAUSED","state.v2":"PAUSED"}'
STOPPED_VALUE = '{"state":"PAUSED","state.v2":"STOPPED"}'
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the '/connectors/c/stop' "
    "endpoint"
)


@pytest.fixture(params=["false", "true"], ids=["paused keep slots", "paused release slots"])
def cluster(request: pytest.FixtureRequest) -> MemoryCluster:
    return MemoryCluster(worker={PAUSED_RELEASE: request.param})


@pytest.fixture
def runtime(cluster: MemoryCluster) -> MemoryRuntime:
    return cluster.leader()


@pytest.fixture(autouse=True)
def calls() -> Iterator[list[tuple[str, str]]]:
    """The connectors' methods that were called."""
    ObedientSource.seen.clear()
    yield ObedientSource.seen
    ObedientSource.seen.clear()


def source(**more: str) -> dict[str, str]:
    return {"name": "c", "connector.class": SOURCE, "tasks.max": "3", **more}


def sink(**more: str) -> dict[str, str]:
    return {"name": "c", "connector.class": SINK, "tasks.max": "3", "topics": "t", **more}


def create(
    cluster: MemoryCluster, config: dict[str, str], state: TargetState | None = None
) -> MemoryRuntime:
    """With a leader that has it as it is to be."""
    runtime = cluster.runtimes[0] if cluster.runtimes else cluster.leader()
    runtime.verbs.create("c", config, state)
    cluster.settle()
    return runtime


def states(runtime: MemoryRuntime) -> tuple[State, list[State]]:
    """As REST shows them: of the connector, and of its tasks."""
    status = runtime.verbs.status("c")
    return status.connector.state, [task.state for task in status.tasks.values()]


BOTH = pytest.mark.parametrize("config", [source(), sink()], ids=["source", "sink"])


# --- KIP-875, stopped state tests ---


@BOTH
def test_can_stop_a_running_connector(cluster: MemoryCluster, config: dict[str, str]) -> None:
    runtime = create(cluster, {**config, "tasks": "2"})
    assert states(runtime) == (State.RUNNING, [State.RUNNING] * 2)

    runtime.verbs.stop("c")
    cluster.settle()

    assert states(runtime) == (State.STOPPED, [])
    assert not runtime.launcher.live
    assert not cluster.assignments.tasks


@BOTH
def test_can_stop_a_paused_connector(cluster: MemoryCluster, config: dict[str, str]) -> None:
    runtime = create(cluster, config)
    runtime.verbs.pause("c")
    cluster.settle()
    assert states(runtime) == (State.PAUSED, [State.PAUSED])

    runtime.verbs.stop("c")
    cluster.settle()

    assert states(runtime) == (State.STOPPED, [])
    assert not runtime.launcher.live


@BOTH
def test_a_pause_stops_the_connector_and_a_resume_starts_it(
    cluster: MemoryCluster, config: dict[str, str], calls: list[tuple[str, str]]
) -> None:
    """The trap: the monitor of a paused connector asks its database for ever."""
    runtime = create(cluster, config)
    attempts = len(runtime.launcher.attempts)
    for _ in range(2):
        calls.clear()
        since = cluster.ends()[0]
        runtime.verbs.pause("c")
        cluster.settle()
        assert calls == [("c", "stop")]
        assert states(runtime) == (State.PAUSED, [State.PAUSED])
        runtime.verbs.resume("c")
        cluster.settle()
        assert calls == [("c", "stop"), ("c", "start"), ("c", "task_configs")]
        assert states(runtime) == (State.RUNNING, [State.RUNNING])
        # its tasks are the same, so they go on
        assert [key for key, _ in cluster.written(TOPICS.config, since)] == ["target-state-c"] * 2
    if cluster.worker[PAUSED_RELEASE] == "false":
        assert len(runtime.launcher.attempts) == attempts


def test_a_connector_whose_stop_throws_is_paused(
    cluster: MemoryCluster, calls: list[tuple[str, str]]
) -> None:
    runtime = create(cluster, source(fail="stop"))
    runtime.verbs.pause("c")
    cluster.settle()
    assert ("c", "stop") in calls
    assert states(runtime) == (State.PAUSED, [State.PAUSED])
    runtime.verbs.resume("c")
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.RUNNING])


def test_a_connector_whose_start_throws_fails_when_it_is_resumed(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(fail="start"), PAUSED)
    assert states(runtime) == (State.PAUSED, [])
    runtime.verbs.resume("c")
    cluster.settle()
    assert states(runtime) == (State.FAILED, [])
    runtime.verbs.pause("c")
    cluster.settle()
    assert states(runtime) == (State.FAILED, [])


def test_can_stop_a_stopped_connector(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source())
    for _ in range(2):
        since = cluster.ends()[0]
        runtime.verbs.stop("c")
        cluster.settle()
        assert states(runtime) == (State.STOPPED, [])
        # Connect writes both again
        assert cluster.written(TOPICS.config, since) == [
            ("commit-c", '{"tasks":0}'),
            ("target-state-c", STOPPED_VALUE),
        ]


@BOTH
def test_can_delete_a_stopped_connector(cluster: MemoryCluster, config: dict[str, str]) -> None:
    runtime = create(cluster, config)
    runtime.verbs.stop("c")
    cluster.settle()

    runtime.verbs.delete("c")
    cluster.settle()

    assert runtime.verbs.connectors() == []
    assert not cluster.status.connectors and not cluster.status.tasks
    with pytest.raises(RequestError, match="Connector c not found"):
        runtime.verbs.info("c")


def test_no_task_configs_and_statuses_of_a_stopped_connector(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(tasks="3"))
    assert len(runtime.verbs.tasks("c")) == 3

    runtime.verbs.stop("c")
    assert runtime.verbs.tasks("c") == ()
    assert runtime.verbs.info("c").tasks == ()
    cluster.settle()
    assert states(runtime) == (State.STOPPED, [])


@BOTH
def test_can_resume_a_stopped_connector(cluster: MemoryCluster, config: dict[str, str]) -> None:
    runtime = create(cluster, {**config, "tasks": "2"})
    runtime.verbs.stop("c")
    cluster.settle()

    runtime.verbs.resume("c")
    cluster.settle()

    assert states(runtime) == (State.RUNNING, [State.RUNNING] * 2)
    assert len(runtime.launcher.live) == 2


def test_can_pause_a_stopped_connector(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(tasks="2"))
    runtime.verbs.stop("c")
    cluster.settle()

    runtime.verbs.pause("c")
    cluster.settle()
    assert states(runtime) == (State.PAUSED, [])
    assert runtime.verbs.tasks("c") == ()

    runtime.verbs.resume("c")
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.RUNNING] * 2)


def test_stopping_a_failed_connector(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(fail="start"))
    status = runtime.verbs.status("c")
    assert status.connector.state is State.FAILED
    assert "start throws" in (status.connector.trace or "")

    runtime.verbs.stop("c")
    cluster.settle()
    assert states(runtime) == (State.STOPPED, [])
    assert runtime.verbs.status("c").connector.trace is None


def test_stopping_a_connector_that_fails_during_shutdown(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(fail="stop"))
    assert states(runtime) == (State.RUNNING, [State.RUNNING])

    runtime.verbs.stop("c")
    cluster.settle()
    assert states(runtime) == (State.STOPPED, [])


def test_can_resume_a_connector_that_failed_before_and_during_shutdown(
    cluster: MemoryCluster,
) -> None:
    runtime = create(cluster, source(fail="start,stop"))
    assert states(runtime) == (State.FAILED, [])
    runtime.verbs.stop("c")
    cluster.settle()
    assert states(runtime) == (State.STOPPED, [])

    runtime.verbs.put_config("c", source())
    runtime.verbs.resume("c")
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.RUNNING])


# --- KIP-875, offsets tests without data ---


def test_cannot_view_alter_or_reset_offsets_of_a_nonexistent_connector(
    runtime: MemoryRuntime,
) -> None:
    entry = OffsetEntry({SOURCE_PARTITION: 0}, {"position": 1})
    for ask in (
        lambda: runtime.verbs.offsets("c"),
        lambda: runtime.verbs.alter_offsets("c", [entry]),
        lambda: runtime.verbs.reset_offsets("c"),
    ):
        with pytest.raises(RequestError, match="Connector c not found") as refused:
            ask()
        assert refused.value.status == 404


@BOTH
@pytest.mark.parametrize("state", [RUNNING, PAUSED])
def test_cannot_alter_or_reset_offsets_unless_stopped(
    cluster: MemoryCluster, config: dict[str, str], state: TargetState
) -> None:
    runtime = create(cluster, config, state)
    before = cluster.ends(), cluster.written(TOPICS.offsets), dict(cluster.groups.committed)
    entry = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 1})
    for ask in (
        lambda: runtime.verbs.alter_offsets("c", [entry]),
        lambda: runtime.verbs.reset_offsets("c"),
    ):
        with pytest.raises(RequestError) as refused:
            ask()
        assert (refused.value.status, refused.value.message) == (400, NOT_STOPPED)
    assert before == (cluster.ends(), cluster.written(TOPICS.offsets), cluster.groups.committed)


def test_offsets_of_a_stopped_source_are_altered_seen_and_used(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source())
    runtime.verbs.stop("c")
    cluster.settle()
    [held] = runtime.verbs.offsets("c")
    assert held.partition == {SOURCE_PARTITION: 0}

    text = runtime.verbs.alter_offsets(
        "c", [OffsetEntry({SOURCE_PARTITION: 0}, {"position": 5000})]
    )
    assert text == "The offsets for this connector have been altered successfully"
    assert runtime.verbs.offsets("c") == [OffsetEntry({SOURCE_PARTITION: 0}, {"position": 5000})]

    runtime.verbs.resume("c")
    for _ in range(6):
        runtime.move()
    [moved] = runtime.verbs.offsets("c")
    assert moved.offset is not None
    assert 5000 < int(str(moved.offset["position"])) < 5010


@BOTH
def test_a_second_reset_is_successful_too(cluster: MemoryCluster, config: dict[str, str]) -> None:
    runtime = create(cluster, config)
    cluster.groups.committed["connect-c"] = {("t", 0): 7}
    runtime.verbs.stop("c")
    cluster.settle()
    assert runtime.verbs.offsets("c")
    for _ in range(2):
        text = runtime.verbs.reset_offsets("c")
        assert text == "The offsets for this connector have been reset successfully"
        assert runtime.verbs.offsets("c") == []


# --- KIP-980 ---


@BOTH
@pytest.mark.parametrize("state", [PAUSED, STOPPED])
def test_can_create_paused_or_stopped_and_no_tasks_are_spawned(
    cluster: MemoryCluster,
    config: dict[str, str],
    state: TargetState,
    calls: list[tuple[str, str]],
) -> None:
    runtime = create(cluster, config, state)
    assert states(runtime) == (STATE[state], [])
    assert runtime.verbs.tasks("c") == ()
    assert not runtime.launcher.attempts
    assert calls == [], "start is not called either"


@BOTH
@pytest.mark.parametrize("state", [None, RUNNING])
def test_without_a_state_it_is_created_running(
    cluster: MemoryCluster, config: dict[str, str], state: TargetState | None
) -> None:
    runtime = create(cluster, config, state)
    assert states(runtime) == (State.RUNNING, [State.RUNNING])


@BOTH
@pytest.mark.parametrize("state", [PAUSED, STOPPED])
def test_can_resume_one_created_paused_or_stopped(
    cluster: MemoryCluster, config: dict[str, str], state: TargetState
) -> None:
    runtime = create(cluster, config, state)
    runtime.verbs.resume("c")
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.RUNNING])


@BOTH
@pytest.mark.parametrize("state", [PAUSED, STOPPED])
def test_can_delete_one_created_paused_or_stopped(
    cluster: MemoryCluster, config: dict[str, str], state: TargetState
) -> None:
    runtime = create(cluster, config, state)
    runtime.verbs.delete("c")
    cluster.settle()
    assert runtime.verbs.connectors() == []
    assert not cluster.status.connectors
    # a new one of the name starts as if there had been none
    runtime.verbs.create("c", config, None)
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.RUNNING])


def test_can_modify_the_offsets_of_one_created_stopped(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(), STOPPED)
    runtime.verbs.alter_offsets("c", [OffsetEntry({SOURCE_PARTITION: 0}, {"position": 70})])
    assert cluster.written(TOPICS.offsets) == [
        (f'["c",{{"{SOURCE_PARTITION}":0}}]', '{"position":70}')
    ]
    runtime.verbs.resume("c")
    cluster.settle()
    [found] = runtime.verbs.offsets("c")
    assert found.offset is not None and int(str(found.offset["position"])) > 70


def test_offsets_of_a_sink_wait_until_its_tasks_have_stopped(cluster: MemoryCluster) -> None:
    """Its consumer may have left the group, while the task still writes to its target."""
    runtime = create(cluster, sink())
    runtime.verbs.stop("c")
    runtime.tick()
    with pytest.raises(RequestError) as refused:
        runtime.verbs.reset_offsets("c")
    assert refused.value.status == 500
    assert "its tasks haven't stopped completely yet" in refused.value.message
    cluster.settle()
    runtime.verbs.reset_offsets("c")


# --- what is written, for each operation ---


def test_each_operation_writes_what_connect_writes(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(), STOPPED)
    verbs = runtime.verbs
    config = f'{{"properties":{{"name":"c","connector.class":"{SOURCE}","tasks.max":"3"}}}}'
    task = (
        f'{{"properties":{{"name":"c","connector.class":"{SOURCE}","tasks.max":"3","number":"0",'
        f'"task.class":"{SOURCE}Task"}}}}'
    )
    assert cluster.written(TOPICS.config) == [
        ("target-state-c", STOPPED_VALUE),
        ("connector-c", config),
    ]

    def after(what: object) -> list[tuple[str, str | None]]:
        since = cluster.ends()[0]
        what()  # type: ignore[operator]
        cluster.settle()
        return cluster.written(TOPICS.config, since)

    assert after(lambda: verbs.resume("c")) == [
        ("target-state-c", STARTED_VALUE),
        ("task-c-0", task),
        ("commit-c", '{"tasks":1}'),
        ("tasks-fencing-c", '{"task-count":1}'),
    ]
    assert after(lambda: verbs.pause("c")) == [("target-state-c", PAUSED_VALUE)]
    assert after(lambda: verbs.pause("c")) == [("target-state-c", PAUSED_VALUE)]
    # not while it is paused: the tasks' configs follow when it is resumed
    changed = config.replace('"3"', '"2"')
    assert after(lambda: verbs.patch_config("c", {"tasks.max": "2"})) == [("connector-c", changed)]
    assert after(lambda: verbs.resume("c")) == [
        ("target-state-c", STARTED_VALUE),
        ("task-c-0", task.replace('"3"', '"2"')),
        ("commit-c", '{"tasks":1}'),
        ("tasks-fencing-c", '{"task-count":1}'),
    ]
    # the same config is written again, and changes nothing
    assert after(lambda: verbs.put_config("c", source(**{"tasks.max": "2"}))) == [
        ("connector-c", changed)
    ]
    assert after(lambda: verbs.restart("c")) == []
    assert after(lambda: verbs.restart("c", include_tasks=True)) == [
        ("restart-connector-c", '{"include-tasks":true,"only-failed":false}')
    ]
    assert after(lambda: verbs.restart("c", only_failed=True)) == [
        ("restart-connector-c", '{"include-tasks":false,"only-failed":true}')
    ]
    assert after(lambda: verbs.restart_task("c", 0)) == []
    assert after(lambda: verbs.stop("c")) == [
        ("commit-c", '{"tasks":0}'),
        ("target-state-c", STOPPED_VALUE),
    ]
    assert after(lambda: verbs.reset_offsets("c")) == [("tasks-fencing-c", '{"task-count":0}')]
    assert after(lambda: verbs.reset_offsets("c")) == []
    assert after(lambda: verbs.delete("c")) == [("connector-c", None), ("target-state-c", None)]


def test_a_sink_writes_no_fencing_record(cluster: MemoryCluster) -> None:
    create(cluster, sink(tasks="2"))
    assert [key for key, _ in cluster.written(TOPICS.config)] == [
        "connector-c",
        "task-c-0",
        "task-c-1",
        "commit-c",
    ]


def test_more_tasks_than_one_are_fenced_before_their_successors(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(tasks="2"))
    zombies = [attempt.writer for attempt in runtime.launcher.attempts]
    since = cluster.ends()[0]

    runtime.verbs.patch_config("c", {"tasks": "3"})
    cluster.settle()

    assert [key for key, _ in cluster.written(TOPICS.config, since)] == [
        "connector-c",
        "task-c-0",
        "task-c-1",
        "task-c-2",
        "commit-c",
        "tasks-fencing-c",
    ]
    for zombie, number in zip(zombies, range(2), strict=True):
        assert zombie is not None
        # by the leader, then by the next attempt's own start
        assert cluster.logs.epoch(task_transactional_id(GROUP_ID, "c", number)) == 2


# --- restart ---


def test_a_restart_of_failed_tasks_leaves_the_others(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(tasks="2"))
    runtime.launcher.attempts[0].fail()
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.FAILED, State.RUNNING])

    answer = runtime.verbs.restart("c", include_tasks=True, only_failed=True)
    assert answer is not None
    assert answer.connector.state is State.RUNNING
    assert [task.state for task in answer.tasks.values()] == [State.RESTARTING, State.RUNNING]
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.RUNNING, State.RUNNING])
    assert [attempt.id.task for attempt in runtime.launcher.attempts] == [0, 1, 0]


@pytest.mark.parametrize("state", [PAUSED, STOPPED])
def test_a_restarted_connector_keeps_its_target_state(
    cluster: MemoryCluster, state: TargetState
) -> None:
    runtime = create(cluster, source())
    (runtime.verbs.pause if state is PAUSED else runtime.verbs.stop)("c")
    cluster.settle()
    runtime.verbs.restart("c", include_tasks=True)
    cluster.settle()
    tasks = [State.PAUSED] if state is PAUSED else []
    assert states(runtime) == (STATE[state], tasks)


def test_a_task_that_was_there_before_is_answered_as_one_that_is_moved(
    cluster: MemoryCluster,
) -> None:
    def refused(task: int) -> tuple[int, str]:
        with pytest.raises(RequestError) as error:
            runtime.verbs.restart_task("c", task)
        return error.value.status, error.value.message

    moved = (
        409,
        "Cannot complete request momentarily due to no known leader URL, likely because a "
        "rebalance was underway.",
    )
    runtime = create(cluster, source(tasks="2"))
    assert refused(2) == (404, "Unknown task: c-2")
    runtime.verbs.put_config("c", source(tasks="1"))
    cluster.settle()
    assert (refused(1), refused(2)) == (moved, (404, "Unknown task: c-2"))
    runtime.verbs.stop("c")
    cluster.settle()
    assert (refused(0), refused(1)) == (moved, moved)
    assert (refused(2), refused(-1)) == ((404, "Unknown task: c-2"), (404, "Unknown task: c--1"))
    runtime.verbs.delete("c")
    runtime.verbs.create("c", source(), STOPPED)
    assert refused(0) == (404, "Unknown task: c-0")


def test_offsets_of_a_class_that_is_not_installed_cannot_be_changed(
    cluster: MemoryCluster,
) -> None:
    runtime = create(cluster, {"name": "c", "connector.class": "no.such.Class"}, STOPPED)
    with pytest.raises(RequestError) as refused:
        runtime.verbs.reset_offsets("c")
    assert (refused.value.status, refused.value.refusal) == (500, Refusal.NO_SUCH_CLASS)
    assert "which name matches no.such.Class" in refused.value.message


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_failed_connector_stays_failed(cluster: MemoryCluster, verb: str) -> None:
    runtime = create(cluster, source(fail="start"))
    getattr(runtime.verbs, verb)("c")
    cluster.settle()
    assert states(runtime) == (State.FAILED, [])


# --- plugin objects ---


def test_one_that_is_stopped_while_it_starts_is_stopped_in_the_end(
    cluster: MemoryCluster, calls: list[tuple[str, str]]
) -> None:
    runtime = cluster.leader()
    runtime.verbs.create("c", source(), None)
    runtime.tick()
    [start] = runtime.calls.waiting
    runtime.calls.waiting.clear()
    runtime.verbs.stop("c")
    runtime.tick()
    runtime.calls.run()
    runtime.tick()
    # a start that hangs does not keep it from being STOPPED
    assert states(runtime) == (State.STOPPED, [])

    start()
    assert calls == [("c", "start"), ("c", "stop")]
    cluster.settle()
    assert states(runtime) == (State.STOPPED, [])


def test_a_connector_can_fail_itself(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source())
    ObedientSource.contexts["c"].raise_error(ValueError("the source is gone"))
    cluster.settle()
    assert states(runtime) == (State.FAILED, [State.RUNNING])
    assert "the source is gone" in (runtime.verbs.status("c").connector.trace or "")
    # until it is restarted
    ObedientSource.contexts["c"].request_task_reconfiguration()
    cluster.settle()
    assert states(runtime) == (State.FAILED, [State.RUNNING])
    runtime.verbs.restart("c")
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.RUNNING])


# --- leaders ---


def test_one_that_was_fenced_does_not_take_the_lead_back(cluster: MemoryCluster) -> None:
    old, new = cluster.leader(), cluster.runtime()
    old.verbs.create("c", source(), None)
    # the old one's heartbeats tell it late
    cluster.ballot.elect(new.candidate, lag_s=6.0)
    new.tick()
    # not NotLeader: what another runtime fenced may be written, and is not to be forwarded
    with pytest.raises(RequestError) as refused:
        old.verbs.pause("c")
    assert refused.value.refusal is Refusal.NOT_WRITTEN
    with pytest.raises(NotLeader):
        old.verbs.pause("c")
    for _ in range(5):
        old.tick()
        new.verbs.pause("c")
        cluster.clock.now += 1.0
    cluster.settle()
    assert new.herder.leading and not old.herder.leading


def test_one_whose_writer_kafka_ended_leads_on(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source())
    cluster.logs.fence([f"connect-cluster-{GROUP_ID}"])
    with pytest.raises(RequestError, match="Failed to write to config topic"):
        runtime.verbs.pause("c")
    cluster.settle()
    runtime.verbs.pause("c")
    cluster.settle()
    assert states(runtime) == (State.PAUSED, [State.PAUSED])


def test_a_lost_attempt_is_unassigned_until_it_is_launched_again(cluster: MemoryCluster) -> None:
    """Readers drop UNASSIGNED after RUNNING of one term; it has to show nevertheless, once."""
    runtime = create(cluster, source())
    runtime.launcher.attempts[0].lose()
    since = cluster.ends()[1]
    runtime.tick()
    runtime.tick()
    assert states(runtime) == (State.RUNNING, [State.UNASSIGNED])
    assert [value is None for _, value in cluster.written(TOPICS.status, since)] == [True, False]
    cluster.settle()
    assert states(runtime) == (State.RUNNING, [State.RUNNING])


def test_a_patch_of_a_config_that_changed_meanwhile_is_refused(cluster: MemoryCluster) -> None:
    runtime = create(cluster, source(), STOPPED)
    once = iter([lambda: runtime.verbs.put_config("c", source(note="theirs"))])
    runtime.verbs._check = lambda name, config: next(once, lambda: None)()
    with pytest.raises(RequestError, match="stale configuration"):
        runtime.verbs.patch_config("c", {"tasks": "2"})
    assert runtime.verbs.config("c") == source(note="theirs")


def test_a_runtime_that_ends_says_that_nothing_runs(cluster: MemoryCluster) -> None:
    """With its own threads and clock."""
    candidate = cluster.ballot.candidate()
    launcher = MemoryLauncher(cluster.logs)
    settings = WorkerSettings(GROUP_ID, TOPICS, "w:8083", {}, graceful_s=5.0)
    edges = Edges(
        logs=cluster.logs,
        groups=cluster.groups,
        election=candidate,
        launcher=launcher,
        check=lambda name, config: None,
        leader=lambda: None,
    )
    connect = ConnectHerder("http://w:8083", settings, edges)
    connect.start()
    over = threading.Event()

    def tasks() -> None:
        while not over.wait(0.01):
            launcher.step()

    stepping = threading.Thread(target=tasks, daemon=True)
    stepping.start()
    try:
        cluster.ballot.elect(candidate)
        wait_until(lambda: connect.herder.leading, what="a leader")
        connect.verbs.create("c", source(tasks="2"), None)
        wait_until(
            lambda: [s.state for s in cluster.status.tasks.values()] == [State.RUNNING] * 2,
            what="tasks to run",
        )
        hung = launcher.attempts[1]
        hung.hung = True
        connect.herder._worker.settings = WorkerSettings(GROUP_ID, TOPICS, "w:8083", {}, 0.2)
    finally:
        connect.stop()
        over.set()
        stepping.join(5)
    assert cluster.status.connectors["c"].state is State.UNASSIGNED
    assert {task: s.state for task, s in cluster.status.tasks.items()} == {
        TaskId("c", 0): State.UNASSIGNED,
        TaskId("c", 1): State.UNASSIGNED,
    }
    assert ("c", "stop") in ObedientSource.seen


def test_an_error_in_a_request_does_not_end_the_herder(cluster: MemoryCluster) -> None:
    """Fencing asks Kafka, and what follows a request may be fencing."""
    candidate = cluster.ballot.candidate()
    edges = Edges(
        logs=cluster.logs,
        groups=cluster.groups,
        election=candidate,
        launcher=MemoryLauncher(cluster.logs),
        check=lambda name, config: None,
        leader=lambda: None,
    )
    settings = WorkerSettings(GROUP_ID, TOPICS, "w:8083", {}, graceful_s=0.2)
    connect = ConnectHerder("http://w:8083", settings, edges)
    connect.start()
    try:
        cluster.ballot.elect(candidate)
        wait_until(lambda: connect.herder.leading, what="a leader")

        def broken(now: float) -> None:
            connect.herder._settle = settle  # type: ignore[method-assign]
            raise RuntimeError("Kafka is away")

        settle = connect.herder._settle
        connect.herder._settle = broken  # type: ignore[method-assign]
        connect.verbs.create("c", source(), STOPPED)
        wait_until(lambda: "c" in cluster.status.connectors, what="a status", timeout_s=5)
    finally:
        connect.stop()


# --- many requests ---


def test_requests_that_never_end_do_not_keep_the_herder_from_its_election(
    cluster: MemoryCluster,
) -> None:
    runtime = cluster.leader()
    asked: list[int] = []

    def ask() -> None:
        asked.append(len(asked))
        if len(asked) < 1000:
            runtime.herder._events.put(Request(ask, Future()))

    runtime.herder._events.put(Request(ask, Future()))
    runtime.tick()
    assert asked == [0]
    runtime.tick()
    assert asked == [0, 1]
