"""The loop of a source task between a modelled Kafka and a task of the test's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.api import RetriableError, SourceBatch, SourceRecord, SourceTask
from connect_runtime.data.converters import Converters
from connect_runtime.data.primitive_converters import StringConverter
from connect_runtime.data.simple_header_converter import SimpleHeaderConverter
from connect_runtime.errors.handler import ErrorHandler, ErrorPolicy
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import OffsetSnapshot, State
from connect_runtime.tasks.control.assignments import DesiredTaskState
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.source.offsets import TaskOffsets
from connect_runtime.tasks.source.pipeline import RecordPipeline
from connect_runtime.tasks.source.source_task import _SourceLoop
from connect_runtime.tasks.source.writer import Messages
from connect_runtime.transforms.chain import Chain, Step
from support.task_setups import task_setup
from support.wait import wait_until


class ModelWriter:
    """Keeps what is sent, and what of it is committed."""

    atomic, expires_s, bytes = True, 60.0, 0

    def __init__(self) -> None:
        self.open = False
        self.opened_at = 0.0
        self.sent: list[bytes] = []
        self.committed: list[bytes] = []
        self.offsets: dict[bytes, bytes | None] = {}

    def send(self, topic: str, messages: Messages, partition: int | None) -> None:
        if not self.open:
            self.open, self.opened_at = True, time.monotonic()
        self.sent += [message["value"] for message in messages.records]

    def commit(self, offsets: Sequence[NewRecord], limit_s: float | None = None) -> bool:
        self.committed += self.sent
        self.offsets |= {offset.key: offset.value for offset in offsets}
        self.abort()
        return True

    def abort(self) -> None:
        self.open, self.sent = False, []

    def serve(self) -> None: ...

    def close(self) -> None: ...


class Orders:
    """Wants what the test says."""

    wanted_now = DesiredTaskState.RUN

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    def desired(self, wait_s: float = 0.0) -> DesiredTaskState:
        self.waits_s.append(wait_s)
        return self.wanted_now

    def close(self) -> None: ...


class Passing:
    """A transformation that calls the test for each record."""

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def apply(self, record: Any) -> Any:
        self._call(record.value)
        return record


def _run(
    task: SourceTask,
    orders: Orders,
    chain: Chain,
    writer: ModelWriter | None = None,
    prepare: Callable[[str], object] = id,
    told: list[str] | None = None,
    **config: str,
) -> ModelWriter:
    """Runs the loop until it is stopped. Returns its writer, with what was committed. `prepare` is
    called for each topic before it is written to; `told` gets the statuses."""
    told = [] if told is None else told
    metrics, writer, text = TaskMetrics(), writer or ModelWriter(), StringConverter()
    metrics.begin("source")
    text.configure({})
    errors = ErrorHandler(
        ErrorPolicy(retry_timeout_s=60),
        (),
        lambda _: orders.desired() is DesiredTaskState.RUN,
        metrics,
    )
    loop = _SourceLoop(
        task_setup(connector_config=config),
        task,
        writer,
        TaskOffsets("c", "offsets", OffsetSnapshot()),
        SimpleNamespace(prepare=prepare, before_commit=id, after_commit=id),  # type: ignore[arg-type]
        RecordPipeline(Converters(text, text, SimpleHeaderConverter()), chain, errors),
        SimpleNamespace(
            record=_said, new_topics=lambda _: (), write=lambda *said: told.extend(said)
        ),  # type: ignore[arg-type]
        metrics,
    )
    assert loop.run(orders) is AttemptEnd.STOPPED
    return writer


def _said(state: State, *, polled: bool = False) -> str:
    return f"{state.value}, polled" if polled else state.value


class InTwoPolls(SourceTask):
    """Wants the records of its two polls to be in one transaction."""

    def start(self, props: Mapping[str, str]) -> None:
        self.left = ["1", "2"]

    def poll(self) -> Any:
        value = self.left.pop(0)
        if not self.left:
            self.context.transaction_context.commit_transaction()  # type: ignore[union-attr]
        return [SourceRecord({"p": 0}, {"n": int(value)}, "t", value)]

    def stop(self) -> None: ...


def test_a_stop_while_a_record_is_tried_again_splits_no_transaction_of_the_task() -> None:
    orders = Orders()
    boundary = {"transaction.boundary": "connector"}
    assert _run(InTwoPolls(), orders, _stopping_at("2", orders), **boundary).committed == []


class AbortingBatches(SourceTask):
    """Aborts the first of its batches and commits the second; `told` of the records of both."""

    def __init__(self, orders: Orders, *, columns: bool) -> None:
        self.orders, self.columns, self.told = orders, columns, list[Any]()

    def start(self, props: Mapping[str, str]) -> None:
        self.left = [["1", "2", "skip"], ["3", "skip"]]

    def poll(self) -> Any:
        values = self.left.pop(0)
        transactions = self.context.transaction_context
        assert transactions is not None
        if self.left:
            transactions.abort_transaction()
        else:
            transactions.commit_transaction()
            self.orders.wanted_now = DesiredTaskState.STOP
        if self.columns:
            return SourceBatch("t", {"p": 0}, values, source_offset={"n": values[0]})
        return [SourceRecord({"p": 0}, {"n": value}, "t", value) for value in values]

    def commit_record(self, record: SourceRecord) -> None:
        self.told.append(record.value)

    def stop(self) -> None: ...


@pytest.mark.parametrize("columns", [True, False])
def test_a_task_is_told_of_no_record_that_it_aborted(columns: bool) -> None:
    """It might acknowledge at its source what is not in Kafka. Records that a transformation drops,
    or whose errors are tolerated, count as done; but not within an aborted transaction."""
    orders = Orders()
    task = AbortingBatches(orders, columns=columns)
    boundary = {"transaction.boundary": "connector"}
    writer = _run(task, orders, _dropping("skip"), **boundary)
    assert writer.committed == [b"3"]
    assert task.told == ["3", "skip"]


class FailingAfterACommit(SourceTask):
    """Polls one record, and fails once the timer has committed it."""

    def __init__(self, writer: ModelWriter) -> None:
        self.writer, self.told = writer, list[Any]()

    def start(self, props: Mapping[str, str]) -> None:
        self.left = ["1"]

    def poll(self) -> Any:
        if self.left:
            return [SourceRecord({"p": 0}, {"n": 1}, "t", self.left.pop())]
        wait_until(lambda: self.writer.committed, what="the commit during the poll")
        raise ValueError("the source is gone")

    def commit_record(self, record: SourceRecord) -> None:
        self.told.append(record.value)

    def stop(self) -> None:
        self.told.append("stop")


def test_a_task_that_fails_is_told_of_what_was_committed_before() -> None:
    writer = ModelWriter()
    task = FailingAfterACommit(writer)
    with pytest.raises(ValueError, match="the source is gone"):
        _run(task, Orders(), Chain(()), writer)
    assert task.told == ["1", "stop"]


class MovingItsOffset(SourceTask):
    """Commits where it has read to, with each commit (KIP-910)."""

    def start(self, props: Mapping[str, str]) -> None:
        self.at = 0

    def poll(self) -> Any:
        self.at += 1
        return [SourceRecord({"p": 0}, {"n": self.at}, "t", str(self.at))]

    def update_offsets(self, offsets: Any) -> Any:
        return [({"p": 0}, {"n": self.at})]

    def stop(self) -> None: ...


def test_a_stop_while_a_record_is_tried_again_moves_no_offset_past_it() -> None:
    orders = Orders()
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "60000"}
    writer = _run(MovingItsOffset(), orders, _stopping_at("2", orders), **interval)
    assert writer.committed == [b"1"]
    assert writer.offsets == {b'["c",{"p":0}]': b'{"n":1}'}


class CountingInPlace(SourceTask):
    """Keeps where it has read to in one map, which it changes, and is stopped in its second poll
    once `writer` has committed the first one."""

    def __init__(self, orders: Orders, writer: ModelWriter) -> None:
        self.orders, self.writer = orders, writer

    def start(self, props: Mapping[str, str]) -> None:
        self.offset = {"n": 0}

    def poll(self) -> Any:
        self.offset["n"] += 1
        if self.offset["n"] == 1:
            return [SourceRecord({"p": 0}, self.offset, "t", "1")]
        wait_until(lambda: self.writer.committed, what="the commit during the poll")
        self.orders.wanted_now = DesiredTaskState.STOP
        return None

    def stop(self) -> None: ...


def test_a_commit_during_a_poll_has_the_offset_of_what_was_sent() -> None:
    """With one that the poll has moved, a record that it has not returned yet would be lost."""
    orders, writer = Orders(), ModelWriter()
    _run(CountingInPlace(orders, writer), orders, Chain(()), writer)
    assert writer.committed == [b"1"]
    assert writer.offsets == {b'["c",{"p":0}]': b'{"n":1}'}


class OfTwoTopics(SourceTask):
    """Polls a record for each, and is stopped after that."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders

    def start(self, props: Mapping[str, str]) -> None:
        self.left = ["quick", "slow"]

    def poll(self) -> Any:
        topic = self.left.pop(0)
        if not self.left:
            self.orders.wanted_now = DesiredTaskState.STOP
        return [SourceRecord({"p": 0}, {"n": len(self.left)}, topic, topic)]

    def stop(self) -> None: ...


