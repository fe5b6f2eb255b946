"""Sink tasks on a real broker: every record, and offsets only after the flush."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from connect_runtime.api import RetriableError, SinkBatch, SinkTask, TopicPartition
from connect_runtime.kafka import clients
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd
from support.broker import create_topic, produce
from support.task_runs import committed
from support.wait import wait_until

TASK = TaskId("snk", 0)
OTHER = TaskId("snk", 1)
FILE_TASK = "org.apache.kafka.connect.file.FileStreamSinkTask"


class Noted(SinkTask):
    """Notes what it is asked to do; `behave` may raise."""

    events: list[Any]

    def start(self, props: Mapping[str, str]) -> None:
        self.events.append("start")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("open", *sorted(p.partition for p in partitions)))

    def put(self, records: SinkBatch) -> None:
        self.behave("put", records)
        self.events.extend(records.values)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.behave("flush", offsets)
        self.events.append(("flush", *sorted(offsets.values())))

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("close", *sorted(p.partition for p in partitions)))

    def stop(self) -> None:
        self.events.append("stop")

    def behave(self, call: str, argument: Any) -> None:
        pass

    @classmethod
    def values(cls) -> list[str]:
        return [e for e in cls.events if isinstance(e, str) and e not in ("start", "stop")]


def noted(**methods: Any) -> type[Noted]:
    return type("Task", (Noted,), {"events": []} | methods)


def filled(cluster: Any, *values: str, partition: int = 0) -> None:
    produce(
        cluster.bootstrap_servers,
        cluster.data,
        [(None, v.encode()) for v in values],
        partition=partition,
    )


def group(cluster: Any) -> str:
    return f"connect-{cluster.name}"


def config(cluster: Any, task_class: str, **more: str) -> dict[str, str]:
    return {
        "name": "snk",
        "task.class": task_class,
        "topics": cluster.data,
        "consumer.override.group.id": group(cluster),
        **more,
    }


def run(cluster: Any, task_class: str, task: TaskId = TASK, **more: str) -> Any:
    cluster.assign(task, 1)
    return cluster.run(cluster.launch(task, config(cluster, task_class, **more)))


def test_values_offsets_and_status(cluster: Any, topic: Any, tmp_path: Path) -> None:
    topic(1)
    filled(cluster, "a", "b")
    file = tmp_path / "out.txt"
    # Java's largest number, which stands for no limit, is too large for librdkafka
    most = {"consumer.override.max.poll.records": str(2**31 - 1)}
    running = run(cluster, FILE_TASK, file=str(file), **most)

    wait_until(lambda: file.exists() and file.read_text() == "a\nb\n", what="both lines")
    assert cluster.wait_for_state(TASK, "RUNNING")["generation"] == 7
    in_use = f"status-topic-{cluster.data}:connector-snk"
    assert cluster.newest(cluster.topics.status)[in_use]["topic"]["name"] == cluster.data
    assert committed(cluster) < 0  # the interval has not passed

    running.stop()
    assert committed(cluster) == 2
    assert cluster.status(TASK)["state"] == "UNASSIGNED"

    filled(cluster, "c")
    cluster.assign(TASK, 2)
    cluster.run(
        replace(cluster.launch(TASK, config(cluster, FILE_TASK, file=str(file))), attempt=2)
    )
    wait_until(lambda: file.read_text() == "a\nb\nc\n", what="the third line")


def test_the_order_of_calls(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a")
    task = noted()
    running = run(cluster, install(task))
    wait_until(lambda: "a" in task.events, what="the record")
    running.stop()
    assert task.events == ["start", ("open", 0), "a", ("flush", 1), ("close", 0), "stop"]


def test_offsets_are_committed_only_after_the_flush(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a", "b")
    seen: list[int] = []

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "flush":
            seen.append(committed(cluster))
        elif len(argument):
            self.context.request_commit()

    task = noted(behave=behave)
    run(cluster, install(task))

    wait_until(lambda: committed(cluster) == 2, what="the commit")
    assert seen[0] < 0


def test_a_failed_flush_delivers_again(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a", "b")
    failures = [RuntimeError("disk full")]

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "flush" and failures:
            raise failures.pop()
        if call == "put" and len(argument):
            self.context.request_commit()

    task = noted(behave=behave)
    filled_group = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group(cluster)}
    )
    filled_group.commit(offsets=[KafkaPartition(cluster.data, 0, 0)], asynchronous=False)
    filled_group.close()
    run(cluster, install(task))

    wait_until(lambda: committed(cluster) == 2, what="the commit")
    assert task.values() == ["a", "b", "a", "b"]


def test_a_batch_is_put_again(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a", "b")
    batches: list[list[str]] = []

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and len(argument):
            batches.append(list(argument.values))
            if len(batches) < 4:
                self.context.timeout(10)
                raise RetriableError("busy")

    task = noted(behave=behave)
    running = run(cluster, install(task))
    wait_until(lambda: task.values() == ["a", "b"], what="the batch")
    filled(cluster, "c")
    wait_until(lambda: task.values() == ["a", "b", "c"], what="what follows")

    assert batches == [["a", "b"]] * 4 + [["c"]]
    running.stop()
    assert committed(cluster) == 3


def test_records_that_put_refused_are_not_committed(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a", "b")

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and len(argument):
            tried.append(1)
            raise RetriableError("busy")

    tried: list[int] = []
    running = run(cluster, install(noted(behave=behave)))
    wait_until(lambda: tried, what="a try")
    running.stop()
    assert committed(cluster) <= 0


def test_pause_and_resume(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a")
    task = noted()
    run(cluster, install(task))
    wait_until(lambda: task.values() == ["a"], what="the record")
    cluster.assign(TASK, 1, "paused")
    cluster.wait_for_state(TASK, "PAUSED")
    wait_until(lambda: committed(cluster) == 1, what="the commit at the pause")
    filled(cluster, "b")
    assert task.values() == ["a"]
    cluster.assign(TASK, 1)

    wait_until(lambda: task.values() == ["a", "b"], what="the second record")
    assert task.events.count("start") == 1


def test_two_tasks_share_partitions(cluster: Any, topic: Any, tmp_path: Path) -> None:
    topic(2)
    file = tmp_path / "out.txt"

    def lines() -> set[str]:
        return set(file.read_text().split()) if file.exists() else set()

    first = run(cluster, FILE_TASK, file=str(file))
    second = run(cluster, FILE_TASK, OTHER, file=str(file))
    cluster.wait_for_state(OTHER, "RUNNING")
    for partition in (0, 1):
        filled(cluster, f"a{partition}", f"b{partition}", partition=partition)
    wait_until(lambda: lines() == {"a0", "b0", "a1", "b1"}, what="all lines")

    second.stop()
    for partition in (0, 1):
        filled(cluster, f"c{partition}", partition=partition)
    wait_until(lambda: {"c0", "c1"} <= lines(), what="the lines after one left")
    first.stop()
    assert [committed(cluster, p) for p in (0, 1)] == [3, 3]
    assert sorted(file.read_text().split()) == sorted(lines())


def test_aborted_records_are_not_delivered(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": cluster.name}
    )
    producer.init_transactions(30)
    for value, end in (("no", producer.abort_transaction), ("yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(cluster.data, value)
        producer.flush()
        end()
    task = noted()
    run(cluster, install(task))

    wait_until(lambda: task.values() == ["yes"], what="the committed record")


def test_topics_by_pattern(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    create_topic(cluster.bootstrap_servers, f"{cluster.data}-more")
    produce(cluster.bootstrap_servers, f"{cluster.data}-more", [(None, b"not this")])
    filled(cluster, "a")
    task = noted()
    run(cluster, install(task), topics="", **{"topics.regex": f"{cluster.name}-d.ta"})

    wait_until(lambda: task.values() == ["a"], what="the record")


def test_a_sink_with_offsets_of_its_own(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a", "b", "c")

    def open_(self: Any, partitions: Sequence[TopicPartition]) -> None:
        self.context.offset(dict.fromkeys(partitions, 2))

    task = noted(open=open_)
    run(cluster, install(task))

    wait_until(lambda: task.values(), what="a record")
    assert task.values() == ["c"]


def test_a_failure_is_told_with_its_trace(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a")

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and len(argument):
            raise RuntimeError("broken pipe")

    task = noted(behave=behave)
    outcome = run(cluster, install(task)).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    assert "RuntimeError: broken pipe" in (outcome.trace or "")
    assert cluster.status(TASK)["trace"] == outcome.trace
    assert committed(cluster) < 0
    assert task.events[-1] == "stop"


@pytest.mark.parametrize(
    ("attempt", "ended"), [(2, AttemptEnd.SUPERSEDED), (None, AttemptEnd.STOPPED)]
)
def test_another_attempt_leaves_nothing_to_commit(
    cluster: Any, topic: Any, install: Any, attempt: int | None, ended: AttemptEnd
) -> None:
    topic(1)
    filled(cluster, "a")
    task = noted()
    running = run(cluster, install(task))
    wait_until(lambda: task.values() == ["a"], what="the record")
    cluster.assign(TASK, attempt)

    assert running.outcome().ended is ended
    assert (committed(cluster) == 1) == (ended is AttemptEnd.STOPPED)


def test_bad_bytes_fail_the_task(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "{")
    running = run(cluster, install(noted()), **{"value.converter": "JsonConverter"})

    assert "due to serialization error" in (running.outcome().trace or "")


def test_a_failed_first_flush_delivers_again(cluster: Any, topic: Any, install: Any) -> None:
    """Of a new group: nothing is committed yet, and still there is somewhere to go back to."""
    topic(1)
    filled(cluster, "a", "b")
    failures = [RuntimeError("disk full")]

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and len(argument):
            self.context.request_commit()
        if call == "flush" and failures:
            filled(cluster, "c")
            raise failures.pop()

    task = noted(behave=behave)
    run(cluster, install(task))

    wait_until(lambda: committed(cluster) == 3, what="the commit")
    assert task.values()[:2] == ["a", "b"]
    assert task.values()[2:] == ["a", "b", "c"]


@pytest.mark.parametrize(("policy", "values"), [("latest", ["new"]), ("earliest", ["old", "new"])])
def test_a_new_group_starts_by_auto_offset_reset(
    cluster: Any, topic: Any, install: Any, policy: str, values: list[str]
) -> None:
    topic(1)
    filled(cluster, "old")
    task = noted()
    policies = {"consumer.override.auto.offset.reset": policy}
    running = run(cluster, install(task), **policies)
    wait_until(lambda: ("open", 0) in task.events, what="the assignment")
    filled(cluster, "new")
    wait_until(lambda: task.values() == values, what="the records")
    running.stop()
    assert committed(cluster) == 2


def test_a_new_group_without_a_reset_policy_fails(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    policies = {"consumer.override.auto.offset.reset": "none"}
    outcome = run(cluster, install(noted()), **policies).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    assert f"no reset policy for partitions: [{cluster.data}-0]" in (outcome.trace or "")


def test_a_task_that_got_nothing_commits_nothing(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    task = noted()
    running = run(cluster, install(task))
    wait_until(lambda: ("open", 0) in task.events, what="the assignment")
    running.stop()
    assert committed(cluster) < 0


@pytest.mark.long
def test_a_partition_that_leaves_and_returns_during_a_retry(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(2)
    for partition in (0, 1):
        filled(cluster, f"a{partition}", f"b{partition}", partition=partition)
    busy = [True]
    tried: list[str] = []

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and len(argument):
            tried.extend(argument.values)
            self.context.timeout(50)
            if busy:
                raise RetriableError("busy")

    task = noted(behave=behave)
    task_class = install(task)
    first = run(cluster, task_class)
    wait_until(lambda: tried, what="a try")  # nearly always with records of both partitions
    second = run(cluster, task_class, OTHER)
    wait_until(lambda: [e for e in task.events if e[0] == "open"][1:], what="the second task")
    second.stop()
    wait_until(lambda: len([e for e in task.events if e[0] == "open"]) == 3, what="the return")
    busy.clear()

    expected = {"a0", "b0", "a1", "b1"}
    wait_until(lambda: set(task.values()) == expected, what="every record")
    first.stop()
    assert [committed(cluster, p) for p in (0, 1)] == [2, 2]
    assert sorted(task.values()) == sorted(expected)


@pytest.mark.long
def test_a_put_longer_than_the_poll_interval_joins_again(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    filled(cluster, "a", "b")
    slow = [True]

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and len(argument) and slow:
            slow.clear()
            time.sleep(8)  # what the test is about: longer than the interval

    task = noted(behave=behave)
    limits = {
        "consumer.override.max.poll.interval.ms": "6000",
        "consumer.override.session.timeout.ms": "6000",
    }
    running = run(cluster, install(task), **limits)

    wait_until(lambda: task.values() == ["a", "b", "a", "b"], what="the records again")
    running.stop()
    assert committed(cluster) == 2
    # the partition was lost, so it was closed without a flush
    lost = task.events.index(("close", 0))
    assert not [e for e in task.events[:lost] if e[0] == "flush"]


def test_pre_commit_decides_what_is_committed(cluster: Any, topic: Any, install: Any) -> None:
    topic(2)
    for partition in (0, 1):
        filled(cluster, "a", "b", partition=partition)
    answers: list[Mapping[TopicPartition, int]] = []

    def pre_commit(
        self: Any, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        return answers.pop(0) if answers else {}

    def behave(self: Any, call: str, argument: Any) -> None:
        if answers:
            self.context.request_commit()

    task = noted(behave=behave, pre_commit=pre_commit)
    running = run(cluster, install(task))
    wait_until(lambda: len(task.values()) == 4, what="the records")
    first, second = (TopicPartition(cluster.data, p) for p in (0, 1))
    answers.append({first: 1, second: 3, TopicPartition(cluster.data, 7): 1})
    wait_until(lambda: committed(cluster) == 1, what="the smaller offset")
    assert committed(cluster, 1) < 0
    assert committed(cluster, 7) < 0
    running.stop()
    assert [committed(cluster, p) for p in (0, 1)] == [1, -1001]


def test_a_partition_that_the_task_paused(cluster: Any, topic: Any, install: Any) -> None:
    """It stays paused over a pause of the connector and over rebalances of other partitions."""
    topic(2)
    asked: list[str] = []

    def open_(self: Any, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("open", *sorted(p.partition for p in partitions)))
        self.context.pause(*(p for p in partitions if p.partition == 0))

    def behave(self: Any, call: str, argument: Any) -> None:
        if asked and asked.pop() == "resume":
            self.context.resume(TopicPartition(cluster.data, 0))

    task = noted(open=open_, behave=behave)
    run(cluster, install(task))
    wait_until(lambda: ("open", 0, 1) in task.events, what="the assignment")
    for partition in (0, 1):
        filled(cluster, f"a{partition}", partition=partition)
    wait_until(lambda: task.values() == ["a1"], what="what flows")
    cluster.assign(TASK, 1, "paused")
    cluster.wait_for_state(TASK, "PAUSED")
    cluster.assign(TASK, 1)
    cluster.wait_for_state(TASK, "RUNNING")
    filled(cluster, "b1", partition=1)
    wait_until(lambda: task.values() == ["a1", "b1"], what="what flows after the pause")
    asked.append("resume")
    wait_until(lambda: task.values() == ["a1", "b1", "a0"], what="what was held")


def test_pausing_what_another_task_has_is_refused(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)

    def open_(self: Any, partitions: Sequence[TopicPartition]) -> None:
        self.context.pause(TopicPartition(cluster.data, 7))

    outcome = run(cluster, install(noted(open=open_))).outcome()
    assert outcome.ended is AttemptEnd.FAILED
    assert "may not pause partitions that are not currently assigned" in (outcome.trace or "")


def test_a_pause_while_a_put_is_pending(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a")
    busy = [True]
    tried: list[int] = []

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and len(argument):
            tried.append(1)
            self.context.timeout(50)
            if busy:
                raise RetriableError("busy")

    task = noted(behave=behave)
    running = run(cluster, install(task))
    wait_until(lambda: tried, what="a try")
    cluster.assign(TASK, 1, "paused")
    cluster.wait_for_state(TASK, "PAUSED")
    busy.clear()
    wait_until(lambda: task.values() == ["a"], what="the batch that was pending")
    filled(cluster, "b")
    cluster.assign(TASK, 1)
    wait_until(lambda: task.values() == ["a", "b"], what="what follows")
    running.stop()
    assert committed(cluster) == 2


def test_a_failing_close_and_stop_at_the_end(cluster: Any, topic: Any, install: Any) -> None:
    """What was flushed is committed, and a task that was told to stop has not failed."""
    topic(1)
    filled(cluster, "a")

    def broken(self: Any, *_: Any) -> None:
        self.events.append("broken")
        raise RuntimeError("already closed")

    task = noted(close=broken, stop=broken)
    running = run(cluster, install(task))
    wait_until(lambda: "a" in task.events, what="the record")
    running.stop()
    assert task.events.count("broken") == 2
    assert committed(cluster) == 1
    assert cluster.status(TASK)["state"] == "UNASSIGNED"


def test_a_failing_close_in_a_rebalance_fails_the_task(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(2)
    for partition in (0, 1):
        filled(cluster, f"a{partition}", partition=partition)

    def broken(self: Any, *_: Any) -> None:
        raise RuntimeError("already closed")

    task = noted(close=broken)
    task_class = install(task)
    running = run(cluster, task_class)
    wait_until(lambda: len(task.values()) == 2, what="the records")
    run(cluster, task_class, OTHER)

    outcome = running.outcome()
    assert outcome.ended is AttemptEnd.FAILED
    assert "already closed" in (outcome.trace or "")
    # what was flushed before is committed all the same
    wait_until(lambda: 1 in [committed(cluster, p) for p in (0, 1)], what="the commit")


def test_a_record_that_cannot_be_read_is_named(cluster: Any, topic: Any, install: Any) -> None:
    topic(2)
    filled(cluster, '{"fine": 1}', partition=1)
    filled(cluster, '{"fine": 2}', '{"secret-value": ', partition=1)
    options = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
    outcome = run(cluster, install(noted()), **options).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    place = f"consumed record is {{topic='{cluster.data}', partition=1, offset=2, timestamp="
    assert place in (outcome.trace or "")
    assert "serialization error" in (outcome.trace or "")
    assert "secret-value" not in (outcome.trace or "")


REGEX = {"topics": "", "consumer.override.metadata.max.age.ms": "1000"}


def test_topics_that_match_later_are_followed(cluster: Any, install: Any) -> None:
    """None at first, then one, then another; and a Java expression."""
    task = noted()
    pattern = {"topics.regex": rf"(?i){cluster.name}-DATA(?!-no)(-\d+)?"}
    running = run(cluster, install(task), **REGEX, **pattern)
    cluster.wait_for_state(TASK, "RUNNING")
    for name, value in ((cluster.data, b"a"), (f"{cluster.data}-12", b"b")):
        create_topic(cluster.bootstrap_servers, f"{name}-no")
        create_topic(cluster.bootstrap_servers, name)
        produce(cluster.bootstrap_servers, f"{name}-no", [(None, b"not this")])
        produce(cluster.bootstrap_servers, name, [(None, value)])
        wait_until(lambda value=value: value.decode() in task.values(), what=name)  # type: ignore[misc]
    running.stop()
    assert task.values() == ["a", "b"]


def test_a_topic_that_is_deleted_is_followed_no_longer(
    cluster: Any, topic: Any, install: Any
) -> None:
    other = f"{cluster.data}-more"
    topic(1)
    create_topic(cluster.bootstrap_servers, other)
    task = noted()
    running = run(cluster, install(task), **REGEX, **{"topics.regex": f"{cluster.data}.*"})
    wait_until(lambda: ("open", 0, 0) in task.events, what="both topics")
    admin = clients.admin({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([other])[other].result(timeout=15)
    wait_until(lambda: [e for e in task.events if e[0] == "close"], what="the end of one")
    filled(cluster, "a")
    wait_until(lambda: task.values() == ["a"], what="the record")
    running.stop()


@pytest.mark.long
def test_a_sink_in_a_group_of_the_new_protocol_reads_and_commits(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(2)
    filled(cluster, "a")
    filled(cluster, "b", partition=1)
    protocol = {"consumer.override.group.protocol": "consumer"}
    task = noted()
    running = run(cluster, install(task), **protocol)
    wait_until(lambda: sorted(task.values()) == ["a", "b"], what="records")
    running.stop()
    assert committed(cluster) == 1

    # back in the classic protocol it goes on after them
    filled(cluster, "c")
    cluster.assign(TASK, 2)
    cluster.run(cluster.launch(TASK, config(cluster, install(task)), 2))
    wait_until(lambda: task.values()[2:] == ["c"], what="the record after them")


@pytest.mark.long
def test_a_topic_that_does_not_exist_is_waited_for_and_named_once(
    cluster: Any, topic: Any, install: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As with Apache's, whose sinks are often created before the topics that they read."""
    topic(1)
    missing = f"{cluster.data}-missing"
    task = noted()
    running = run(cluster, install(task), topics=f"{cluster.data},{missing}")
    said = f"waits for topic {missing}, which does not exist"
    wait_until(lambda: said in caplog.text, what="the topic's name in the log")
    filled(cluster, "a")
    wait_until(lambda: task.values() == ["a"], what="the record of the other topic")
    create_topic(cluster.bootstrap_servers, missing)
    produce(cluster.bootstrap_servers, missing, [(None, b"b")])
    wait_until(lambda: task.values() == ["a", "b"], what="the record of the topic")
    assert caplog.text.count(said) == 1
    running.stop()


