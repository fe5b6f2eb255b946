"""The states of connectors, and what each operation writes to the config topic, to the byte.

connector_states.yaml has the test plans of KIP-875 and KIP-980 line by line.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.herder.runs import Request
from connect_runtime.herder.verbs import NotLeader, Refusal, RequestError
from connect_runtime.settings.slots import PAUSED_RELEASE
from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.names import task_transactional_id
from support.connectors import SINK, SOURCE, ObedientSource, sink, source
from support.launcher import SOURCE_PARTITION, MemoryLauncher
from support.memory_cluster import GROUP_ID, TOPICS, MemoryCluster, MemoryRuntime, shown
from support.wait import wait_until

STOPPED = TargetState.STOPPED
SCENARIOS = yaml.safe_load(Path(__file__).with_name("connector_states.yaml").read_text())


@pytest.fixture(params=["false", "true"], ids=["paused keep slots", "paused release slots"])
def cluster(request: pytest.FixtureRequest) -> MemoryCluster:
    return MemoryCluster(worker={PAUSED_RELEASE: request.param})


@pytest.fixture(autouse=True)
def calls() -> Iterator[list[tuple[str, str]]]:
    """The connectors' methods that were called."""
    ObedientSource.seen.clear()
    yield ObedientSource.seen
    ObedientSource.seen.clear()


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


class Story:
    """Plays the steps of a scenario: requests, after each of which all is quiet, and checks."""

    def __init__(self, cluster: MemoryCluster, kind: str, calls: list[tuple[str, str]]) -> None:
        self.cluster = cluster
        self.runtime = cluster.leader()
        self.verbs = self.runtime.verbs
        self.config = sink() if kind == "sink" else source()
        self.called = calls
        self.records: list[tuple[str, str | None]] = []
        self.answer: Any = None

    def play(self, steps: list[Any]) -> None:
        for step in steps:
            ((name, argument),) = step.items() if isinstance(step, dict) else [(step, None)]
            if hasattr(self, f"check_{name}".replace(" ", "_")):
                getattr(self, f"check_{name}".replace(" ", "_"))(argument)
            else:
                self.called.clear()
                since = self.cluster.ends()[0]
                self.answer = self.request(name, argument)
                self.cluster.settle()
                self.records = self.cluster.written(TOPICS.config, since)

    def request(self, name: str, argument: Any) -> Any:
        match name:
            case "create":
                config = self.config | (argument or {})
                state = config.pop("state", None)
                return self.verbs.create("c", config, state and TargetState(state))
            case "put_config":
                return self.verbs.put_config("c", self.config | argument)
            case "alter_offsets" if self.config["connector.class"] == SINK:
                partition = {"kafka_topic": "t", "kafka_partition": 0}
                return self.verbs.alter_offsets(
                    "c", [OffsetEntry(partition, {"kafka_offset": argument})]
                )
            case "alter_offsets":
                entry = OffsetEntry({SOURCE_PARTITION: 0}, {"position": argument})
                return self.verbs.alter_offsets("c", [entry])
            case "list_offsets":
                return self.verbs.offsets("c")
            case "group":
                offsets = {tuple(at.split("-")): offset for at, offset in argument.items()}
                self.cluster.groups.committed["connect-c"] = {
                    (topic, int(number)): offset for (topic, number), offset in offsets.items()
                }
                return None
            case "fail":
                return self.runtime.launcher.attempts[argument].fail()
            case "restart":
                return self.verbs.restart("c", **(argument or {}))
            case _:
                verb = getattr(self.verbs, name)
                return verb("c") if argument is None else verb("c", argument)

    def check_refused(self, step: dict[str, Any]) -> None:
        """Nothing is written by a request that is refused."""
        step = dict(step)
        expected = {key: step.pop(key) for key in ("status", "message", "refusal") if key in step}
        ((name, argument),) = step.items()
        before = self.state_of_kafka()
        with pytest.raises(RequestError) as refused:
            self.request(name, argument)
        assert self.state_of_kafka() == before
        assert refused.value.status == expected["status"]
        assert expected["message"] in refused.value.message
        assert expected.get("refusal", refused.value.refusal) == refused.value.refusal

    def state_of_kafka(self) -> tuple[Any, ...]:
        groups = {name: dict(offsets) for name, offsets in self.cluster.groups.committed.items()}
        return self.cluster.ends(), self.cluster.written(TOPICS.offsets), groups

    def check_states(self, expected: list[str]) -> None:
        assert shown(self.verbs.status("c")) == expected

    def check_answered_states(self, expected: list[str]) -> None:
        assert shown(self.answer) == expected

    def check_answer(self, text: str) -> None:
        assert self.answer == text

    def check_trace(self, text: str | None) -> None:
        trace = self.verbs.status("c").connector.trace
        assert trace is None if text is None else text in (trace or "")

    def check_gone(self, _: None) -> None:
        assert self.verbs.connectors() == []
        assert not self.cluster.status.connectors and not self.cluster.status.tasks

    def check_tasks(self, count: int) -> None:
        assert len(self.verbs.tasks("c")) == len(self.verbs.info("c").tasks) == count

    def check_offsets(self, expected: list[Any]) -> None:
        assert [entry.offset for entry in self.verbs.offsets("c")] == expected

    def check_has_offsets(self, _: None) -> None:
        assert self.verbs.offsets("c")

    def check_live(self, count: int) -> None:
        assert len(self.runtime.launcher.live) == count

    def check_launched(self, tasks: list[int]) -> None:
        assert [attempt.id.task for attempt in self.runtime.launcher.attempts] == tasks

    def check_attempts(self, count: int) -> None:
        assert len(self.runtime.launcher.attempts) == count

    def check_attempts_if_paused_tasks_keep_slots(self, count: int) -> None:
        if self.cluster.worker[PAUSED_RELEASE] == "false":
            self.check_attempts(count)

    def check_assigned(self, count: int) -> None:
        assert len(self.cluster.assignments.tasks) == count

    def check_producer_epochs(self, epochs: list[int]) -> None:
        ids = [task_transactional_id(GROUP_ID, "c", number) for number in range(len(epochs))]
        assert [self.cluster.logs.epoch(each) for each in ids] == epochs

    def check_calls(self, methods: list[str]) -> None:
        assert self.called == [("c", method) for method in methods]

    def check_keys(self, keys: list[str]) -> None:
        assert [key for key, _ in self.records] == keys

    def check_records(self, records: list[list[str | None]]) -> None:
        shown = [[key, value and value.replace(SOURCE, "SOURCE")] for key, value in self.records]
        assert shown == records


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        pytest.param(scenario, kind, id=f"{kind}: {scenario['scenario']}")
        for scenario in SCENARIOS
        for kind in scenario.get("kinds", ["source"])
    ],
)
def test_scenario(
    cluster: MemoryCluster, calls: list[tuple[str, str]], scenario: dict[str, Any], kind: str
) -> None:
    Story(cluster, kind, calls).play(scenario["steps"])


