"""Whatever one connector's plugin and Kafka's answers about it do, every other one converges."""

from __future__ import annotations

import math
import sys

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.herder.verbs import RequestError
from connect_runtime.plugins import registry
from connect_runtime.rest import wire
from connect_runtime.storage import config_topic
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import State
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.states import TargetState
from support.connectors import SINK, SOURCE, ObedientSource
from support.examples import examples
from support.memory_cluster import GROUP_ID, TOPICS, MemoryCluster, MemoryRuntime
from support.misbehaving import (
    MISBEHAVING,
    TASK_CONFIGS,
    MisbehavingSource,
    RefusingLogs,
    not_allowed,
    silent,
)


def cluster_of(logs: RefusingLogs) -> MemoryCluster:
    return MemoryCluster(logs)


def bad(**config: str) -> dict[str, str]:
    return {"name": "bad", "connector.class": MISBEHAVING, "tasks.max": "3", **config}


def good(name: str, connector_class: str = SOURCE, tasks: str = "2") -> dict[str, str]:
    more = {"topics": "t"} if connector_class == SINK else {}
    return {
        "name": name,
        "connector.class": connector_class,
        "tasks.max": "3",
        "tasks": tasks,
        **more,
    }


def is_well(runtime: MemoryRuntime, name: str, tasks: int = 2) -> None:
    status = runtime.verbs.status(name)
    assert status.connector.state is State.RUNNING
    assert [task.state for task in status.tasks.values()] == [State.RUNNING] * tasks


def trace_of(runtime: MemoryRuntime) -> str:
    status = runtime.verbs.status("bad")
    assert status.connector.state is State.FAILED
    return status.connector.trace or ""


PLUGIN = st.fixed_dictionaries(
    {
        "start": st.sampled_from(["", "throws", "exits", "surrogate", "long", "fails itself"]),
        "answer": st.sampled_from([*TASK_CONFIGS, "throws", "exits", "another each time"]),
        "stop": st.sampled_from(["", "throws", "exits"]),
    }
)
KAFKA = st.sampled_from(["", "fence", "silent fence", "tasks", "statuses", "assignments", "all"])
STEPS = st.lists(
    st.sampled_from(
        ["create", "more tasks", "stop", "resume", "pause", "restart", "delete", "fail tasks"]
    ),
    min_size=1,
    max_size=6,
)


def refuse(logs: RefusingLogs, what: str) -> None:
    keys = {
        "tasks": (b"task-bad",),
        "statuses": (b"status-connector-bad", b"status-task-bad"),
        "assignments": (b"bad-",),
        "all": (b"task-bad", b"commit-bad", b"status-connector-bad", b"status-task-bad", b"bad-"),
    }.get(what, ())
    logs.refuses = lambda record: bool(keys) and record.key.startswith(keys)
    logs.unfenced = f"{GROUP_ID}-bad-" if "fence" in what else None
    logs.fence_error = silent if what == "silent fence" else not_allowed


def act(runtime: MemoryRuntime, step: str, config: dict[str, str]) -> None:
    verbs = runtime.verbs
    try:
        match step:
            case "create":
                verbs.put_config("bad", config)
            case "more tasks":
                verbs.put_config("bad", {**config, "answer": "two", "note": step})
            case "restart":
                verbs.restart("bad", include_tasks=True)
            case "fail tasks":
                for attempt in runtime.launcher.attempts:
                    if attempt.id.connector == "bad":
                        attempt.fail()
            case _:
                getattr(verbs, step)("bad")
    except RequestError:
        pass


