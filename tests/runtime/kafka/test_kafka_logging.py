"""What is said about a Kafka that cannot be reached, and how often."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path

import pytest

from connect_runtime.kafka import clients, kafka_logging
from connect_runtime.kafka.embedded import EmbeddedBroker, find_broker
from connect_runtime.kafka.kafka_logging import Outage, OutageLog, logged
from support.wait import wait_until


def test_an_outage_is_told_when_it_starts_once_a_minute_and_when_it_ends() -> None:
    outage = Outage("k:9092")
    lines = []
    for second in range(150):
        now = 1000.0 + second
        lines += [outage.failed(now, f"refused {each}") for each in range(20)]
        lines.append(outage.checked(now + 0.5, answers=False))
    lines.append(outage.checked(1152.0, answers=True))
    assert [line for line in lines if line] == [
        "Kafka at k:9092 cannot be reached: refused 0",
        "Kafka at k:9092 has been failing for 60 s; 1220 connections or requests failed, "
        "most recently: refused 19",
        "Kafka at k:9092 has been failing for 120 s; 2420 connections or requests failed, "
        "most recently: refused 19",
        "Kafka at k:9092 answers again after 152 s; 3000 connections or requests failed",
    ]


def test_one_broker_of_several_that_comes_and_goes_tells_two_lines_a_minute() -> None:
    """The cluster answers all the time, and connections to one broker fail every few seconds."""
    outage = Outage("k:9092")
    lines = []
    for second in range(0, 600, 3):
        lines.append(outage.failed(1000.0 + second, "refused"))
        lines.append(outage.checked(1002.0 + second, answers=True))
    said = [line for line in lines if line]
    assert len(said) <= 20
    assert sum("cannot be reached" in line for line in said) == 10
    assert sum("answers again" in line for line in said) == 10


def test_a_failure_right_before_an_answer_may_be_a_new_one() -> None:
    outage = Outage("k:9092")
    outage.failed(1000.0, "refused")
    assert outage.checked(1000.5, answers=True) is None
    assert outage.began == 1000.0


def test_where_outages_are_not_told_every_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    log = OutageLog("k:9092", lambda: pytest.fail("nobody asks"))
    for _ in range(3):
        log.log(logging.ERROR, "%s [%s] %s", "FAIL", "rdkafka#1", "refused")
    assert [record.getMessage() for record in caplog.records] == ["FAIL [rdkafka#1] refused"] * 3


def test_other_lines_stay_as_they_are(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_logging, "_enabled", _set())
    log = OutageLog("k:9092", lambda: pytest.fail("nobody asks"))
    log.log(logging.WARNING, "%s [%s] %s", "CONFWARN", "rdkafka#1", "no effect")
    log.log(logging.WARNING, "plain")
    assert caplog.messages == ["CONFWARN [rdkafka#1] no effect", "plain"]


def test_a_start_of_transactions_that_is_tried_again_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    log = OutageLog("k:9092", lambda: pytest.fail("nobody asks"))
    why = "[thrd:main]: Failed to acquire transactional PID from broker"
    again = f"{why} TxnCoordinator/1: Broker: Coordinator load in progress: retrying"
    log.log(logging.WARNING, "%s [%s] %s", "GETPID", "rdkafka#1", again)
    log.log(logging.WARNING, "%s [%s] %s", "GETPID", "rdkafka#1", f"{why}: Broker: not permitted")
    assert caplog.messages == [f"GETPID [rdkafka#1] {why}: Broker: not permitted"]


def test_a_connection_that_ended_is_neither_told_nor_an_outage(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks log at INFO, and a proxy before a dead Kafka ends hundreds of connections a second."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(kafka_logging, "_enabled", _set())
    log = OutageLog("k:9092", lambda: pytest.fail("nobody asks"))
    log.log(logging.INFO, "%s [%s] %s", "FAIL", "rdkafka#1", "Disconnected")
    assert caplog.messages == []


def test_a_call_is_logged_with_the_names_in_its_parameters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @logged("read", "topics")
    def read(topics: list[str]) -> list[str]:
        return topics

    caplog.set_level(logging.DEBUG, "connect.requests.kafka")
    read(["a", "b"])
    (line,) = caplog.messages
    assert line.startswith("read a, b: 2 found in ")
    with pytest.raises(AssertionError):
        logged("read", "renamed")(read)


@pytest.mark.long
def test_many_clients_of_a_broker_that_is_killed_and_comes_back_tell_two_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_logging, "_enabled", _set())
    first = EmbeddedBroker.start(tmp_path)
    made = [clients.producer({"bootstrap.servers": first.bootstrap_servers}) for _ in range(8)]

    def said(text: str) -> bool:
        for each in made:
            each.poll(0)
        return any(text in line for line in caplog.messages)

    for each in made:
        each.list_topics(timeout=10)
    broker = find_broker(tmp_path)
    assert broker is not None
    os.kill(broker.pid, signal.SIGKILL)
    wait_until(lambda: said("cannot be reached"), what="the outage to be told")
    port = int(first.bootstrap_servers.rpartition(":")[2])
    second = EmbeddedBroker.start(tmp_path, port=port)
    try:
        wait_until(lambda: said("answers again"), what="its end to be told", timeout_s=60)
    finally:
        second.stop()
    assert len([line for line in caplog.messages if "Kafka at" in line]) == 2
    assert not any(line.startswith("FAIL") for line in caplog.messages)


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event