# --- offsets ---


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
    connect = ConnectCluster(
        "http://w:8083",
        settings,
        logs=cluster.logs,
        groups=cluster.groups,
        election=candidate,
        launcher=launcher,
        check=lambda name, config: None,
        leader=lambda: None,
    )
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
        connect.create("c", source(tasks="2"), None)
        wait_until(
            lambda: [s.state for s in cluster.status.tasks.values()] == [State.RUNNING] * 2,
            what="tasks to run",
        )
        hung = launcher.attempts[1]
        hung.hung = True
        connect.herder._worker.settings = WorkerSettings(GROUP_ID, TOPICS, "w:8083", {}, 0.2)
    finally:
        connect.close()
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
    connect = ConnectCluster(
        "http://w:8083",
        WorkerSettings(GROUP_ID, TOPICS, "w:8083", {}, graceful_s=0.2),
        logs=cluster.logs,
        groups=cluster.groups,
        election=candidate,
        launcher=MemoryLauncher(cluster.logs),
        check=lambda name, config: None,
        leader=lambda: None,
    )
    connect.start()
    try:
        cluster.ballot.elect(candidate)
        wait_until(lambda: connect.herder.leading, what="a leader")

        def broken(now: float) -> None:
            connect.herder._settle = settle  # type: ignore[method-assign]
            raise RuntimeError("Kafka is away")

        settle = connect.herder._settle
        connect.herder._settle = broken  # type: ignore[method-assign]
        connect.create("c", source(), STOPPED)
        wait_until(lambda: "c" in cluster.status.connectors, what="a status", timeout_s=5)
    finally:
        connect.close()


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
