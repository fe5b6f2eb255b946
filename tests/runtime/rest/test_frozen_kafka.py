"""A broker that is frozen keeps writes waiting, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.kafka.embedded import EmbeddedBroker, find_broker
from runtime.rest.client import SOURCE
from runtime.rest.clusters import create_topics, runtime_without_spark
from support.wait import wait_until

WITHIN_S = 8.0


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    made = EmbeddedBroker.start(tmp_path)
    yield made
    made.stop()


@contextlib.contextmanager
def frozen(folder: Path) -> Iterator[None]:
    broker = find_broker(folder)
    assert broker is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@pytest.mark.long
def test_health_and_reads_answer_while_kafka_is_frozen(
    kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    create_topics(client, "frozen")
    with (
        runtime_without_spark(client, "frozen") as (leader, first),
        contextlib.ExitStack() as stack,
    ):
        wait_until(lambda: first.herder.leading, what="the first runtime to lead")
        follower, second = stack.enter_context(runtime_without_spark(client, "frozen"))
        wait_until(
            lambda: second.herder.opened and follower.get("/health").status_code == 200,
            what="the second runtime to follow",
        )
        with frozen(tmp_path):
            for number in range(60):
                content = json.dumps({"name": f"n{number}", "config": SOURCE}).encode()
                head = b"POST /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                kind = b"Content-Type: application/json\r\n\r\n"
                asked = leader.connect(head % len(content) + kind + content)
                stack.enter_context(contextlib.closing(asked))
            # until then, what Kafka said about the leader is fresh enough
            stale = time.monotonic() + 1.5
            wait_until(lambda: time.monotonic() > stale, what="what is known to be stale")
            for asked_of in (leader, follower):
                for path in ("/health", "/connectors", "/runtime", "/", "/health", "/health"):
                    begun = time.monotonic()
                    asked_of.get(path, timeout_s=30)
                    assert time.monotonic() - begun < WITHIN_S, path
        wait_until(
            lambda: leader.get("/health", timeout_s=30).status_code == 200,
            what="the leader to be healthy again",
            timeout_s=60,
        )
