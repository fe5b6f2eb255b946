"""Source tasks while something else breaks: frozen processes, slow polls, a silent Kafka."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaException, Producer

from connect_runtime.agent import topic_reads
from connect_runtime.api import RetriableError, SourceBatch, SourceRecord, SourceTask
from connect_runtime.kafka import clients, embedded
from connect_runtime.kafka.background_writer import KafkaStatuses
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.offsets_topic import LayeredOffsets
from connect_runtime.storage.snapshots import OffsetSnapshot, TaskId
from connect_runtime.tasks.control import worker_topics
from connect_runtime.tasks.control.worker_topics import WorkerTopics
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.source import transactions
from connect_runtime.tasks.source.offsets import WorkerCopies
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.wait import wait_until

TASK = TaskId("src", 0)


class Numbers(SourceTask):
    """Sends numbers, ten a poll, from where its offset is. `slow` are seconds that a poll takes
    once it has come to a number, `held` what it waits for there; `last` is where it ends."""

    slow: ClassVar[dict[int, float]] = {}
    held: ClassVar[dict[int, threading.Event]] = {}
    last: ClassVar[int] = 10**9

    def start(self, props: Mapping[str, str]) -> None:
        self.topic = props["topic"]
        found = self.context.offset_storage_reader.offset({"p": 1})
        self.next = int((found or {"n": 0})["n"])  # type: ignore[arg-type]

    def poll(self) -> SourceBatch | None:
        threading.Event().wait(self.slow.get(self.next, 0.0))
        if self.next in self.held:
            assert self.held[self.next].wait(60)
        numbers = range(self.next, min(self.next + 10, self.last))
        if not numbers:
            threading.Event().wait(0.05)
            return None
        if self.next > 100:
            threading.Event().wait(0.002)
        self.next = numbers.stop
        values = [str(number) for number in numbers]
        return SourceBatch(self.topic, {"p": 1}, values, source_offset={"n": self.next})

    def stop(self) -> None:
        pass


def numbers(**fields: Any) -> type[Numbers]:
    return type("Numbers", (Numbers,), fields)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker to freeze, which makes no topic that nobody asked for."""
    properties = embedded._PROPERTIES.replace("topics.enable=true", "topics.enable=false")
    with patch.object(embedded, "_PROPERTIES", properties):
        started = EmbeddedBroker.start(tmp_path_factory.mktemp("own"))
    yield started
    started.stop()


@pytest.fixture
def broker(own: EmbeddedBroker) -> BrokerAddress:
    return BrokerAddress(own.bootstrap_servers, own.cluster_id)


@pytest.fixture
def run(cluster: Any, install: Callable[[type[Any]], str]) -> Callable[..., Any]:
    """Runs an attempt at a task of a class."""
    create_topic(cluster.bootstrap_servers, cluster.data)

    def start(task: type[SourceTask], attempt: int = 1, **config: str) -> Any:
        cluster.assign(TASK, attempt)
        given = {"name": "src", "task.class": install(task), "topic": cluster.data} | config
        return cluster.run(cluster.launch(TASK, given, attempt))

    return start


def sent(cluster: Any, count: int) -> Callable[[], bool]:
    return lambda: len(cluster.values()) >= count


def in_order(values: Sequence[str]) -> bool:
    """Whether they are the numbers from 0 on, each once."""
    return list(values) == [str(number) for number in range(len(values))]


def test_quick_polls_do_not_wait_for_a_slow_one(cluster: Any, run: Any) -> None:
    timeout = {"producer.override.transaction.timeout.ms": "2000"}
    shown = threading.Event()
    running = run(numbers(slow={50: 4.0}, held={50: shown}, last=60), **timeout)

    # the poll does not end before it is shown what came before it, and fences nothing
    wait_until(sent(cluster, 50), what="the quick polls")
    shown.set()
    wait_until(sent(cluster, 60), what="the slow one")
    assert not running.outcomes
    assert in_order(cluster.values())
    assert cluster.newest(cluster.topics.offsets) == {'["src",{"p":1}]': {"n": 60}}


