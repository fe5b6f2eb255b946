"""Failed records of tasks on a real broker: dead letters, reports, retries, and both kinds of
sources. Texts and headers are those of Apache Kafka Connect (KIP-298, KIP-610)."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Producer

from connect_runtime.api import (
    INT8,
    STRING,
    ConfigDef,
    ConnectorError,
    DataError,
    Header,
    RetriableError,
    SinkBatch,
    SinkRecord,
    SinkTask,
    SourceRecord,
    TopicPartition,
    Transformation,
)
from connect_runtime.errors.dead_letters import DeadLetterQueue
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.sink import errors as sink_errors
from support.broker import create_topic, produce, read_to_end
from support.task_runs import Scripted, committed, started, stopped
from support.wait import wait_until

JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
TOLERANT = {"errors.tolerance": "all"}
PREFIX = "__connect.errors."


class Collecting(SinkTask):
    """Keeps the values that it is given; `refuses` are reported."""

    values: list[Any]
    reports: list[Future[None]]
    refuses: Sequence[Any] = ()

    def start(self, props: Mapping[str, str]) -> None:
        pass

    def put(self, records: SinkBatch) -> None:
        for record in records:
            if record.value in self.refuses:
                self.refuse(record)
            else:
                self.values.append(record.value)
        if len(records):
            self.context.request_commit()

    def refuse(self, record: Any) -> None:
        reporter = self.context.errant_record_reporter
        assert reporter is not None
        self.reports.append(reporter.report(record, DataError("no room")))

    def stop(self) -> None:
        pass


def collecting(**more: Any) -> type[Collecting]:
    return type("Task", (Collecting,), {"values": [], "reports": []} | more)


def sink(cluster: Any, **more: str) -> dict[str, str]:
    group = {"consumer.override.group.id": f"connect-{cluster.name}"}
    return {"topics": cluster.data, **group, **JSON, **more}


def dead_letters(cluster: Any, **more: str) -> dict[str, str]:
    return {
        "errors.deadletterqueue.topic.name": f"{cluster.name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        **more,
    }


def test_bad_messages_go_to_the_dead_letter_queue(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(cluster.data, b"1")
    producer.produce(cluster.data, b"{", b"key", headers=[("own", b"\xff")], timestamp=1234)
    producer.produce(cluster.data, b"3")
    producer.flush()
    task = collecting()
    more = {"errors.deadletterqueue.context.headers.enable": "true"}

    running = started(
        cluster, install, task, **sink(cluster), **TOLERANT, **dead_letters(cluster, **more)
    )
    wait_until(lambda: committed(cluster) == 3, what="the commit")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert task.values == [1, 3]
    (dead,) = read_to_end(cluster.bootstrap_servers, f"{cluster.name}-dead")
    assert (dead.key(), dead.value(), dead.timestamp()[1]) == (b"key", b"{", 1234)
    own, *context = dead.headers() or []
    assert own == ("own", b"\xff")
    assert [name.removeprefix(PREFIX) for name, _ in context] == [
        "topic", "partition", "offset", "connector.name", "task.id", "stage", "class.name",
        "exception.class.name", "exception.message", "exception.stacktrace",
    ]  # fmt: skip
    values = [(value or b"").decode() for _, value in context]
    assert values[:8] == [
        cluster.data, "0", "1", "c", "0", "VALUE_CONVERTER",
        "org.apache.kafka.connect.json.JsonConverter",
        "org.apache.kafka.connect.errors.DataException",
    ]  # fmt: skip
    assert values[8].startswith("Converting byte[] to Kafka Connect data failed due to")
    assert values[8].strip() in values[9]


def test_the_message_that_fails_the_task_is_a_dead_letter_too(
    cluster: Any, topic: Any, install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(1)
    # nothing was delivered, so only the end of the task waits for the report
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"{")])
    waits: list[float] = []
    wait = DeadLetterQueue.wait
    monkeypatch.setattr(
        DeadLetterQueue,
        "wait",
        lambda self, s: waits.append(s) or wait(self, s),  # type: ignore[func-returns-value]
    )
    outcome = started(
        cluster, install, collecting(), **sink(cluster), **dead_letters(cluster)
    ).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    assert waits
    assert "Tolerance exceeded in error handler" in (outcome.trace or "")
    (dead,) = read_to_end(cluster.bootstrap_servers, f"{cluster.name}-dead")
    assert (dead.value(), dead.headers()) == (b"{", None)


def test_a_queue_that_cannot_be_created_fails_the_task(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    queue = dead_letters(cluster, **{"errors.deadletterqueue.topic.replication.factor": "3"})
    outcome = started(cluster, install, collecting(), **sink(cluster), **queue).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    wanted = f"Could not initialize dead letter queue with topic={cluster.name}-dead"
    assert wanted in (outcome.trace or "")


def test_a_task_reports_what_its_target_refuses(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"%d" % n) for n in range(4)])

    def refuse(self: Any, record: Any) -> None:
        Collecting.refuse(self, record)
        if record.value == 3:
            headers = (Header("h", 5, INT8),)
            Collecting.refuse(self, SinkRecord("made", 7, 8, {"a": 1}, headers=headers))

    task = collecting(refuses=(1, 3), refuse=refuse)
    more = {"errors.deadletterqueue.context.headers.enable": "true"}
    # the message is found after a transformation moved the record to another topic
    more |= {
        "transforms": "route",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "elsewhere",
    }

    running = started(
        cluster, install, task, **sink(cluster), **TOLERANT, **dead_letters(cluster, **more)
    )
    wait_until(lambda: committed(cluster) == 4, what="the commit")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert [report.result() for report in task.reports] == [None] * 3
    dead = read_to_end(cluster.bootstrap_servers, f"{cluster.name}-dead")
    assert [m.value() for m in dead] == [b"1", b"3", b'{"a":1}']
    # one that the task made itself is converted, as Connect does
    headers = dict(dead[2].headers() or [])
    assert (headers["h"], headers[f"{PREFIX}topic"]) == (b"5", b"made")
    assert (headers[f"{PREFIX}partition"], headers[f"{PREFIX}offset"]) == (b"7", b"8")
    headers = dict(dead[1].headers() or [])
    assert headers[f"{PREFIX}stage"] == b"TASK_PUT"
    assert headers[f"{PREFIX}class.name"] == b"org.apache.kafka.connect.sink.SinkTask"
    assert headers[f"{PREFIX}topic"] == cluster.data.encode()
    assert headers[f"{PREFIX}exception.message"] == b"no room"


def test_waiting_for_a_report_within_put(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"1"), (None, b"2")])

    def refuse(self: Any, record: Any) -> None:
        Collecting.refuse(self, record)
        assert self.reports[-1].result(10) is None

    task = collecting(refuses=(1,), refuse=refuse)
    running = started(cluster, install, task, **sink(cluster), **TOLERANT, **dead_letters(cluster))
    wait_until(lambda: task.values == [2], what="the other record")

    assert stopped(cluster, running) is AttemptEnd.STOPPED


def test_a_report_that_is_not_tolerated_fails_the_task_even_if_the_task_catches_it(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"1")])

    def refuse(self: Any, record: Any) -> None:
        with pytest.raises(ConnectorError, match="Tolerance exceeded"):
            Collecting.refuse(self, record)

    task = collecting(refuses=(1,), refuse=refuse)
    outcome = started(
        cluster, install, task, **sink(cluster), **{"errors.log.enable": "true"}
    ).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    assert "Tolerance exceeded in error handler" in (outcome.trace or "")
    assert committed(cluster) < 0


def test_without_a_queue_or_log_there_is_no_reporter(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"1")])
    seen: list[Any] = []

    def refuse(self: Any, record: Any) -> None:
        seen.append(self.context.errant_record_reporter)

    running = started(
        cluster, install, collecting(refuses=(1,), refuse=refuse), **sink(cluster), **TOLERANT
    )
    wait_until(lambda: seen, what="the record")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert seen == [None]


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_a_sources_bad_records_are_skipped_and_logged(
    cluster: Any,
    topic: Any,
    install: Any,
    caplog: pytest.LogCaptureFixture,
    support: str,
) -> None:
    topic(1)
    bad = object()
    records = [
        SourceRecord({"p": 1}, {"n": n}, cluster.data, value)
        for n, value in enumerate([1, bad, 2, bad])
    ]
    task = type("Task", (Scripted,), {"script": [records], "events": []})
    cluster.worker["exactly.once.source.support"] = support
    cluster.worker["offset.flush.interval.ms"] = "100"
    with caplog.at_level(logging.ERROR):
        running = started(
            cluster, install, task, **JSON, **TOLERANT, **{"errors.log.enable": "true"}
        )
        wait_until(lambda: len(task.events) == 4, what="all records")
        assert stopped(cluster, running) is AttemptEnd.STOPPED

    assert cluster.values() == ["1", "2"]
    assert cluster.newest(cluster.topics.offsets) == {'["c",{"p":1}]': {"n": 3}}
    logged = [r.getMessage() for r in caplog.records if "Error encountered" in r.getMessage()]
    assert [text.splitlines()[0] for text in logged] == [
        "Error encountered in task c-0. Executing stage 'VALUE_CONVERTER' with class"
        " 'org.apache.kafka.connect.json.JsonConverter'."
    ] * 2


@pytest.mark.parametrize("timestamp", [None, 5], ids=["batch", "singly"])
@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_records_that_are_too_large(
    cluster: Any,
    topic: Any,
    install: Any,
    caplog: pytest.LogCaptureFixture,
    support: str,
    timestamp: int | None,
) -> None:
    """Without transactions they are skipped if errors are tolerated; a transaction fails."""
    topic(1)
    records = [
        SourceRecord({"p": 1}, {"n": n}, cluster.data, "x" * size, timestamp=timestamp)
        for n, size in enumerate([1, 2_000_000, 2, 2_000_000])
    ]
    task = type("Task", (Scripted,), {"script": [records], "events": []})
    cluster.worker["exactly.once.source.support"] = support
    cluster.worker["offset.flush.interval.ms"] = "100"
    strings = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    running = started(
        cluster, install, task, **strings, **TOLERANT, **{"errors.log.enable": "true"}
    )
    if support == "enabled":
        assert running.outcome().ended is AttemptEnd.FAILED
        assert cluster.values() == []
        assert cluster.newest(cluster.topics.offsets) == {}
        return
    wait_until(lambda: len(task.events) == 4, what="all records")
    assert stopped(cluster, running) is AttemptEnd.STOPPED

    assert cluster.values() == ["x", "xx"]
    assert cluster.newest(cluster.topics.offsets) == {'["c",{"p":1}]': {"n": 3}}
    logged = [r.getMessage() for r in caplog.records if "Error encountered" in r.getMessage()]
    assert [text.splitlines()[0] for text in logged] == [
        "Error encountered in task c-0. Executing stage 'KAFKA_PRODUCE' with class"
        " 'org.apache.kafka.connect.runtime.WorkerSourceTask'."
    ] * 2


@pytest.mark.parametrize(
    ("support", "timestamp", "keyless"),
    [("enabled", None, False), ("disabled", None, False), ("disabled", 5, False),
     ("disabled", None, True)],
    ids=["transaction", "batch", "singly", "without keys in a compacted topic"],
)  # fmt: skip
def test_records_that_kafka_refuses(
    cluster: Any,
    install: Any,
    caplog: pytest.LogCaptureFixture,
    support: str,
    timestamp: int | None,
    keyless: bool,
) -> None:
    """Without transactions they are skipped if errors are tolerated, and no others with them; a
    transaction fails. Connect skips the others, too, or splits their batch without an end."""
    limit = {"cleanup.policy": "compact"} if keyless else {"max.message.bytes": "2000"}
    create_topic(cluster.bootstrap_servers, cluster.data, config=limit)
    headers = () if timestamp is None else (Header("h", "x", STRING),)
    records = [
        SourceRecord(
            {"p": 1}, {"n": n}, cluster.data, f"{n}" * size, key_schema=STRING,
            key=None if keyless and size == 5000 else f"{n}", timestamp=timestamp, headers=headers,
        )
        for n, size in enumerate([1, 5000, 2, 5000, 3])
    ]  # fmt: skip
    task = type("Task", (Scripted,), {"script": [records], "events": []})
    cluster.worker["exactly.once.source.support"] = support
    cluster.worker["offset.flush.interval.ms"] = "100"
    name = "org.apache.kafka.connect.storage.StringConverter"
    strings = {"key.converter": name, "value.converter": name}
    logs = {"errors.log.enable": "true", "errors.log.include.messages": "true"}
    running = started(cluster, install, task, **strings, **TOLERANT, **logs)
    if support == "enabled":
        assert running.outcome().ended is AttemptEnd.FAILED
        assert cluster.values() == []
        assert cluster.newest(cluster.topics.offsets) == {}
        return
    wait_until(lambda: len(task.events) == 5, what="all records")
    assert stopped(cluster, running) is AttemptEnd.STOPPED

    written = read_to_end(cluster.bootstrap_servers, cluster.data)
    sent_headers = None if timestamp is None else [("h", b"x")]
    assert [(m.key(), m.value(), m.headers()) for m in written] == [
        (key, value, sent_headers) for key, value in [(b"0", b"0"), (b"2", b"22"), (b"4", b"444")]
    ]
    assert timestamp is None or {m.timestamp()[1] for m in written} == {timestamp}
    assert cluster.newest(cluster.topics.offsets) == {'["c",{"p":1}]': {"n": 4}}
    logged = [r.getMessage() for r in caplog.records if "Error encountered" in r.getMessage()]
    assert len(logged) == 2
    for number, text in zip("13", logged, strict=True):
        assert text.startswith(
            "Error encountered in task c-0. Executing stage 'KAFKA_PRODUCE' with class"
            " 'org.apache.kafka.connect.runtime.WorkerSourceTask', where source record is ="
            " SourceRecord{sourcePartition={}, sourceOffset=null}"
            f" ConnectRecord{{topic='{cluster.data}', kafkaPartition=null,"
            f" key={'null' if keyless else number},"
            f" keySchema=null, value={number * 5000},"
        )


def test_a_stop_ends_the_retries_of_a_source(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    attempts: list[int] = []
    task = type(
        "Task", (Scripted,),
        {"script": [[SourceRecord({"p": 1}, {"n": 1}, cluster.data, Busy(attempts))]],
         "events": []},
    )  # fmt: skip
    running = started(cluster, install, task, **{"errors.retry.timeout": "-1"})
    wait_until(lambda: len(attempts) >= 2, what="a retry")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert cluster.values() == []
    assert cluster.newest(cluster.topics.offsets) == {}


class Busy:
    """Cannot be written yet."""

    def __init__(self, attempts: list[int]) -> None:
        self._attempts = attempts

    def __str__(self) -> str:
        self._attempts.append(1)
        raise RetriableError("busy")


class Flushing(Collecting):
    """Reports what its target refuses only when it flushes."""

    def refuse(self, record: Any) -> None:
        self.refused.append(record)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        while self.refused:
            super().refuse(self.refused.pop())

    def start(self, props: Mapping[str, str]) -> None:
        self.refused: list[Any] = []


def busy(monkeypatch: pytest.MonkeyPatch, task_class: str, free: Callable[[], bool]) -> Any:
    """Keys of a transformation that cannot be done before `free`, and its attempts."""
    attempts: list[float] = []

    class Waiting(Transformation):
        def config(self) -> ConfigDef:
            return ConfigDef()

        def configure(self, options: Mapping[str, str]) -> None:
            pass

        def apply(self, record: Any) -> Any:
            attempts.append(time.monotonic())
            if not free():
                raise RetriableError("busy")
            return record

    module = task_class.partition(":")[0]
    monkeypatch.setattr(sys.modules[module], "Waiting", Waiting, raising=False)
    keys = {"transforms": "w", "transforms.w.type": f"{module}:Waiting"}
    return keys | {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "300"}, attempts


def test_a_stop_ends_the_retries_of_a_sink(
    cluster: Any, topic: Any, install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"1"), (None, b"2")])
    task = collecting()
    installed = install(task)
    keys, attempts = busy(monkeypatch, installed, lambda: False)
    running = started(cluster, lambda _: installed, task, **sink(cluster), **TOLERANT, **keys)
    wait_until(lambda: len(attempts) >= 2, what="a retry")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert task.values == []
    assert committed(cluster) < 0


@pytest.mark.long
def test_retries_longer_than_the_poll_interval(
    cluster: Any, topic: Any, install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group goes on without the task, as without Apache's. What it delivers then is delivered
    again once it is back, and committed once."""
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"1"), (None, b"2")])
    task = collecting()
    installed = install(task)
    keys, attempts = busy(monkeypatch, installed, lambda: attempts[-1] - attempts[0] > 9)
    limits = {
        "consumer.override.max.poll.interval.ms": "6000",
        "consumer.override.session.timeout.ms": "6000",
    }
    running = started(cluster, lambda _: installed, task, **sink(cluster), **keys, **limits)

    wait_until(lambda: task.values == [1, 2, 1, 2], what="the records again")
    wait_until(lambda: committed(cluster) == 2, what="the commit")
    assert stopped(cluster, running) is AttemptEnd.STOPPED