@examples(80)
@given(plugin=PLUGIN, kafka=KAFKA, steps=STEPS)
def test_every_other_connector_converges(
    plugin: dict[str, str], kafka: str, steps: list[str]
) -> None:
    logs = RefusingLogs()
    cluster = cluster_of(logs)
    runtime = cluster.leader(slots=16)
    runtime.verbs.create("a", good("a"), None)
    refuse(logs, kafka)
    runtime.verbs.create("bad", bad(**plugin), None)
    for number, step in enumerate(steps):
        for _ in range(3):
            runtime.move()
        act(runtime, step, bad(**plugin))
        runtime.verbs.put_config("a", good("a", tasks=str(1 + number % 3)))
        cluster.clock.now += 1
    runtime.verbs.create("z", good("z", SINK), TargetState.RUNNING)
    cluster.pass_time(200)
    is_well(runtime, "a", 1 + (len(steps) - 1) % 3)
    is_well(runtime, "z")
    runtime.verbs.stop("a")
    cluster.pass_time(10)
    assert runtime.verbs.status("a").connector.state is State.STOPPED


# --- each fault by itself ---


def with_fault(kafka: str, **plugin: str) -> tuple[MemoryCluster, RefusingLogs, MemoryRuntime]:
    """A leader with one good connector, a bad one with two tasks, and then a fault of Kafka's."""
    logs = RefusingLogs()
    cluster = cluster_of(logs)
    runtime = cluster.leader(slots=16)
    runtime.verbs.create("a", good("a"), None)
    runtime.verbs.create("bad", bad(answer="two", **plugin), None)
    cluster.settle()
    refuse(logs, kafka)
    return cluster, logs, runtime


def test_a_failing_fence_fails_its_connector_and_a_restart_tries_again() -> None:
    cluster, logs, runtime = with_fault("fence")
    runtime.verbs.put_config("bad", bad(answer="two", note="x"))
    runtime.verbs.create("b", good("b"), None)
    cluster.settle()
    assert "Earlier writers cannot be fenced" in trace_of(runtime)
    is_well(runtime, "a")
    is_well(runtime, "b")
    assert not [a for a in runtime.launcher.live if a.id.connector == "bad"]

    runtime.verbs.restart("bad")
    cluster.settle()
    trace_of(runtime)

    refuse(logs, "")
    runtime.verbs.restart("bad")
    cluster.settle()
    is_well(runtime, "bad")


def test_the_trace_of_a_failing_fence_holds_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    cluster, logs, runtime = with_fault("fence")
    logs.fence_error = lambda: Failed(Diagnostic("kafka.x", "no login with 's3cret-p4ss'"))
    config = bad(answer="two", **{"admin.override.sasl.password": "s3cret-p4ss"})
    runtime.verbs.put_config("bad", config)
    cluster.settle()
    assert "no login with '[hidden]'" in trace_of(runtime)
    assert "s3cret-p4ss" not in caplog.text


def test_a_fence_that_kafka_is_too_slow_for_is_tried_again_by_itself() -> None:
    cluster, logs, runtime = with_fault("silent fence")
    runtime.verbs.put_config("bad", bad(answer="two", note="x"))
    cluster.pass_time(20)
    trace_of(runtime)
    refuse(logs, "")
    cluster.settle()
    is_well(runtime, "bad")


def test_a_connector_that_failed_at_its_fence_can_be_stopped_and_resumed() -> None:
    cluster, logs, runtime = with_fault("fence")
    runtime.verbs.put_config("bad", bad(answer="two", note="x"))
    cluster.settle()
    trace_of(runtime)
    runtime.verbs.stop("bad")
    cluster.settle()
    assert runtime.verbs.status("bad").connector.state is State.STOPPED
    refuse(logs, "")
    runtime.verbs.resume("bad")
    cluster.settle()
    is_well(runtime, "bad")


@pytest.mark.parametrize("kafka", ["tasks", "statuses", "assignments", "all"])
def test_records_that_kafka_refuses_are_their_connectors_failure(kafka: str) -> None:
    cluster, logs, runtime = with_fault(kafka)
    runtime.verbs.put_config("bad", bad(answer="nothing", note="x"))
    runtime.verbs.put_config("a", good("a", tasks="3"))
    cluster.pass_time(30)
    is_well(runtime, "a", 3)
    runtime.verbs.stop("a")
    cluster.pass_time(10)
    assert runtime.verbs.status("a").connector.state is State.STOPPED
    refuse(logs, "")
    runtime.verbs.put_config("bad", bad(answer="two", note="y"))
    cluster.settle()
    is_well(runtime, "bad")


