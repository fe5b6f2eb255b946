"""The same bad messages through Apache's worker and ours: dead letters and log lines are equal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from connect_runtime.storage.snapshots import TaskId
from support import http
from support.broker import create_topic, read_to_end
from support.oracle import Oracle
from support.wait import wait_until

JAVA = "org.apache.kafka.connect"
BAD_JSON = (
    b"[1,2", b"\xff", b'{"n":NaN}', b"[" * 100_000, b'{"n":' + b"1" * 5000 + b"}",
    b'"' + b'\\"' * 100_000, b"[1,2]", b'{"n":1e999,}',
)  # fmt: skip
BAD = 6 + len(BAD_JSON)


def config(cluster: Any, name: str, folder: Path) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": f"{JAVA}.file.FileStreamSinkConnector",
        "file": str(folder / f"{name}.txt"),
        "topics": cluster.data,
        "key.converter": f"{JAVA}.converters.IntegerConverter",
        "value.converter": f"{JAVA}.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "header.converter": f"{JAVA}.converters.LongConverter",
        "transforms": "cast",
        "transforms.cast.type": f"{JAVA}.transforms.Cast$Value",
        "transforms.cast.spec": "n:int8",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{cluster.name}-{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
    }


def shown(message: Message, name: str) -> dict[str, Any]:
    """All of a dead letter but its stack trace, and the connector's name as `c`."""
    headers = [
        (key, b"c" if value == name.encode() else value)
        for key, value in message.headers() or []
        if not key.endswith("stacktrace")
    ]
    return {
        "key": message.key(), "value": message.value(), "timestamp": message.timestamp()[1],
        "headers": headers,
    }  # fmt: skip


def dead(cluster: Any, name: str) -> list[dict[str, Any]]:
    found = read_to_end(cluster.bootstrap_servers, f"{cluster.name}-{name}-dead")
    return [shown(message, name) for message in found]


def lines(texts: Iterable[str], name: str) -> list[str]:
    """What was logged about messages, and the connector's name as `c`."""
    begin = f"Error encountered in task {name}-0. "
    return [text[text.index(begin) + len(begin) :] for text in texts if begin in text]


def test_dead_letters_are_those_of_apache(
    cluster: Any, topic: Any, oracle: Oracle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic(1)
    number, good = b"\0\0\0\1", b'{"n":1}'
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(cluster.data, good, number)
    producer.produce(cluster.data, b'{"n":"many"}', number, timestamp=500)
    producer.produce(cluster.data, good, b"key", timestamp=1000)
    producer.produce(cluster.data, b"{", b"key", timestamp=2000)
    producer.produce(cluster.data, b"{", number, headers=[("h", b"\xff")], timestamp=3000)
    producer.produce(cluster.data, good, number, headers=[("h", b"\xff")], timestamp=4000)
    producer.produce(cluster.data, b'{"n":"many"}', number, timestamp=5000)
    for value in BAD_JSON:
        producer.produce(cluster.data, value, number, timestamp=6000)
    producer.produce(cluster.data, good, number)
    producer.flush()

    theirs, ours = "theirs", "ours"
    for name in (theirs, ours):
        create_topic(cluster.bootstrap_servers, f"{cluster.name}-{name}-dead")
    http.put(
        f"{oracle.url}/connectors/{cluster.name}/config",
        json=config(cluster, theirs, tmp_path) | {"name": cluster.name},
    ).raise_for_status()
    try:
        wait_until(lambda: len(dead(cluster, theirs)) == BAD, what="Apache's letters", timeout_s=60)
    finally:
        http.delete(f"{oracle.url}/connectors/{cluster.name}")
    task = TaskId(ours, 0)
    cluster.assign(task, 1)
    task_class = {"task.class": f"{JAVA}.file.FileStreamSinkTask"}
    running = cluster.run(cluster.launch(task, config(cluster, ours, tmp_path) | task_class))
    wait_until(lambda: len(dead(cluster, ours)) == BAD, what="our letters")
    running.stop()

    found = read_to_end(cluster.bootstrap_servers, f"{cluster.name}-{theirs}-dead")
    assert [shown(message, cluster.name) for message in found] == dead(cluster, ours)
    their_log = (oracle.folder / "worker.log").read_text().splitlines()
    # the logger's name follows
    their_lines = [text.rsplit(" (", 1)[0] for text in lines(their_log, cluster.name)]
    our_lines = lines((r.getMessage().splitlines()[0] for r in caplog.records), ours)
    assert len(our_lines) == BAD
    assert our_lines == their_lines