@pytest.mark.parametrize("task", [Collecting, Flushing])
def test_offsets_wait_for_reports(
    cluster: Any, topic: Any, install: Any, monkeypatch: pytest.MonkeyPatch, task: type[Collecting]
) -> None:
    """Also for those that the task makes when it flushes for these offsets."""
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"1"), (None, b"2")])
    asked: list[float] = []
    kept: list[bool] = []
    reported: list[Any] = []
    report = DeadLetterQueue.report

    def wait(self: Any, timeout_s: float) -> bool:
        asked.append(timeout_s)
        return bool(kept) or not reported

    def reporting(self: Any, failure: Any) -> Future[None]:
        reported.append(failure)
        return report(self, failure)

    monkeypatch.setattr(DeadLetterQueue, "report", reporting)

    monkeypatch.setattr(DeadLetterQueue, "wait", wait)
    cluster.worker["offset.flush.interval.ms"] = "100"
    made = type("Task", (task,), {"values": [], "reports": [], "refuses": (2,)})
    running = started(cluster, install, made, **sink(cluster), **TOLERANT, **dead_letters(cluster))
    wait_until(lambda: len(asked) >= 3, what="some commits")
    assert committed(cluster) < 0
    kept.append(True)
    wait_until(lambda: committed(cluster) == 2, what="the commit")

    assert stopped(cluster, running) is AttemptEnd.STOPPED


