"""Whatever happens to a sink task: no commit passes a record that is not safe, and all get safe.

The real loop between a modelled Kafka (logs with gaps, commits that are answered late or never,
rebalances) and a modelled task, which counts a record as safe once a flush after its put succeeds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from connect_runtime.api import ConnectorError, RetriableError, SinkBatch, SinkTask, TopicPartition
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.snapshots import State
from connect_runtime.tasks.sink.offsets import ReadBatch
from connect_runtime.tasks.sink.sink_task import _SinkLoop
from support.examples import examples
from support.task_setups import task_setup

P = [TopicPartition("t", number) for number in range(3)]
STRING = "org.apache.kafka.connect.storage.StringConverter"
METRICS = TaskMetrics()
METRICS.begin("sink")
SETUP = task_setup(
    "snk",
    connector_config={"topics": "t"},
    worker={"key.converter": STRING, "value.converter": STRING},
)


class ModelTask(SinkTask):
    """Keeps what it is given until the next flush. `fails` names calls that fail once."""

    def __init__(self) -> None:
        self.fails: set[str] = set()
        self.asks: Callable[[ModelTask], None] | None = None
        self.allow: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]] = dict
        self.held: set[tuple[TopicPartition, int]] = set()
        self.safe: set[tuple[TopicPartition, int]] = set()

    def start(self, props: Mapping[str, str]) -> None: ...

    def put(self, records: SinkBatch) -> None:
        if self.asks is not None:
            ask, self.asks = self.asks, None
            ask(self)
        assert self.context.assignment.issuperset(
            map(TopicPartition, records.topics, records.partitions)
        )
        if "put" in self.fails:
            self.fails.discard("put")
            raise RetriableError("busy")
        self.held.update(
            (TopicPartition(topic, number), offset)
            for topic, number, offset in zip(
                records.topics, records.partitions, records.offsets, strict=True
            )
        )

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        if "flush" in self.fails:
            self.fails.discard("flush")
            self.held.clear()
            raise RuntimeError("disk full")
        self.safe |= self.held
        self.held.clear()

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.flush(offsets)
        return self.allow(offsets)

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        self.held = {each for each in self.held if each[0] not in gone}

    def stop(self) -> None: ...


class ModelKafka:
    """What the loop needs of SinkConsumer."""

    def __init__(self, loop: _SinkLoop) -> None:
        self.loop = loop
        self.logs: dict[TopicPartition, list[int]] = {p: [] for p in P}
        self.ends = dict.fromkeys(P, 0)
        self.committed: dict[TopicPartition, int] = {}
        self.requests: list[dict[TopicPartition, int]] = []
        self.assigned: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()
        self.next: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.sent: Callable[[Mapping[TopicPartition, int]], None] = lambda offsets: None

    def read(self, timeout_s: float) -> ReadBatch:
        messages = []
        for partition in sorted(self.assigned - self.paused):
            for offset in [o for o in self.logs[partition] if o >= self.next[partition]][:3]:
                messages.append(Message(*partition, offset, b"k", b"v"))
                self.next[partition] = self.positions[partition] = offset + 1
        return ReadBatch(messages, dict(self.positions) if messages else {})

    def starts(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        first = {p: min(self.logs[p], default=self.ends[p]) for p in partitions}
        return {p: self.committed.get(p, first[p]) for p in partitions}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.sent(offsets)
        self.requests.append(dict(offsets))

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert self.assigned.issuperset(offsets)
        self.next.update(offsets)
        for partition in offsets:
            self.positions.pop(partition, None)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused.update(p for p in partitions if p in self.assigned)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused.difference_update(partitions)

    # what happens to the group

    def gain(self, partitions: list[TopicPartition]) -> None:
        starts = self.loop._on_gained(partitions)
        self.next.update(starts)
        self.assigned.update(partitions)
        self.loop._on_settled(partitions)

    def drop(
        self, partitions: list[TopicPartition], tell: Callable[[list[TopicPartition]], None]
    ) -> None:
        tell(partitions)
        for partition in partitions:
            self.positions.pop(partition, None)
        self.assigned.difference_update(partitions)
        self.paused.difference_update(partitions)

    def answer(self, request: dict[TopicPartition, int], refused: set[TopicPartition]) -> None:
        accepted = request.keys() - refused
        self.committed.update({p: request[p] for p in accepted})
        error = KafkaError(KafkaError._TIMED_OUT) if refused else None
        self.loop._on_answered(request, accepted, error)


class Reporter:
    """Statuses are no part of this."""

    def record(self, state: State, *, polled: bool = False) -> None: ...

    def new_topics(self, topics: set[str]) -> list[Any]:
        return []

    def write(self, *records: Any) -> None: ...


_SOME = st.sets(st.sampled_from(P), min_size=1).map(sorted)


class SinkModel(RuleBasedStateMachine):
    """One task with up to three partitions, and others that take what it gives up."""

    def __init__(self) -> None:
        super().__init__()
        # thousands of warnings, each one expected
        self._log = logging.getLogger("connect_runtime.tasks")
        self._level = self._log.level
        self._log.setLevel(logging.CRITICAL)

    @initialize(first=st.integers(0, 3), counts=st.tuples(*[st.integers(0, 4)] * 3))
    def begin(self, first: int, counts: tuple[int, int, int]) -> None:
        self.task = ModelTask()
        self.loop = _SinkLoop(SETUP, self.task, cast(Any, Reporter()), METRICS)
        self.kafka = ModelKafka(self.loop)
        self.kafka.sent = self.check
        self.loop._consumer = cast(Any, self.kafka)
        self.task.initialize(self.loop)
        self.kafka.ends = dict.fromkeys(P, first)
        for partition, count in zip(P, counts, strict=True):
            self.produce([partition], count, 0)
        self.loop._enter_state(State.RUNNING)

    def check(self, offsets: Mapping[TopicPartition, int]) -> None:
        """No record before a committed offset may be unsafe."""
        for partition, offset in offsets.items():
            assert partition in self.loop._offsets.assigned
            before = {(partition, o) for o in self.kafka.logs[partition] if o < offset}
            assert before <= self.task.safe, (partition, offset, sorted(before - self.task.safe))

    @rule(partitions=_SOME, count=st.integers(1, 5), gap=st.integers(0, 2))
    def produce(self, partitions: list[TopicPartition], count: int, gap: int) -> None:
        for partition in partitions:
            for _ in range(count):
                self.kafka.logs[partition].append(self.kafka.ends[partition])
                self.kafka.ends[partition] += 1
            self.kafka.ends[partition] += gap  # a marker, or records that were aborted

    @rule(fails=st.sets(st.sampled_from(["put", "flush"])), commit=st.booleans())
    def step(self, fails: set[str], commit: bool) -> None:
        self.task.fails = fails
        if commit:
            self.loop.request_commit()
        self.loop._retry_at = 0.0
        self.loop._once()
        self.task.fails = set()

    @rule(partitions=_SOME)
    def gain(self, partitions: list[TopicPartition]) -> None:
        new = [p for p in partitions if p not in self.kafka.assigned]
        if new:
            self.kafka.gain(new)

    @rule(partitions=_SOME, fails=st.booleans(), lost=st.booleans())
    def give_up(self, partitions: list[TopicPartition], fails: bool, lost: bool) -> None:
        had = [p for p in partitions if p in self.kafka.assigned]
        self.task.fails = {"flush"} if fails else set()
        if had:
            self.kafka.drop(had, partial(self.loop._on_revoked, commit=not lost))
        self.task.fails = set()

    @rule(partition=st.sampled_from(P), count=st.integers(1, 4))
    def another_task_goes_on(self, partition: TopicPartition, count: int) -> None:
        if partition in self.kafka.assigned:
            return
        start = self.kafka.starts([partition])[partition]
        done = [o for o in self.kafka.logs[partition] if o >= start][:count]
        if done:
            self.task.safe.update((partition, offset) for offset in done)
            self.kafka.committed[partition] = done[-1] + 1

    @rule(refused=st.sets(st.sampled_from(P)), late=st.booleans(), never=st.booleans())
    def answer(self, refused: set[TopicPartition], late: bool, never: bool) -> None:
        if self.kafka.requests:
            request = self.kafka.requests.pop(-1 if late else 0)
            if not never:
                self.kafka.answer(request, refused & request.keys())

    @rule()
    def patience_ends(self) -> None:
        self.loop._offsets.is_overdue(1e18, 0)

    @rule(paused=st.booleans())
    def order(self, paused: bool) -> None:
        self.loop._enter_state(State.PAUSED if paused else State.RUNNING)

    @rule(partition=st.sampled_from(P), back=st.integers(0, 4))
    def the_task_asks_for_records_again(self, partition: TopicPartition, back: int) -> None:
        def ask(task: ModelTask) -> None:
            if partition in task.context.assignment:
                at = max(0, self.kafka.next.get(partition, 0) - back)
                at = min(at, self.loop._offsets._rewinds.get(partition, at))
                task.context.offset({partition: at})
                # what it had of them it no longer has
                task.held -= {(partition, o) for o in self.kafka.logs[partition] if o >= at}

        self.task.asks = ask

    @rule(partition=st.sampled_from(P), pause=st.booleans())
    def the_task_pauses(self, partition: TopicPartition, pause: bool) -> None:
        def ask(task: ModelTask) -> None:
            if partition in task.context.assignment:
                (task.context.pause if pause else task.context.resume)(partition)

        self.task.asks = ask

    @rule(less=st.integers(0, 3), more=st.integers(0, 2), keep=_SOME)
    def pre_commit_allows(self, less: int, more: int, keep: list[TopicPartition]) -> None:
        self.task.allow = lambda offsets: (
            {p: max(0, offset - less) + more * 100 for p, offset in offsets.items() if p in keep}
            | ({P[0]: 1} if more else {})
        )

    @invariant()
    def what_is_held_by_the_task_stays_paused(self) -> None:
        if hasattr(self, "loop"):
            assert self.loop._paused <= self.kafka.paused

    def teardown(self) -> None:
        """When nothing fails any more, all records get safe, and their offsets are committed."""
        try:
            if hasattr(self, "loop"):
                self.end()
        finally:
            self._log.setLevel(self._level)

    def end(self) -> None:
        self.task.allow, self.task.asks = dict, None
        self.loop._enter_state(State.RUNNING)
        self.kafka.requests.clear()
        self.gain(P)
        self.loop._offsets.is_overdue(1e18, 0)
        self.produce(P, 1, 0)
        self.loop.resume(*P)
        for _ in range(3 + max(map(len, self.kafka.logs.values()))):
            self.step(set(), commit=True)
            while self.kafka.requests:
                self.kafka.answer(self.kafka.requests.pop(0), set())
        for partition in P:
            log = self.kafka.logs[partition]
            assert {(partition, offset) for offset in log} <= self.task.safe
            assert self.kafka.committed[partition] > log[-1]


SinkModel.TestCase.settings = examples(80, stateful_step_count=25)
TestSink = SinkModel.TestCase


def test_a_commit_stays_before_what_was_asked_for_again() -> None:
    model = SinkModel()
    model.begin(first=0, counts=(1, 0, 0))
    model.gain([P[0]])
    model.step(set(), commit=False)
    model.the_task_asks_for_records_again(P[0], 1)
    model.step({"put"}, commit=False)
    model.step(set(), commit=True)
    model.teardown()


def test_maps_and_lists_that_a_task_changes_are_its_own() -> None:
    class Changing(ModelTask):
        def open(self, partitions: Any) -> None:
            partitions.clear()

        def pre_commit(self, offsets: Any) -> Any:
            self.flush(offsets)
            for partition in offsets:
                offsets[partition] += 1
            return offsets

        def close(self, partitions: Any) -> None:
            super().close(partitions)
            partitions.clear()

    model = _model_of(Changing())
    model.gain(P[:1])
    model.step(set(), commit=True)
    model.step(set(), commit=True)
    assert model.task.safe and not model.kafka.requests  # nothing beyond what was put
    model.give_up(P[:1], fails=False, lost=False)
    assert not model.loop.assignment


@pytest.mark.parametrize("lost", [None, False])
def test_a_pre_commit_that_forgets_to_return_offsets_fails_the_task(lost: bool | None) -> None:
    """Else it would be given the same records for ever."""

    class Forgetful(ModelTask):
        def pre_commit(self, offsets: Any) -> Any:
            self.flush(offsets)

    model = _model_of(Forgetful())
    model.gain(P[:1])
    with pytest.raises(ConnectorError, match=r"must return the offsets .* returned a NoneType"):
        model.step(set(), commit=False)
        if lost is None:
            model.step(set(), commit=True)
        else:
            model.give_up(P[:1], fails=False, lost=lost)


@pytest.mark.parametrize("gives_up", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_offsets_wait_for_the_reports_of_failed_records(gives_up: bool, kept: bool) -> None:
    model = _model_of(ModelTask())
    model.loop._errors.wait = lambda timeout_s: kept  # type: ignore[method-assign]
    model.gain(P[:1])
    model.step(set(), commit=False)
    if gives_up:
        model.give_up(P[:1], fails=False, lost=False)
    else:
        model.step(set(), commit=True)
    assert model.task.safe
    assert model.kafka.requests == ([{P[0]: 1}] if kept else [])


def test_a_failed_flush_of_partitions_that_are_given_up_reads_the_others_again() -> None:
    """The task may have dropped their records, too."""
    model = _model_of(ModelTask())
    model.gain(P[:2])
    model.step(set(), commit=False)
    model.give_up(P[:1], fails=True, lost=False)
    for _ in range(2):
        model.step(set(), commit=True)
    assert model.task.safe == {(P[1], 0)}
    assert model.kafka.requests == [{P[1]: 1}]


def _model_of(task: ModelTask) -> SinkModel:
    """A model with one record in each partition."""
    model = SinkModel()
    model.begin(first=0, counts=(1, 1, 1))
    model.task = model.loop._task = task
    task.initialize(model.loop)
    return model
