"""The same connectors on Apache's worker and on our runtime: the same records in topics, files and
dead letter queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Message

from oracle.our_worker import our_runtime
from support import http
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.oracle import Oracle
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

LINES = ("1", "22", "three", "4.5", "", "ünïcode", "7")
JAVA = "org.apache.kafka.connect"
HOIST = {"transforms.h.type": f"{JAVA}.transforms.HoistField$Value", "transforms.h.field": "line"}
CAST = {"transforms.c.type": f"{JAVA}.transforms.Cast$Value", "transforms.c.spec": "line:int32"}
STRINGS = {"value.converter": f"{JAVA}.storage.StringConverter"}
NO_SCHEMAS = {"value.converter": f"{JAVA}.json.JsonConverter"} | {
    "value.converter.schemas.enable": "false"
}
DLQ = "errors.deadletterqueue"


@dataclass(frozen=True, slots=True)
class Case:
    """Keys of a connector beside its file and topic, and how many records it is to write.
    `routed` follows the name of the topic."""

    name: str
    config: Mapping[str, str]
    count: int
    routed: str = ""
    dead: int = 0


SOURCES = (
    Case("plain", STRINGS, 7),
    Case("hoisted", {"transforms": "h", **HOIST}, 7),
    Case(
        "inserted",
        {
            "transforms": "h,i,m",
            **HOIST,
            "transforms.i.type": f"{JAVA}.transforms.InsertField$Value",
            "transforms.i.static.field": "card!",
            "transforms.i.static.value": "4711",
            "transforms.i.topic.field": "of",
            "transforms.m.type": f"{JAVA}.transforms.MaskField$Value",
            "transforms.m.fields": "card",
            "transforms.m.replacement": "****",
            **NO_SCHEMAS,
        },
        7,
    ),
    Case(
        "keyed",
        {
            "transforms": "h,k,e",
            **HOIST,
            "transforms.k.type": f"{JAVA}.transforms.ValueToKey",
            "transforms.k.fields": "line",
            "transforms.e.type": f"{JAVA}.transforms.ExtractField$Key",
            "transforms.e.field": "line",
            "key.converter": f"{JAVA}.storage.StringConverter",
        },
        7,
    ),
    Case(
        "routed",
        {
            "transforms": "r,n,s,d",
            "transforms.r.type": "RegexRouter",
            "transforms.r.regex": "(.*)",
            "transforms.r.replacement": "$1-routed",
            "transforms.n.type": "InsertHeader",
            "transforms.n.header": "number",
            "transforms.n.value.literal": "32768",
            "transforms.s.type": "InsertHeader",
            "transforms.s.header": "list",
            "transforms.s.value.literal": "[1,2]",
            "transforms.s.predicate": "p",
            # fails on a record without a timestamp
            "transforms.d.type": "TimestampRouter",
            "transforms.d.topic.format": "${topic}${timestamp}",
            "transforms.d.timestamp.format": "'-dated'",
            "predicates": "p",
            "predicates.p.type": "TopicNameMatches",
            "predicates.p.pattern": ".*-routed",
            **STRINGS,
        },
        7,
        routed="-routed-dated",
    ),
    Case(
        "negated",
        {
            "transforms": "n,f",
            "transforms.n.type": "InsertHeader",
            "transforms.n.header": "kept",
            "transforms.n.value.literal": "true",
            "transforms.f.type": "Filter",
            "transforms.f.predicate": "p",
            "transforms.f.negate": "true",
            "predicates": "p",
            "predicates.p.type": "HasHeaderKey",
            "predicates.p.name": "kept",
            "header.converter": f"{JAVA}.json.JsonConverter",
            **STRINGS,
        },
        7,
    ),
    Case("tolerated", {"transforms": "h,c", **HOIST, **CAST, "errors.tolerance": "all"}, 3),
)
RECORDS: tuple[tuple[bytes | None, bytes | None], ...] = (
    (b"a", b'{"id": 1, "name": "one", "card": "4711"}'),
    (b"b", b"{broken"),
    (None, b'{"id": "x", "name": null, "card": "1"}'),
    (b"c", b'{"id": 3, "card": "2"}'),
    (b"d", None),
    (b"e", b"[1, 2]"),
    (b"f", b'{"id": 6, "name": "six", "card": "3", "more": {"deep": [1, {"a": null}]}}'),
)
SINK = {**NO_SCHEMAS, "key.converter": f"{JAVA}.storage.StringConverter"}
SINKS = (
    Case(
        "dead-letters",
        {
            **SINK,
            "transforms": "f,m,c",
            "transforms.f.type": "Filter",
            "transforms.f.predicate": "p",
            "transforms.m.type": f"{JAVA}.transforms.ReplaceField$Value",
            "transforms.m.exclude": "card",
            "transforms.c.type": f"{JAVA}.transforms.Cast$Value",
            "transforms.c.spec": "id:int64",
            "predicates": "p",
            "predicates.p.type": "RecordIsTombstone",
            "errors.tolerance": "all",
            f"{DLQ}.context.headers.enable": "true",
        },
        3,
        dead=3,
    ),
    Case(
        "flat",
        {
            **SINK,
            "transforms": "x",
            "transforms.x.type": f"{JAVA}.transforms.Flatten$Value",
            "transforms.x.delimiter": "_",
            "errors.tolerance": "all",
        },
        5,
        dead=2,
    ),
)


@dataclass(frozen=True, slots=True)
class Worker:
    """One of the two. Its connectors, topics and files begin with its name: the consumer group of
    a sink has the name of the connector."""

    client: httpx.Client
    name: str
    folder: Path

    def topic(self, case: Case, more: str = "") -> str:
        return f"{self.name}-{case.name}{more}"

    def create(self, name: str, config: Mapping[str, str]) -> None:
        body = {"name": name, "config": config}
        wait_until(
            lambda: self.client.post("/connectors", json=body).status_code == 201,
            what=f"{name} to be created by {self.name}",
        )


@pytest.fixture(scope="module")
def workers(
    broker: BrokerAddress, oracle: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Worker, Worker]]:
    """Ours and Apache's, with a connector for each case."""
    folder = tmp_path_factory.mktemp("same-records")
    group = f"same-{oracle.group_id}"
    create_topic(broker.bootstrap_servers, f"{group}-records")
    produce(broker.bootstrap_servers, f"{group}-records", RECORDS)
    (folder / "lines").write_text("".join(f"{line}\n" for line in LINES))
    runtime = our_runtime(broker, f"{group}-ours", folder)
    try:
        found = []
        for name, url in ((f"{group}-ours", runtime.url), (f"{group}-apache", oracle.url)):
            worker = Worker(http.client(url, timeout_s=100), name, folder)
            wait_until(
                lambda w=worker: w.client.get("/health").status_code == 200,
                what="health",
                timeout_s=60,
            )
            _create(worker, f"{group}-records")
            found.append(worker)
        yield found[0], found[1]
        for worker in found:
            for case in (*SOURCES, *SINKS):
                worker.client.delete(f"/connectors/{worker.topic(case)}")
            worker.client.close()
    finally:
        runtime.stop()