def test_a_report_that_kafka_refuses_fails_the_task(cluster: Any, topic: Any, install: Any) -> None:
    """The queue takes only small messages."""
    topic(1)
    queue = f"{cluster.name}-dead"
    create_topic(cluster.bootstrap_servers, queue, config={"max.message.bytes": "200"})
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"{" * 1000), (None, b"1")])
    task = collecting()

    outcome = started(
        cluster, install, task, **sink(cluster), **TOLERANT, **dead_letters(cluster)
    ).outcome()

    assert outcome.ended is AttemptEnd.FAILED
    assert f"Could not write to the dead letter queue {queue}" in (outcome.trace or "")
    assert committed(cluster) < 0


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_a_batch_that_is_too_large_for_its_topic_is_sent_in_smaller_ones(
    cluster: Any, install: Any, caplog: pytest.LogCaptureFixture, support: str
) -> None:
    """As Java's producer does. Java's default for batches is too large for this topic, too."""
    create_topic(cluster.bootstrap_servers, cluster.data, config={"max.message.bytes": "3000"})
    cluster.worker["exactly.once.source.support"] = support
    values = [f"{number:03}{'x' * 1000}" for number in range(100)]
    records = [SourceRecord({"p": 0}, {"n": n}, cluster.data, v) for n, v in enumerate(values)]
    task = type("Task", (Scripted,), {"script": [records], "events": []})
    running = started(cluster, install, task)
    wait_until(lambda: cluster.values() == values, what="each record once")
    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert [r.message for r in caplog.records].count(
        "Task c-0 begins anew, with smaller batches"
    ) == 2


