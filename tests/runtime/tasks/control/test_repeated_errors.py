"""Calls that a task asks to be repeated: what metrics, log and status tell of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.api import RetriableError, SinkBatch, SinkTask, SourceTask, TopicPartition
from connect_runtime.metrics.task_metrics import TaskMetrics, values_of
from connect_runtime.storage.snapshots import State, TaskId
from connect_runtime.tasks import run
from connect_runtime.tasks.control.statuses import RepeatedErrors
from connect_runtime.tasks.sink import sink_task
from support.broker import produce
from support.task_setups import task_setup
from support.wait import wait_until

RETRIES = "kafka_connect_task_error_total_retries"
TASK = TaskId("c", 0)


class Followed:
    """`reports` are the traces that the status got, by the time of each."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.reports: list[tuple[float, str | None]] = []
        config = {"db.password": "hunter2"}
        self.metrics = TaskMetrics()
        self.errors = RepeatedErrors(
            "Task c-0 polls again later",
            task_setup(config=config),
            self.metrics,
            lambda trace: self.reports.append((self.now - 1000, trace)),
            lambda: self.now,
        )

    def fail(self, seconds: float, every_s: float = 0.5, text: str = "no login as hunter2") -> None:
        until = self.now + seconds
        while self.now < until:
            self.errors.failed(RetriableError(text))
            self.now += every_s

    @property
    def retries(self) -> int:
        return int(values_of(self.metrics.reading())["metrics"][RETRIES])


@pytest.fixture
def followed(caplog: pytest.LogCaptureFixture) -> Followed:
    caplog.set_level(logging.WARNING)
    return Followed()


def test_the_log_pauses_and_each_retry_counts(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    """The trap: a line a second, for as long as a database is away."""
    followed.fail(3600)
    assert followed.retries == 7200
    # after 0 s, 1, 3, 7, 15, 31, 63, 123, and then each minute
    assert len(caplog.messages) == 7 + 58
    assert caplog.messages[0] == "Task c-0 polls again later: no login as [hidden]"
    assert caplog.messages[3] == (
        "Task c-0 polls again later, 15 times in 7 s: no login as [hidden]"
    )


def test_the_status_has_the_error_until_a_call_succeeds(followed: Followed) -> None:
    followed.fail(0.9)
    followed.errors.succeeded()
    assert followed.reports == [], "what passes at once is no reason for a status"
    followed.fail(600)
    ((at, trace),) = followed.reports
    assert at < 5
    assert trace is not None and trace.endswith("RetriableError: no login as [hidden]")
    followed.fail(120, text="another error")
    assert len(followed.reports) == 2
    followed.errors.succeeded()
    followed.errors.succeeded()
    assert [trace for _, trace in followed.reports][2:] == [None]


def test_a_status_without_the_error_gets_it_again(followed: Followed) -> None:
    """Such as that of a task which was paused and resumed."""
    followed.fail(10)
    followed.errors.forget()
    followed.fail(120)
    assert len(followed.reports) == 2


def test_calls_that_succeed_in_between_do_not_fill_the_log(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(600):
        followed.fail(0.5)
        followed.errors.succeeded()
        followed.now += 0.5
    assert len(caplog.messages) < 20
    followed.now += 3600
    followed.fail(1)
    assert caplog.messages[-1] == "Task c-0 polls again later: no login as [hidden]"


class Away(SourceTask):
    """A source whose database is away until `back`."""

    back = False

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> None:
        if not self.back:
            raise RetriableError("the database is away")

    def stop(self) -> None: ...


class Full(SinkTask):
    """A sink whose target is full until `back`."""

    back = False

    def start(self, props: Mapping[str, str]) -> None: ...

    def put(self, records: SinkBatch) -> None:
        if len(records) and not self.back:
            self.context.timeout(200)
            raise RetriableError("the disk is full")

    def stop(self) -> None: ...


class Unflushed(SinkTask):
    """A sink that cannot flush until `back`."""

    back = False

    def start(self, props: Mapping[str, str]) -> None: ...

    def put(self, records: SinkBatch) -> None: ...

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not self.back:
            raise RetriableError("the disk is away")

    def stop(self) -> None: ...


def test_a_put_that_succeeds_does_not_hide_that_nothing_can_be_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trap: the status says nothing any more, for as long as flushes fail alike."""
    now, said = 1000.0, list[str | None]()
    reporter = SimpleNamespace(
        record=lambda state, trace=None, *, polled: trace, write=lambda trace: said.append(trace)
    )
    followed = partial(RepeatedErrors, clock=lambda: now)
    monkeypatch.setattr(sink_task, "RepeatedErrors", followed)
    config = {"name": "c", "topics": "t"}
    worker = dict.fromkeys(("key.converter", "value.converter"), "StringConverter")
    setup = task_setup(config=config, worker=worker)
    metrics = TaskMetrics()
    metrics.begin("sink")
    loop = sink_task._SinkLoop(setup, Unflushed(), reporter, metrics)  # type: ignore[arg-type]
    loop._state = State.RUNNING
    for second in range(180):
        loop._flush({})
        if second < 5:
            loop._repeated.failed(RetriableError("the disk is full"))
        elif second == 5:
            loop._repeated.succeeded()
            assert said[-1] is None
        elif second == 70:
            assert said[-1] is not None
            loop._offsets.assigned.add(TopicPartition("t", 0))
            loop._after_put(records=True)  # the first successful poll
            assert said[-1] is None
        now += 1
    assert said[-1] is not None
    assert said[-1].endswith("the disk is away")


@pytest.mark.parametrize("task", [Away, Full, Unflushed])
def test_a_task_that_repeats_its_calls_says_why_until_one_succeeds(
    cluster: Any,
    topic: Callable[[int], str],
    install: Callable[[type[Any]], str],
    monkeypatch: pytest.MonkeyPatch,
    task: type[Any],
) -> None:
    metrics = TaskMetrics()
    monkeypatch.setattr(run, "TaskMetrics", lambda: metrics)
    name = topic(1)
    own = type("Task", (task,), {})
    config = {"name": "c", "task.class": install(own), "value.converter": "StringConverter"}
    cluster.worker["offset.flush.interval.ms"] = "200"
    if issubclass(task, SinkTask):
        produce(cluster.bootstrap_servers, name, [(None, b"x")])
        group = f"connect-{cluster.name}"
        config |= {"topics": name, "consumer.override.group.id": group}
    cluster.assign(TASK, 1)
    cluster.run(cluster.launch(TASK, config))
    found = wait_until(
        lambda: (status := cluster.status(TASK)) and status["trace"] and status,
        what="the error in the status",
    )
    assert found["state"] == "RUNNING"
    assert "RetriableError: the d" in found["trace"]
    assert values_of(metrics.reading())["metrics"][RETRIES] > 1
    own.back = True
    wait_until(lambda: cluster.status(TASK)["trace"] is None, what="a status without it")
    assert cluster.status(TASK)["state"] == "RUNNING"