def test_a_topic_that_is_made_anew_is_read_from_its_beginning(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    filled(cluster, "a", "b", "c")
    task = noted()
    run(cluster, install(task))
    wait_until(lambda: len(task.values()) == 3, what="the records")
    admin = clients.admin({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([cluster.data])[cluster.data].result(timeout=15)
    wait_until(lambda: ("close", 0) in task.events, what="the end of the topic")
    topic(1)
    filled(cluster, *"123456")

    wait_until(lambda: "6" in task.values(), what="the new topic's records")
    assert task.values()[3:] == list("123456")


def test_a_stop_does_not_wait_for_a_retry(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    filled(cluster, "a")
    tried: list[int] = []

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and len(argument):
            tried.append(1)
            self.context.timeout(600_000)
            raise RetriableError("busy")

    running = run(cluster, install(noted(behave=behave)))
    wait_until(lambda: tried, what="a try")
    running.stop()
    assert tried == [1]


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
def test_records_put_before_a_failure_are_flushed_and_committed(
    cluster: Any, topic: Any, install: Any, error: type[BaseException]
) -> None:
    topic(1)
    filled(cluster, "a", "b")

    def behave(self: Any, call: str, argument: Any) -> None:
        if call == "put" and "poison" in argument.values:
            raise error("broken pipe")

    task = noted(behave=behave)
    running = run(cluster, install(task))
    wait_until(lambda: task.values() == ["a", "b"], what="records")
    filled(cluster, "poison")

    assert running.outcome().ended is AttemptEnd.FAILED
    assert task.events[-3:] == [("flush", 2), ("close", 0), "stop"]
    assert committed(cluster) == 2


@pytest.mark.parametrize("assignor", ["org.apache.kafka.clients.consumer.RangeAssignor", "my.Own"])
def test_an_assignor_that_cannot_be_used_stops_no_records(
    cluster: Any, topic: Any, install: Any, assignor: str
) -> None:
    """Validation refuses it, but a config may be older than that or hold a reference."""
    topic(1)
    filled(cluster, "a")
    task = noted()
    override = {"consumer.override.partition.assignment.strategy": assignor}
    run(cluster, install(task), **override)

    wait_until(lambda: task.values() == ["a"], what="the record")


def test_errors_in_the_log_hold_no_secrets(
    cluster: Any, topic: Any, install: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic(1)
    filled(cluster, "a")
    failed: list[str] = []

    def behave(self: Any, call: str, argument: Any) -> None:
        if call not in failed and len(argument):
            failed.append(call)
            raise RetriableError(f"{call}: no login at db://user:hunter2-secret@host")

    task = noted(behave=behave)
    running = run(cluster, install(task), **{"db.password": "hunter2-secret"})
    wait_until(lambda: task.values() == ["a"], what="the record")
    running.stop()
    assert "put: no login at db://user:[hidden]@host" in caplog.text
    assert "flush: no login" in caplog.text
    assert "hunter2" not in caplog.text