def test_large_configs_of_many_tasks_do_not_take_too_long_for_one_transaction() -> None:
    """The trap: Kafka aborts it and fences the leader, which then tries the same again."""
    logs = RefusingLogs()
    logs.most = 9 << 20
    cluster = cluster_of(logs)
    runtime = cluster.leader(slots=100)
    large = {"pad": "x" * 300_000, "tasks.max": "40"}
    runtime.verbs.create("a", good("a", tasks="40") | large, None)
    cluster.settle()
    is_well(runtime, "a", 40)
    assert cluster.status.connectors["a"].generation == 0, "it was never fenced"
    assert cluster.config.connectors["a"].generation == 0, "it was published once"


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ("none", "not iterable"),
        ("not mappings", "Task config 0 is a int, not a mapping"),
        ("a number in it", "Task config 0, 'n': its value is int, not text"),
        ("a key that is no text", "its key is int, not text"),
        ("half a surrogate", "its value is not valid Unicode"),
        ("too many", "has generated 9 tasks"),
        ("no end", "has generated 100001 tasks"),
    ],
)
def test_task_configs_that_are_none_fail_the_connector_once(answer: str, what: str) -> None:
    cluster = cluster_of(RefusingLogs())
    runtime = cluster.leader()
    runtime.verbs.create("bad", bad(answer=answer), None)
    cluster.settle()
    assert what in trace_of(runtime)
    assert cluster.config.connectors["bad"].generation == -1