def waiting_for_all_reports(self: Any, record: Any) -> None:
    Collecting.refuse(self, record)
    report = self.reports[-1]
    assert not report.cancel()
    done, _ = futures.wait([report], timeout=30)
    assert done
    assert report.exception() is None


def test_a_task_may_wait_for_its_reports_as_for_any_future(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"1"), (None, b"2")])
    task = collecting(refuses=(1,), refuse=waiting_for_all_reports)
    running = started(cluster, install, task, **sink(cluster), **TOLERANT, **dead_letters(cluster))
    wait_until(lambda: committed(cluster) == 2, what="the commit")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert task.values == [2]


def waiting_for_the_report(self: Any, record: Any) -> None:
    Collecting.refuse(self, record)
    self.reports[-1].result()


def swallowing(self: Any, record: Any) -> None:
    with suppress(Exception):
        Collecting.refuse(self, record)


@pytest.mark.parametrize(
    ("room", "refuse"),
    [(1, None), (1, swallowing), (1000, waiting_for_the_report)],
    ids=["conversion", "swallowed", "result"],
)
def test_a_stop_does_not_wait_for_reports(
    cluster: Any,
    topic: Any,
    install: Any,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    refuse: Any,
) -> None:
    """The queue's Kafka does not answer: the first report waits, and there is room for one."""
    topic(1)
    value = b"{" if refuse is None else b"1"
    produce(cluster.bootstrap_servers, cluster.data, [(None, value)] * 3)
    monkeypatch.setitem(sink_errors._QUEUE, "queue.buffering.max.messages", room)
    silent = {
        "producer.override.bootstrap.servers": "127.0.0.1:1",
        "admin.override.bootstrap.servers": cluster.bootstrap_servers,
    }
    more = {} if refuse is None else {"refuse": refuse}
    task = collecting(refuses=(1,), **more)
    waits: list[float] = []
    serve = DeadLetterQueue._serve

    def waiting(self: DeadLetterQueue) -> None:
        waits.append(time.monotonic())
        serve(self)

    monkeypatch.setattr(DeadLetterQueue, "_serve", waiting)

    running = started(
        cluster, install, task, **sink(cluster), **TOLERANT, **dead_letters(cluster), **silent
    )
    wait_until(lambda: waits, what="the wait for Kafka")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert committed(cluster) < 0
