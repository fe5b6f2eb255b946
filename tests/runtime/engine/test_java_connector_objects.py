"""The objects of Java connectors, in JVMs that the test moves: which gets which request."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from connect_runtime.engine import catalog, java_connectors, java_loggers
from connect_runtime.engine.java_connectors import JavaConnectors
from connect_runtime.engine.jvm_connection import Fields, JvmEnded
from connect_runtime.herder.instances import PluginCalls
from connect_runtime.herder.runs import Event, InstanceFailed, InstanceStarted
from connect_runtime.storage.log import LogBlocked
from connect_runtime.traces import JavaError
from connect_specs.diagnostics import ConnectError, Diagnostic, Unreachable
from support.wait import wait_until

PASSWORD = {"type": "java.lang.SecurityException"}
NO_THREADS = {"type": "java.lang.OutOfMemoryError"}
CONFIG = {"name": "c", "connector.class": "X"}


class MovedJvm:
    """A JVM in this process; `began` gets each. One that is `dead` refuses all requests. `before`
    has what happens before a request of a name is answered."""

    began: list[MovedJvm]
    started: Callable[[], None]

    def __init__(
        self,
        worker: Mapping[str, str],
        worker_id: str,
        *,
        on_event: Callable[[str, Fields], None],
        answers: Mapping[str, Any],
    ) -> None:
        self.on_event = on_event
        self.answers = answers
        self.unusable = False
        self.dead = False
        self.calls: list[str] = []
        self.names: list[str] = []
        self.before: dict[str, Callable[[], object]] = {}
        MovedJvm.began.append(self)
        MovedJvm.started()

    def hide(self, values: object) -> None:
        """Has no texts."""

    def call(self, name: str, timeout_s: float, **arguments: Any) -> Any:
        self.before.get(name, lambda: None)()
        if self.dead:
            raise JvmEnded("it is gone")
        self.calls.append(name)
        if name == "start-connector":
            self.names.append(arguments["connector"])
        return [] if name == "task-configs" else True

    def error(self, failure: Any) -> JavaError:
        return JavaError(failure["type"], "", 500, f"{failure['type']} in a plugin")

    def end(self) -> None:
        self.dead = True

    def event(self, name: str, **fields: Any) -> None:
        self.on_event(name, {"connector": "c", "serial": 1, **fields})

    def die(self) -> None:
        self.dead = True
        self.on_event("ended", {"why": "it is gone"})


@pytest.fixture
def jvms(monkeypatch: pytest.MonkeyPatch) -> list[MovedJvm]:
    monkeypatch.setattr(MovedJvm, "began", [], raising=False)
    monkeypatch.setattr(MovedJvm, "started", staticmethod(lambda: None), raising=False)
    monkeypatch.setattr(catalog, "PluginJvm", MovedJvm)
    monkeypatch.setattr(java_connectors, "_AGAIN_S", 0.0)
    monkeypatch.setattr(java_connectors, "_REPEAT_S", 0.0)
    monkeypatch.setattr(java_loggers, "_set", {})
    return MovedJvm.began


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def connectors(jvms: list[MovedJvm], events: list[Event]) -> Iterator[JavaConnectors]:
    """Closed in the end, so that no thread of a test starts a JVM in the next one."""
    connectors = JavaConnectors(events.append, {}, "w", PluginCalls(), lambda config, keys: [])
    yield connectors
    connectors.close(5.0)


def test_a_connector_that_has_failed_is_not_started_again(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    connectors.start("c", 1, CONFIG)
    jvms[0].event("connector-failed", failure=PASSWORD)
    connectors.start("other", 9, CONFIG)
    jvms[0].die()
    wait_until(lambda: len(jvms) == 2, what="the JVM of the other connector")
    assert jvms[1].calls == ["start-connector"]
    assert [type(event) for event in events] == [InstanceFailed]


def test_a_jvm_that_cannot_start_is_replaced_and_its_connectors_have_not_failed(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    """Kafka may be away, once or for hours."""

    def first_three_cannot() -> None:
        jvms[-1].unusable = jvms[-1].dead = len(jvms) <= 3

    MovedJvm.started = staticmethod(first_three_cannot)
    connectors.start("c", 1, CONFIG)
    wait_until(lambda: len(jvms) == 4 and jvms[3].calls, what="a JVM that starts")
    jvms[3].event("connector-started", kind="sink", version="1")
    wait_until(lambda: events, what="its answer")
    assert [type(event) for event in events] == [InstanceStarted]


def test_a_connector_that_was_stopped_is_not_started_by_the_end_of_its_jvm(
    connectors: JavaConnectors, jvms: list[MovedJvm]
) -> None:
    connectors.start("c", 1, CONFIG)
    connectors.start("other", 9, CONFIG)
    jvms[0].dead = True
    connectors.stop("c", 1)
    jvms[0].die()
    wait_until(lambda: len(jvms) == 2 and jvms[1].calls, what="the JVM of the other connector")
    connectors.stop("other", 9)
    assert jvms[1].calls == ["start-connector", "stop-connector"]


def test_a_connector_that_is_stopped_while_the_next_jvm_starts_is_not_started_in_it(
    connectors: JavaConnectors, jvms: list[MovedJvm]
) -> None:
    connectors.start("c", 1, CONFIG)
    connectors.start("other", 9, CONFIG)

    def stop() -> None:
        connectors._connectors.pop(("c", 1))

    MovedJvm.started = staticmethod(stop)
    jvms[0].event("connector-started", kind="sink", version="1")
    jvms[0].on_event(
        "connector-started", {"connector": "other", "serial": 9, "kind": "sink", "version": "1"}
    )
    wait_until(lambda: jvms[0].calls.count("task-configs") == 2, what="both answers")
    jvms[0].die()
    wait_until(lambda: len(jvms) == 2 and jvms[1].calls, what="the next JVM")
    connectors.stop("other", 9)
    assert jvms[1].calls.count("start-connector") == 1


def started(jvm: MovedJvm, name: str, serial: int) -> None:
    jvm.on_event(
        "connector-started",
        {"connector": name, "serial": serial, "kind": "source", "version": "1"},
    )


def is_busy(connectors: JavaConnectors, name: str, serial: int) -> bool:
    connector = connectors._connectors[name, serial]
    return connector.starting or connector.asking


def test_a_connector_with_a_call_in_progress_starts_alone_and_then_has_failed(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    """It may have ended the JVM, so it must not end that of the others again."""
    connectors.start("c", 1, CONFIG)
    connectors.start("other", 9, CONFIG)
    started(jvms[0], "other", 9)
    wait_until(lambda: not is_busy(connectors, "other", 9), what="the other one to have answered")
    jvms[0].die()
    wait_until(lambda: len(jvms) == 3 and jvms[1].names and jvms[2].names, what="two JVMs")
    alone, shared = sorted(jvms[1:], key=lambda jvm: jvm.names)
    assert (alone.names, shared.names) == (["c"], ["other"])
    started(alone, "c", 1)
    alone.die()
    wait_until(lambda: any(isinstance(e, InstanceFailed) for e in events), what="its failure")
    (failed,) = (event for event in events if isinstance(event, InstanceFailed))
    assert (failed.name, failed.trace) == ("c", "it is gone")
    assert len(jvms) == 3
    assert not shared.dead


def test_a_connector_that_ends_its_jvm_when_it_is_asked_starts_alone(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    connectors.start("other", 9, CONFIG)
    started(jvms[0], "other", 9)
    wait_until(lambda: not is_busy(connectors, "other", 9), what="the other one to have answered")
    connectors.start("c", 1, CONFIG)
    jvms[0].before["task-configs"] = jvms[0].end
    started(jvms[0], "c", 1)
    wait_until(lambda: jvms[0].dead, what="the JVM to end")
    jvms[0].die()
    wait_until(lambda: len(jvms) == 3 and jvms[1].names and jvms[2].names, what="two JVMs")
    assert sorted(jvm.names for jvm in jvms[1:]) == [["c"], ["other"]]


def test_events_of_a_jvm_that_a_connector_has_left_are_dropped(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    """One that was frozen still sends them when it goes on."""
    connectors.start("c", 1, CONFIG)
    started(jvms[0], "c", 1)
    wait_until(lambda: len(events) == 1, what="its answer")
    jvms[0].die()
    wait_until(lambda: len(jvms) == 2 and jvms[1].calls, what="the next JVM")
    jvms[0].event("connector-failed", failure=PASSWORD)
    started(jvms[1], "c", 1)
    wait_until(lambda: len(events) == 2, what="the next answer")
    assert all(isinstance(event, InstanceStarted) for event in events)


def test_requests_for_new_tasks_are_one_call_at_a_time(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    """A plugin may request it all the time, and hang when it is asked."""
    connectors.start("c", 1, CONFIG)
    go_on, asked = threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        asked.release()
        assert go_on.wait(20)

    jvms[0].before["task-configs"] = hold
    started(jvms[0], "c", 1)
    assert asked.acquire(timeout=20)
    threads = threading.active_count()
    for _ in range(50):
        jvms[0].event("connector-reconfigured")
    assert threading.active_count() == threads
    go_on.set()
    wait_until(lambda: len(events) == 2, what="the answer of once more")
    assert jvms[0].calls.count("task-configs") == 2


def test_a_connector_that_takes_long_to_divide_its_work_says_so_and_is_waited_for(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    connectors.start("c", 1, CONFIG)

    def slow(name: str, timeout_s: float, on_slow: Callable[[], None], **arguments: Any) -> Any:
        on_slow()
        return [{"task": "0"}]

    jvms[0].call = slow  # type: ignore[assignment]
    started(jvms[0], "c", 1)
    wait_until(lambda: len(events) == 2, what="both reports")
    late, answer = events
    assert isinstance(late, InstanceStarted)
    assert isinstance(answer, InstanceStarted)
    assert late.task_configs is None
    assert late.trace == "Connector c has not returned its task configs in 90 s"
    assert (answer.task_configs, answer.trace) == (({"task": "0"},), None)


def test_a_jvm_that_is_made_keeps_others_from_nothing(
    connectors: JavaConnectors, jvms: list[MovedJvm]
) -> None:
    making, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        making.set()
        assert go_on.wait(20)

    MovedJvm.started = staticmethod(slow)
    thread = threading.Thread(target=connectors.start, args=("c", 1, CONFIG))
    thread.start()
    assert making.wait(20)
    connectors.stop("other", 9)
    connectors.ask("other", 9)
    connectors.close(5.0)
    go_on.set()
    thread.join(20)
    wait_until(lambda: jvms[0].dead, what="the JVM of a runtime that has ended to end")


def test_producers_are_fenced_though_another_connector_has_just_ended_the_jvm(
    connectors: JavaConnectors, jvms: list[MovedJvm]
) -> None:
    connectors.start("other", 9, CONFIG)
    jvms[0].dead = True
    connectors.fence(CONFIG, ["g-c-0"])
    assert jvms[1].calls == ["fence"]


def test_a_connector_without_memory_or_threads_has_failed_and_the_others_get_another_jvm(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    connectors.start("c", 1, CONFIG)
    connectors.start("other", 9, CONFIG)
    started(jvms[0], "other", 9)
    wait_until(lambda: not is_busy(connectors, "other", 9), what="the other one to have answered")
    jvms[0].event("connector-failed", failure=NO_THREADS)
    wait_until(lambda: jvms[0].dead, what="the JVM to be ended")
    jvms[0].die()
    wait_until(lambda: len(jvms) == 2 and jvms[1].calls, what="the next JVM")
    assert jvms[1].calls == ["start-connector"]
    (failed,) = (event for event in events if isinstance(event, InstanceFailed))
    assert failed.name == "c"


def test_a_connector_is_to_start_again_when_a_value_of_its_config_expires(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    connectors.start("c", 1, CONFIG)
    jvms[0].event("connector-resolved", fingerprint="print", reloadMs=2500)
    jvms[0].event("connector-started", kind="sink", version="1")
    wait_until(lambda: events, what="its answer")
    (started,) = events
    assert isinstance(started, InstanceStarted)
    assert (started.fingerprint, started.reload_in_s) == ("print", 2.5)


def test_a_connector_that_fails_is_started_again_when_a_value_expires_but_never_at_once(
    connectors: JavaConnectors, jvms: list[MovedJvm], events: list[Event]
) -> None:
    connectors.start("c", 1, CONFIG)
    jvms[0].event("connector-resolved", fingerprint="print", reloadMs=0)
    jvms[0].event("connector-failed", failure=PASSWORD)
    (failed,) = events
    assert isinstance(failed, InstanceFailed)
    assert failed.reload_in_s == 1.0


def test_no_jvm_starts_after_the_end(connectors: JavaConnectors, jvms: list[MovedJvm]) -> None:
    """As for the producer of a task that ended with the runtime: nothing would end that JVM."""
    connectors.start("c", 1, CONFIG)
    connectors.close(5.0)
    with pytest.raises(JvmEnded, match="is ending"):
        connectors.fence({}, ["id"])
    connectors.start("late", 2, CONFIG)
    assert len(jvms) == 1
    assert jvms[0].dead


@pytest.mark.parametrize("error", [LogBlocked, Unreachable])
def test_a_connector_that_reads_its_offsets_waits_for_a_transaction_and_for_kafka(
    jvms: list[MovedJvm], events: list[Event], error: type[ConnectError]
) -> None:
    """The trap: a task of another connector that hangs in its transaction fails this one."""
    reads = iter([error(Diagnostic("topic", "Not yet")), None])

    def read(config: Mapping[str, str], keys: list[bytes]) -> list[bytes | None]:
        not_yet = next(reads)
        if not_yet is not None:
            raise not_yet
        return [key + config["name"].encode() for key in keys]

    connectors = JavaConnectors(events.append, {}, "w", PluginCalls(), read)
    connectors.start("c", 1, CONFIG)
    key = base64.b64encode(b"key of ").decode()
    (answer,) = jvms[0].answers["offsets"]({"connector": "c", "keys": [key]})
    assert base64.b64decode(answer) == b"key of c"
    connectors.stop("c", 1)
    reads = iter([error(Diagnostic("topic", "Not yet"))])
    with pytest.raises(error):
        jvms[0].answers["offsets"]({"connector": "c", "keys": [key]})
    connectors.close(5.0)