def test_records_do_not_wait_for_one_that_is_tried_again(cluster: Any, run: Any) -> None:
    """Longer than a transaction may last: the first one's would expire, on every attempt."""
    shown, tried = threading.Event(), []

    class Busy:
        """Cannot be converted before the first record is shown, nor for three seconds."""

        def __str__(self) -> str:
            tried.append(time.monotonic())
            if not shown.is_set() or tried[-1] < tried[0] + 3:
                raise RetriableError("busy")
            return "1"

    def poll(self: Any) -> Any:
        values: list[Any] = ["0"] if self.next == 0 else [Busy()] if self.next == 1 else []
        if not values:
            return Numbers.poll(self)
        self.next += 1
        return SourceBatch(self.topic, {"p": 1}, values, source_offset={"n": self.next})

    running = run(
        numbers(poll=poll, last=2),
        **{
            "producer.override.transaction.timeout.ms": "2000",
            "errors.retry.timeout": "-1",
            "errors.retry.delay.max.ms": "200",
        },
    )
    wait_until(sent(cluster, 1), what="the first record")
    shown.set()
    wait_until(sent(cluster, 2), what="the other")

    assert tried[-1] > tried[0] + 3
    assert not running.outcomes
    assert in_order(cluster.values())


def test_a_task_that_is_asked_before_commits_shares_no_transaction_with_a_slow_poll(
    cluster: Any, run: Any
) -> None:
    asked: list[Any] = []

    def update(self: Any, offsets: Any) -> None:
        asked.append(threading.current_thread().name)

    shown = threading.Event()
    run(numbers(held={50: shown}, last=60, update_offsets=update))

    wait_until(sent(cluster, 50), what="the quick polls")
    shown.set()
    assert len(asked) >= 5
    assert "commit-timer" not in asked


def test_an_expired_transaction_ends_the_attempt_as_fenced(cluster: Any, run: Any) -> None:
    class Holds(Numbers):
        """Begins a transaction of its own and does not end it in time."""

        slow: ClassVar[dict[int, float]] = {10: 5.0}

    own = {"transaction.boundary": "connector", "producer.override.transaction.timeout.ms": "1500"}
    began = time.process_time()
    outcome = run(Holds, **own).outcome()

    assert outcome.ended is AttemptEnd.FENCED
    assert "longer than transaction.timeout.ms" in (outcome.trace or "")
    assert time.process_time() - began < 3  # it does not turn in a loop
    assert cluster.values() == []
    assert cluster.status(TASK)["state"] == "RUNNING"


def test_a_zombie_with_more_to_send_ends_as_fenced(cluster: Any, run: Any) -> None:
    gate, gated = threading.Event(), threading.Event()

    def poll(self: Any) -> Any:
        if self.next == 500 and not gated.is_set():
            gated.set()
            gate.wait(60)
        return Numbers.poll(self)

    task = numbers(poll=poll, last=800)
    zombie = run(task)
    wait_until(sent(cluster, 500), what="the zombie's records")
    run(task, attempt=2)
    wait_until(sent(cluster, 800), what="its successor's")
    gate.set()

    assert zombie.outcome().ended in (AttemptEnd.FENCED, AttemptEnd.SUPERSEDED)
    assert in_order(cluster.values())
    assert cluster.status(TASK)["attempt"] == 2