def test_records_do_not_wait_for_a_topic_that_is_created() -> None:
    """Creating topics takes any time, and Kafka ends a transaction that is open for a minute."""
    orders, writer = Orders(), ModelWriter()

    def prepare(topic: str) -> None:
        if topic == "slow":
            wait_until(lambda: writer.committed, what="the commit while a topic is created")

    _run(OfTwoTopics(orders), orders, Chain(()), writer, prepare)
    assert writer.committed == [b"quick", b"slow"]


class Empty(SourceTask):
    """Polls for a moment, finds nothing, and is stopped after some polls."""

    def __init__(self, orders: Orders, *, waits: bool) -> None:
        self.orders, self.left = orders, 3
        self.poll_waits = waits  # type: ignore[misc]

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> Any:
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 0.006, what="6 ms", every_s=0.001)
        self.left -= 1
        if not self.left:
            self.orders.wanted_now = DesiredTaskState.STOP

    def stop(self) -> None: ...


class MovingWhileIdle(Empty):
    """May move its offset (KIP-910)."""

    def update_offsets(self, offsets: Any) -> Any: ...


@pytest.mark.parametrize("waits", [True, False])
def test_a_task_that_waits_in_its_polls_is_polled_at_once(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connect_runtime.tasks.source.source_task.idle_wait_s", lambda *_: 3600.0)
    orders = Orders()
    _run(Empty(orders, waits=waits), orders, Chain(()))
    assert [wait_s > 0 for wait_s in orders.waits_s] == [False, *[not waits] * 3]


def test_an_idle_task_is_asked_for_its_offsets_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each 60 s, by default."""
    monkeypatch.setattr("connect_runtime.tasks.source.source_task.idle_wait_s", lambda *_: 3600.0)
    for kind, longest_s in ((Empty, 3600), (MovingWhileIdle, 60)):
        orders = Orders()
        _run(kind(orders, waits=False), orders, Chain(()))
        assert longest_s - 1 < max(orders.waits_s) <= longest_s


class Retrying(SourceTask):
    """Cannot poll at first; then it does what the test says."""

    def __init__(self, then: Callable[[int], None]) -> None:
        self.polls = 0
        self._then = then

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> None:
        self.polls += 1
        if self.polls < 3:
            raise RetriableError("the database is silent")
        self._then(self.polls)

    def stop(self) -> None: ...


def test_a_task_says_once_that_it_has_polled_since_it_runs() -> None:
    """The trap: one that only tries again says that it works."""
    orders, told = Orders(), list[str]()
    before: list[int] = []

    def then(polls: int) -> None:
        if polls == 3:
            before.append(len(told))
        orders.wanted_now = {4: DesiredTaskState.PAUSE, 7: DesiredTaskState.STOP}.get(
            polls, DesiredTaskState.RUN
        )

    class Resumed(Orders):
        def desired(self, wait_s: float = 0.0) -> DesiredTaskState:
            found = orders.wanted_now
            if found is DesiredTaskState.PAUSE:
                orders.wanted_now = DesiredTaskState.RUN
            return found

    _run(Retrying(then), Resumed(), Chain(()), told=told)
    assert before == [1], "nothing but that it runs, as long as it only tries again"
    assert told == [
        "RUNNING",
        "RUNNING, polled",
        "PAUSED",
        "RUNNING",
        "RUNNING, polled",
        "UNASSIGNED",
    ]


def _dropping(value: str) -> Chain:
    """A chain that drops `value`."""
    step = SimpleNamespace(apply=lambda record: None if record.value == value else record)
    return Chain((Step(step, "Dropping"),))  # type: ignore[arg-type]


def _stopping_at(value: str, orders: Orders) -> Chain:
    """A chain that cannot transform `value` yet; the task is stopped while it tries."""

    def call(found: str) -> None:
        if found == value:
            orders.wanted_now = DesiredTaskState.STOP
            raise RetriableError("later")

    return Chain((Step(Passing(call), "Passing"),))  # type: ignore[arg-type]