def _create(worker: Worker, records: str) -> None:
    for case in SOURCES:
        own = {"file": str(worker.folder / "lines"), "topic": worker.topic(case)}
        worker.create(
            worker.topic(case), {"connector.class": "FileStreamSource", **own, **case.config}
        )
    for case in SINKS:
        own = {"file": str(worker.folder / worker.topic(case)), "topics": records}
        dead = {
            f"{DLQ}.topic.name": worker.topic(case, "-dead"),
            f"{DLQ}.topic.replication.factor": "1",
        }
        worker.create(
            worker.topic(case), {"connector.class": "FileStreamSink", **own, **dead, **case.config}
        )


@pytest.mark.parametrize("case", SOURCES, ids=lambda case: case.name)
def test_both_write_the_same_records(
    broker: BrokerAddress, workers: tuple[Worker, Worker], case: Case
) -> None:
    ours, theirs = (
        [
            _record(message, worker)
            for message in _read(broker, worker.topic(case, case.routed), case.count)
        ]
        for worker in workers
    )
    assert len(theirs) == case.count
    assert ours == theirs


@pytest.mark.parametrize("case", SINKS, ids=lambda case: case.name)
def test_both_write_the_same_lines_and_dead_letters(
    broker: BrokerAddress, workers: tuple[Worker, Worker], case: Case
) -> None:
    ours, theirs = (
        (
            _lines(worker.folder / worker.topic(case), case.count),
            [
                _record(each, worker)
                for each in _read(broker, worker.topic(case, "-dead"), case.dead)
            ],
        )
        for worker in workers
    )
    assert (len(theirs[0]), len(theirs[1])) == (case.count, case.dead)
    assert ours[0] == theirs[0]
    for mine, its in zip(ours[1], theirs[1], strict=True):
        assert mine[:2] == its[:2]
        assert dict(mine[2]) == dict(its[2])
        assert mine == its


def _read(broker: BrokerAddress, topic: str, count: int) -> list[Message]:
    def found() -> list[Message] | None:
        read = read_to_end(broker.bootstrap_servers, topic)
        return read if len(read) >= count else None

    read = wait_until(found, what=f"{count} records in {topic}", timeout_s=60)
    assert read is not None
    return read


def _lines(file: Path, count: int) -> list[list[str]]:
    """Returns the fields of each line, sorted: maps without schema keep their order here only."""

    def found() -> list[str] | None:
        lines = file.read_text().splitlines() if file.exists() else []
        return lines if len(lines) >= count else None

    lines = wait_until(found, what=f"{count} lines in {file}", timeout_s=60)
    assert lines is not None
    return [sorted(line.strip("{}").split(", ")) for line in lines]


def _record(message: Message, worker: Worker) -> tuple[Any, ...]:
    """All that does not depend on the time or on the worker's name."""
    return (
        message.key(),
        _named(message.value(), worker),
        [
            (key, _named(value, worker))
            for key, value in message.headers() or ()
            if not key.endswith(("timestamp", "stacktrace"))
        ],
    )


def _named(value: bytes | None, worker: Worker) -> bytes | None:
    return value and value.replace(worker.name.encode(), b"<worker>")