@pytest.mark.parametrize("answer", ["throws", "exits"])
def test_a_connector_that_throws_when_asked_for_task_configs_runs_and_is_asked_again(
    answer: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of(RefusingLogs())
    runtime = cluster.leader()
    runtime.verbs.create("bad", bad(answer=answer), None)
    cluster.settle()
    is_well(runtime, "bad", 0)
    shown = runtime.verbs.status("bad").connector
    said = {"throws": "RuntimeError: it throws", "exits": "SystemExit: 3"}[answer]
    assert shown.trace is not None and said in shown.trace
    asked = caplog.text.count("Connector bad threw when asked for task configs")
    # in more than a minute, after 0.25 s, 0.5, ... 32, 60
    assert 7 <= asked <= 10
    monkeypatch.setitem(TASK_CONFIGS, answer, TASK_CONFIGS["two"])
    monkeypatch.setattr(MisbehavingSource, "_misbehave", lambda *_: None)
    cluster.settle()
    is_well(runtime, "bad", 2)
    assert runtime.verbs.status("bad").connector.trace is None

    # the tasks that there are go on
    monkeypatch.undo()
    runtime.verbs.pause("bad")
    ObedientSource.contexts["bad"].request_task_reconfiguration()
    cluster.settle()
    runtime.verbs.resume("bad")
    cluster.settle()
    is_well(runtime, "bad", 2)
    assert runtime.verbs.status("bad").connector.trace is not None
    assert caplog.text.count("Connector bad threw when asked for task configs") > asked


def test_tasks_over_the_limit_run_on_and_are_not_started() -> None:
    cluster = cluster_of(RefusingLogs())
    runtime = cluster.leader()
    runtime.verbs.create("bad", bad(answer="two"), None)
    cluster.settle()
    is_well(runtime, "bad", 2)

    def states() -> list[State]:
        return [task.state for task in runtime.verbs.status("bad").tasks.values()]

    runtime.verbs.put_config("bad", {**bad(answer="two"), "tasks.max": "1"})
    cluster.settle()
    assert "has generated 2 tasks, which is greater than 1" in trace_of(runtime)
    assert states() == [State.RUNNING] * 2
    runtime.verbs.restart("bad", include_tasks=True)
    cluster.settle()
    assert states() == [State.FAILED] * 2
    for task in runtime.verbs.status("bad").tasks.values():
        assert "has generated 2 tasks, which is greater than 1" in (task.trace or "")


def test_a_key_without_a_value_is_left_out_and_published_once() -> None:
    cluster = cluster_of(RefusingLogs())
    runtime = cluster.leader()
    runtime.verbs.create("bad", bad(answer="no value in it"), None)
    cluster.settle()
    is_well(runtime, "bad", 1)
    state = cluster.config.connectors["bad"]
    assert state.generation == 0
    assert "n" not in state.task_configs[0]


def test_a_trace_of_any_length_and_content_is_stored() -> None:
    cluster = cluster_of(RefusingLogs())
    runtime = cluster.leader()
    runtime.verbs.create("bad", bad(start="long"), None)
    cluster.settle()
    assert 99_000 < len(trace_of(runtime)) <= 100_000
    runtime.verbs.put_config("bad", bad(start="surrogate"))
    cluster.settle()
    assert "half a surrogate: ?" in trace_of(runtime)


# --- failures, and what is asked or happens meanwhile ---


def begin_to_fence(runtime: MemoryRuntime) -> None:
    """The call is on its way, and will fail."""
    runtime.verbs.put_config("bad", bad(answer="two", note="x"))
    while not runtime.herder.view.fencings:
        runtime.calls.run()
        runtime.launcher.step()
        runtime.tick()


def test_a_fence_that_fails_after_its_connector_was_stopped_changes_nothing() -> None:
    cluster, _, runtime = with_fault("fence")
    begin_to_fence(runtime)
    runtime.verbs.stop("bad")
    cluster.settle()
    assert runtime.verbs.status("bad").connector.state is State.STOPPED
    assert [task for task in cluster.status.tasks if task.connector == "bad"] == []


def test_a_fence_that_fails_after_its_connector_was_deleted_leaves_no_status() -> None:
    cluster, _, runtime = with_fault("fence")
    begin_to_fence(runtime)
    runtime.verbs.delete("bad")
    cluster.settle()
    assert "bad" not in cluster.status.connectors
    assert [task for task in cluster.status.tasks if task.connector == "bad"] == []


@pytest.mark.parametrize("anew", [False, True])
def test_a_fence_that_fails_with_an_old_config_says_nothing_of_the_new_one(anew: bool) -> None:
    cluster, logs, runtime = with_fault("fence")
    begin_to_fence(runtime)
    if anew:
        runtime.verbs.delete("bad")
        runtime.verbs.create("bad", bad(answer="two", note="x"), None)
    else:
        runtime.verbs.put_config("bad", bad(answer="two", note="y"))
    # the call that waits is the first of those in the queue
    runtime.calls.waiting.pop(0)()
    refuse(logs, "")
    cluster.settle()
    is_well(runtime, "bad")


def with_task_configs_refused() -> tuple[MemoryCluster, MemoryRuntime]:
    """Tasks of the older set run on."""
    logs = RefusingLogs()
    cluster = cluster_of(logs)
    runtime = cluster.leader()
    runtime.verbs.create("bad", bad(answer="two"), None)
    cluster.settle()
    refuse(logs, "tasks")
    runtime.verbs.put_config("bad", bad(answer="two", note="x"))
    cluster.settle()
    assert "too large" in trace_of(runtime)
    assert len(runtime.launcher.live) == 2
    return cluster, runtime


def test_a_task_that_is_lost_while_its_connector_cannot_go_on_is_not_called_running() -> None:
    cluster, runtime = with_task_configs_refused()
    runtime.launcher.live[0].lose()
    cluster.settle()
    tasks = runtime.verbs.status("bad").tasks
    assert [tasks[0].state, tasks[1].state] == [State.UNASSIGNED, State.RUNNING]


def test_a_task_that_hangs_while_its_connector_cannot_go_on_is_killed() -> None:
    cluster, runtime = with_task_configs_refused()
    runtime.launcher.live[0].hung = True
    runtime.verbs.restart("bad", include_tasks=True)
    cluster.settle()
    assert runtime.launcher.live == []
    states = [task.state for task in runtime.verbs.status("bad").tasks.values()]
    assert states == [State.UNASSIGNED] * 2
    assert "too large" in trace_of(runtime)


def test_a_connector_that_is_deleted_and_made_again_unseen_is_well() -> None:
    """After a write that failed, requests are answered before the next decision."""
    cluster = cluster_of(RefusingLogs())
    runtime = cluster.leader()
    runtime.verbs.create("bad", bad(answer="two"), None)
    cluster.settle()
    runtime.herder._not_before = cluster.clock.now + 0.5
    runtime.verbs.delete("bad")
    runtime.verbs.create("bad", bad(answer="two"), None)
    cluster.settle()
    is_well(runtime, "bad")


def test_a_class_that_breaks_when_it_is_loaded_is_identified_as_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_of(RefusingLogs())
    runtime = cluster.leader()
    monkeypatch.setattr(registry, "connector", lambda name: sys.exit(3))
    runtime.connect._worker._hosted.identify(MISBEHAVING)
    runtime.calls.run()
    runtime.tick()
    assert runtime.herder.view.kinds == {MISBEHAVING: "unknown"}


def test_a_failed_task_does_not_keep_an_idle_leader_deciding() -> None:
    cluster = cluster_of(RefusingLogs())
    runtime = cluster.leader()
    runtime.verbs.create("bad", bad(answer="two"), None)
    cluster.settle()
    runtime.launcher.live[0].fail()
    cluster.settle()
    assert runtime.herder._next_look == math.inf


def test_a_connector_that_cannot_follow_a_crashed_runtime_stays_failed_until_a_restart() -> None:
    cluster = MemoryCluster(worker={"exactly.once.source.support": "disabled"})
    first = cluster.leader()
    first.verbs.create("bad", good("bad"), TargetState.RUNNING)
    cluster.settle()
    is_well(first, "bad")
    cluster.runtimes.remove(first)  # with its tasks, which say nothing any more
    second = cluster.leader()
    cluster.pass_time(30)
    assert "may still write" in trace_of(second)
    assert second.herder.view.failures["bad"].retry_at > cluster.clock.now - 2
    second.verbs.restart("bad", include_tasks=True)
    cluster.settle()
    is_well(second, "bad")


def test_a_config_of_apache_that_is_no_text_fails_its_connector_alone() -> None:
    """Half of a surrogate pair. Its connector can be changed, which heals it, and be deleted."""
    cluster = MemoryCluster()
    value = rb'{"properties":{"connector.class":"%s","odd":"\uD800"}}' % SOURCE.encode()
    cluster.logs.writer("apache").write(
        [
            NewRecord(TOPICS.config, b"connector-bad", value),
            NewRecord(TOPICS.config, b"task-bad-0", value),
            NewRecord(TOPICS.config, b"commit-bad", b'{"tasks":1}'),
            *(
                config_topic.connector_record(TOPICS.config, name, good(name))
                for name in ("one", "two")
            ),
        ]
    )
    runtime = cluster.leader()
    cluster.settle()
    is_well(runtime, "one")
    is_well(runtime, "two")
    assert trace_of(runtime).startswith("Non-string value found in original settings for key odd")
    assert runtime.verbs.status("bad").tasks == {}
    assert orjson.dumps(wire.connector_info_json(runtime.verbs.info("bad")))
    runtime.verbs.put_config("bad", good("bad"))
    cluster.settle()
    is_well(runtime, "bad")


def test_a_slot_goes_to_the_next_connector_if_the_first_one_cannot_take_it() -> None:
    logs = RefusingLogs()
    cluster = cluster_of(logs)
    runtime = cluster.leader(slots=1)
    for config in (good("a", tasks="1"), bad(answer="no value in it"), good("z", tasks="1")):
        runtime.verbs.create(config["name"], config, None)
        cluster.settle()
    refuse(logs, "assignments")
    runtime.verbs.stop("a")
    cluster.settle()
    trace_of(runtime)
    is_well(runtime, "z", 1)