@contextmanager
def silence(own: EmbeddedBroker) -> Iterator[None]:
    os.kill(own.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(own.pid, signal.SIGCONT)


def test_a_deleted_topic_is_named(cluster: Any, run: Any) -> None:
    running = run(Numbers, **{"producer.override.transaction.timeout.ms": "5000"})
    wait_until(sent(cluster, 10), what="records")
    admin = clients.admin({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([cluster.data])[cluster.data].result(timeout=15)

    outcome = running.outcome()
    assert outcome.ended is AttemptEnd.FAILED
    assert f"Topic {cluster.data} does not exist, or not any more" in outcome.trace
    assert "Purged" not in outcome.trace


class Addressed(Numbers):
    """Sends each number to a partition that follows from it, by a key or by itself."""

    keyed: ClassVar[bool] = False

    def poll(self) -> Any:
        found = super().poll()
        if found is None or not self.partitions:
            return found
        return [
            SourceRecord(
                {"p": 1},
                {"n": int(value) + 1},
                self.topic,
                value,
                key=f"k{value}" if self.keyed else None,
                partition=None if self.keyed else int(value) % self.partitions,
            )
            for value in found.values
        ]

    partitions: ClassVar[int] = 4


def made_anew(cluster: Any, partitions: int) -> None:
    """The data topic is deleted, and made again at once."""
    admin = clients.admin({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([cluster.data])[cluster.data].result(timeout=15)

    def create() -> bool:
        try:
            create_topic(cluster.bootstrap_servers, cluster.data, partitions=partitions)
        except KafkaException:
            return False
        return True

    wait_until(create, what="the topic")


@pytest.mark.parametrize(
    ("how", "support"),
    [
        ("without keys", "enabled"),
        ("with keys", "disabled"),
        pytest.param("with keys", "enabled", marks=pytest.mark.long),
        pytest.param("without keys", "disabled", marks=pytest.mark.long),
    ],
)
def test_a_topic_that_is_made_anew_with_fewer_partitions_is_written_to_at_once(
    cluster: Any, install: Any, how: str, support: str
) -> None:
    """Records for a partition that is gone would wait for a minute, or fail the task for good."""
    create_topic(cluster.bootstrap_servers, cluster.data, partitions=4)
    cluster.worker["exactly.once.source.support"] = support
    task = type("Task", (Addressed,), {"keyed": True, "partitions": how == "with keys"})
    given = {"name": "src", "task.class": install(task), "topic": cluster.data}
    cluster.assign(TASK, 1)
    running = cluster.run(cluster.launch(TASK, given))
    wait_until(sent(cluster, 50), what="records")
    made_anew(cluster, 1)
    outcome = running.outcome()
    assert outcome.ended is AttemptEnd.INTERRUPTED, outcome.trace
    assert f"Topic {cluster.data} has 1 of the 4 partitions that it had" in outcome.trace

    # as the leader does, which starts an interrupted attempt again
    cluster.assign(TASK, 2)
    cluster.run(cluster.launch(TASK, given, 2))
    wait_until(sent(cluster, 50), what="records in the new topic")


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_a_partition_that_a_topic_does_not_have_is_named(
    cluster: Any, run: Any, support: str
) -> None:
    cluster.worker["exactly.once.source.support"] = support
    outcome = run(numbers_for(4)).outcome()
    assert outcome.ended is AttemptEnd.FAILED
    assert f"for partition 1 of topic {cluster.data}, which has 1 partition." in outcome.trace
    assert "Give the topic more" in outcome.trace


def numbers_for(partitions: int) -> type[Numbers]:
    return type("Task", (Addressed,), {"partitions": partitions})


@pytest.mark.long
def test_a_short_silence_is_waited_for(cluster: Any, run: Any, own: EmbeddedBroker) -> None:
    running = run(Numbers)
    wait_until(sent(cluster, 100), what="records")
    with silence(own):
        running.thread.join(15)
    assert not running.outcomes
    had = len(cluster.values())
    wait_until(sent(cluster, had + 100), what="more records")
    assert in_order(cluster.values())


def producers() -> set[int]:
    """Returns the ids of those of tasks that live in this process: its agent has one, too."""
    objects = gc.get_objects()
    of_agents = {id(each._producer) for each in objects if isinstance(each, KafkaStatuses)}
    return {id(each) for each in objects if isinstance(each, Producer)} - of_agents


@pytest.mark.long
def test_a_long_silence_interrupts_and_loses_nothing(
    cluster: Any, run: Any, own: EmbeddedBroker
) -> None:
    """The trap: a producer that outlives its attempt asks Kafka for a new epoch, with which Kafka
    aborts the next attempt's transaction."""
    before = producers()
    running = run(Numbers, **{"producer.override.transaction.timeout.ms": "3000"})
    wait_until(sent(cluster, 100), what="records")
    gc.disable()  # it would end what the attempt left behind, but nobody knows when
    try:
        with silence(own):
            outcome = running.outcome()
            assert producers() <= before
        assert outcome.ended is AttemptEnd.INTERRUPTED
        assert cluster.status(TASK)["state"] == "RUNNING"

        run(numbers(last=3000), attempt=2)
        wait_until(sent(cluster, 3000), what="the rest")
    finally:
        gc.enable()
    assert in_order(cluster.values())


@pytest.mark.long
@pytest.mark.parametrize("reading", ["orders", "offsets"])
def test_silence_at_the_start_interrupts(
    cluster: Any,
    run: Any,
    own: EmbeddedBroker,
    install: Any,
    monkeypatch: pytest.MonkeyPatch,
    reading: str,
) -> None:
    monkeypatch.setattr(worker_topics, "PATIENCE_S", 2.0)
    monkeypatch.setattr(transactions, "_START_LIMIT_S", 2.0)
    cluster.assign(TASK, 1)
    real = WorkerTopics.source_offsets
    if reading == "orders":
        os.kill(own.pid, signal.SIGSTOP)
    else:

        def silent(self: Any) -> Any:
            os.kill(own.pid, signal.SIGSTOP)
            return real(self)

        monkeypatch.setattr(WorkerTopics, "source_offsets", silent)
    try:
        outcome = cluster.run(
            cluster.launch(TASK, {"name": "src", "task.class": install(Numbers)})
        ).outcome()
    finally:
        os.kill(own.pid, signal.SIGCONT)

    assert outcome.ended is AttemptEnd.INTERRUPTED
    assert "transaction that is still open" not in (outcome.trace or "")


def test_another_tasks_open_transaction_hides_no_offset(cluster: Any, run: Any) -> None:
    other = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": f"{cluster.name}-other",
            "transaction.timeout.ms": 4_000,
        }
    )
    other.init_transactions(20)
    other.begin_transaction()
    for partition in range(3):
        other.produce(cluster.topics.offsets, b'{"n":1}', b'["other",{}]', partition)
    other.flush()
    key = b'["src",{"p":1}]'
    for partition in range(3):  # after the open transaction's first record, whichever it is
        found = [(key, b'{"n":70}')]
        produce(cluster.bootstrap_servers, cluster.topics.offsets, found, partition=partition)

    run(numbers(last=80))

    wait_until(sent(cluster, 10), what="records")
    assert cluster.values() == [str(number) for number in range(70, 80)]


def test_a_hanging_transaction_interrupts_whoever_waits_too_long(
    cluster: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_topics, "PATIENCE_S", 2.0)
    monkeypatch.setattr(topic_reads, "_SILENCE_S", 1.0)
    other = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": f"{cluster.name}-other",
            "transaction.timeout.ms": 20_000,
        }
    )
    other.init_transactions(20)
    other.begin_transaction()
    other.produce(cluster.topics.offsets, b'{"n":1}', b'["other",{}]')
    other.flush()

    outcome = run(Numbers).outcome()
    other.abort_transaction(10)

    assert outcome.ended is AttemptEnd.INTERRUPTED
    assert "transaction that is still open" in (outcome.trace or "")


def test_a_pause_within_a_transaction_of_the_tasks_ends_before_it_expires(
    cluster: Any, run: Any
) -> None:
    config = {
        "transaction.boundary": "connector",
        "producer.override.transaction.timeout.ms": "4000",
    }
    running = run(Numbers, **config)
    data = cluster.data
    wait_until(
        lambda: read_to_end(cluster.bootstrap_servers, data, read_committed=False),
        what="open records",
    )
    cluster.assign(TASK, 1, "paused")

    outcome = running.outcome()
    assert outcome.ended is AttemptEnd.INTERRUPTED
    assert cluster.status(TASK)["state"] == "PAUSED"
    # aborted at once, so that readers go on
    produce(cluster.bootstrap_servers, data, [(None, b"after")])
    assert cluster.values() == ["after"]


def test_a_commit_in_doubt_interrupts_although_the_poll_asks_to_be_called_again(
    cluster: Any, run: Any, own: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is silent for the task is often silent for Kafka's clients, too."""
    real = transactions.Transactions._call
    frozen, thawed = threading.Event(), threading.Event()

    def call(self: Any, function: Callable[[float], Any], deadline: float) -> None:
        code = getattr(function, "__code__", None)
        committing = code is not None and "commit_transaction" in code.co_names
        if committing and threading.current_thread().name == "commit-timer":
            os.kill(own.pid, signal.SIGSTOP)
            frozen.set()
            deadline = time.monotonic() + 2
        try:
            real(self, function, deadline)
        finally:
            if frozen.is_set():
                os.kill(own.pid, signal.SIGCONT)
                thawed.set()

    def poll(self: Any) -> Any:
        if self.next == 50 and not frozen.is_set():
            assert thawed.wait(30)
            raise RetriableError("the database is silent")
        return Numbers.poll(self)

    monkeypatch.setattr(transactions.Transactions, "_call", call)
    try:
        outcome = run(numbers(poll=poll)).outcome()
    finally:
        os.kill(own.pid, signal.SIGCONT)
    monkeypatch.undo()

    assert outcome.ended is AttemptEnd.INTERRUPTED
    assert cluster.status(TASK)["state"] == "RUNNING"
    run(numbers(last=100), attempt=2)
    wait_until(sent(cluster, 100), what="the rest")
    assert in_order(cluster.values())


def test_copies_that_nobody_takes_do_not_hold_up_the_end(cluster: Any, own: EmbeddedBroker) -> None:
    elsewhere = {"name": "src", "producer.override.bootstrap.servers": "127.0.0.1:1"}
    clients = cluster.setup(TASK, elsewhere).source_clients
    topic = cluster.topics.offsets
    layers = LayeredOffsets("src", "own", OffsetSnapshot(), topic)
    copies = WorkerCopies(clients, layers, topic)
    record = NewRecord("own", b'["src",{"p":1}]', b'{"n":1}')
    copies.copy([record])
    wait_until(lambda: cluster.newest(topic), what="a copy")
    with silence(own):
        copies.copy([record])
        began = time.monotonic()
        copies.close()
        took = time.monotonic() - began

    assert took < 10
