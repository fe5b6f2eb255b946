"""Whatever one connector's plugin and Kafka's answers about it do, every other one converges."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.herder.verbs import RequestError
from connect_runtime.plugins import registry
from connect_runtime.rest import wire
from connect_runtime.storage import config_topic
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import State
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Diagnostic, Failed
from support.connectors import SINK, SOURCE, ObedientSource
from support.examples import examples
from support.launcher import MemoryAttempt
from support.memory_cluster import GROUP_ID, TOPICS, MemoryCluster, MemoryRuntime, shown
from support.misbehaving import (
    MISBEHAVING,
    TASK_CONFIGS,
    MisbehavingSource,
    RefusingLogs,
    not_allowed,
    silent,
)


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
    cluster = MemoryCluster(logs)
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


class Story:
    """Plays the steps of isolation.yaml."""

    def __init__(self, kafka: str | None, slots: int) -> None:
        self.logs = RefusingLogs()
        self.cluster = MemoryCluster(self.logs)
        if kafka is None:
            self.runtime = self.cluster.leader(slots)
        else:
            self.runtime = self.cluster.running(good("a"), bad(answer="two"), slots=slots)
            refuse(self.logs, kafka)

    def play(self, steps: list[Any]) -> None:
        for step in steps:
            if isinstance(step, list):
                self.play(step)
                continue
            ((name, argument),) = step.items() if isinstance(step, dict) else [(step, None)]
            self.do(name, argument)

    def do(self, name: str, argument: Any) -> None:
        runtime, cluster = self.runtime, self.cluster
        match name:
            case "put":
                for connector, config in argument.items():
                    made = bad() if connector == "bad" else good(connector)
                    runtime.verbs.put_config(connector, made | config)
            case "settle":
                cluster.settle()
            case "pass":
                cluster.pass_time(argument)
            case "kafka":
                refuse(self.logs, argument)
            case "restart with tasks":
                runtime.verbs.restart(argument, include_tasks=True)
            case "begin to fence":
                begin_to_fence(runtime)
            case "call plugins once":
                runtime.calls.waiting.pop(0)()
            case "lose":
                self.live(argument)[0].lose()
            case "hang":
                self.live(argument)[0].hung = True
            case _ if hasattr(self, f"check_{name}".replace(" ", "_")):
                getattr(self, f"check_{name}".replace(" ", "_"))(argument)
            case _:
                getattr(runtime.verbs, name)(argument)

    def live(self, connector: str) -> list[MemoryAttempt]:
        return [each for each in self.runtime.launcher.live if each.id.connector == connector]

    def check_well(self, connectors: dict[str, int]) -> None:
        for name, tasks in connectors.items():
            is_well(self.runtime, name, tasks)

    def check_failed(self, text: str) -> None:
        assert text in trace_of(self.runtime)

    def check_tasks_failed(self, text: str) -> None:
        for task in self.runtime.verbs.status("bad").tasks.values():
            assert text in (task.trace or "")

    def check_live(self, counts: dict[str, int]) -> None:
        assert {name: len(self.live(name)) for name in counts} == counts

    def check_states(self, states: dict[str, list[str]]) -> None:
        assert {name: shown(self.runtime.verbs.status(name)) for name in states} == states

    def check_gone(self, _: None) -> None:
        assert "bad" not in self.cluster.status.connectors

    def check_statuses_of_tasks(self, count: int) -> None:
        assert len([t for t in self.cluster.status.tasks if t.connector == "bad"]) == count

    def check_generation(self, number: int) -> None:
        assert self.cluster.config.connectors["bad"].generation == number

    def check_first_task_config(self, keys: list[str]) -> None:
        config = self.cluster.config.connectors["bad"].task_configs[0]
        assert [key for key in config if key in ("m", "n")] == keys


def begin_to_fence(runtime: MemoryRuntime) -> None:
    """The call is on its way, and will fail."""
    runtime.verbs.put_config("bad", bad(answer="two", note="x"))
    while not runtime.herder.view.fencings:
        runtime.calls.run()
        runtime.launcher.step()
        runtime.tick()


@pytest.mark.parametrize(
    ("scenario", "kafka"),
    [
        pytest.param(scenario, kafka, id=f"{scenario['scenario']} {kafka or ''}".strip())
        for scenario in yaml.safe_load(Path(__file__).with_name("isolation.yaml").read_text())
        for kafka in scenario.get("kafka", [None])
    ],
)
def test_scenario(scenario: dict[str, Any], kafka: str | None) -> None:
    Story(kafka, scenario.get("slots", 16)).play(scenario["steps"])


def test_the_trace_of_a_failing_fence_holds_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    story = Story("fence", slots=16)
    cluster, runtime = story.cluster, story.runtime
    story.logs.fence_error = lambda: Failed(Diagnostic("kafka.x", "no login with 's3cret-p4ss'"))
    config = bad(answer="two", **{"admin.override.sasl.password": "s3cret-p4ss"})
    runtime.verbs.put_config("bad", config)
    cluster.settle()
    assert "no login with '[hidden]'" in trace_of(runtime)
    assert "s3cret-p4ss" not in caplog.text


def test_large_configs_of_many_tasks_do_not_take_too_long_for_one_transaction() -> None:
    """The trap: Kafka aborts it and fences the leader, which then tries the same again."""
    logs = RefusingLogs()
    logs.most = 9 << 20
    cluster = MemoryCluster(logs)
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
    cluster = MemoryCluster()
    runtime = cluster.running(bad(answer=answer))
    assert what in trace_of(runtime)
    assert cluster.config.connectors["bad"].generation == -1


@pytest.mark.parametrize("answer", ["throws", "exits"])
def test_a_connector_that_throws_when_asked_for_task_configs_runs_and_is_asked_again(
    answer: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = MemoryCluster()
    runtime = cluster.running(bad(answer=answer))
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


def test_a_trace_of_any_length_and_content_is_stored() -> None:
    cluster = MemoryCluster()
    runtime = cluster.running(bad(start="long"))
    assert 99_000 < len(trace_of(runtime)) <= 100_000
    runtime.verbs.put_config("bad", bad(start="surrogate"))
    cluster.settle()
    assert "half a surrogate: ?" in trace_of(runtime)


def test_a_connector_that_is_deleted_and_made_again_unseen_is_well() -> None:
    """After a write that failed, requests are answered before the next decision."""
    cluster = MemoryCluster()
    runtime = cluster.running(bad(answer="two"))
    runtime.herder._not_before = cluster.clock.now + 0.5
    runtime.verbs.delete("bad")
    runtime.verbs.create("bad", bad(answer="two"), None)
    cluster.settle()
    is_well(runtime, "bad")


def test_a_class_that_breaks_when_it_is_loaded_is_identified_as_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MemoryCluster()
    runtime = cluster.leader()
    monkeypatch.setattr(registry, "connector", lambda name: sys.exit(3))
    runtime.connect.herder._worker._hosted.identify(MISBEHAVING)
    runtime.calls.run()
    runtime.tick()
    assert runtime.herder.view.kinds == {MISBEHAVING: "unknown"}


def test_a_failed_task_does_not_keep_an_idle_leader_deciding() -> None:
    cluster = MemoryCluster()
    runtime = cluster.running(bad(answer="two"))
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
