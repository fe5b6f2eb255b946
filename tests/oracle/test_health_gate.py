"""The health gate on a real worker: a sink falls behind what a producer writes, and catches up.

The sink writes to a pipe, which is full as long as nobody reads it: its `put` does not return.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from connect_reconciler.apply.report import Health
from connect_reconciler.cli.apply_report import render_report
from connect_reconciler.workflow.user import Choices
from connect_specs.diagnostics import ExitCode
from support.broker import BrokerAddress, create_topic
from support.oracle import Oracle
from support.rest_project import RestProject, sink

pytestmark = pytest.mark.oracle

# The worker commits every second. What fails takes all of its time
SOON, PATIENT = (Choices(health_timeout=each, healthy_for=1.2) for each in (5, 30))


@contextmanager
def at_work(work: threading.Thread, ended: threading.Event) -> Iterator[None]:
    work.start()
    try:
        yield
    finally:
        ended.set()
        work.join(20)


@contextmanager
def written_to(bootstrap_servers: str, topic: str) -> Iterator[None]:
    """Some dozen records a second, to two partitions, while the context lasts."""
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})

    def write() -> None:
        while not ended.wait(0.03):
            for partition in range(2):
                producer.produce(topic, value=b"x" * 1000, partition=partition)
            producer.flush(10)

    with at_work(threading.Thread(target=write), ended):
        yield


@contextmanager
def read_from(pipe: int) -> Iterator[None]:
    """Reads the pipe while the context lasts."""
    ended = threading.Event()

    def read() -> None:
        while not ended.wait(0.001):
            with suppress(BlockingIOError):
                os.read(pipe, 1 << 20)

    with at_work(threading.Thread(target=read), ended):
        yield


def test_a_sink_that_falls_behind_fails_and_one_that_catches_up_passes(
    oracle: Oracle, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    """The health gate: tasks that run are not enough."""
    servers = broker.bootstrap_servers
    create_topic(servers, unique, partitions=2)
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    project = RestProject(
        oracle.url,
        oracle.group_id,
        {"bootstrap.servers": servers},
        f"orders-{secrets.token_hex(4)}",
        worker={"offset.flush.interval.ms": "1000"},
        choices=SOON,
    )
    project.want(sink(unique, tmp_path / "pipe", unique))
    with written_to(servers, unique):
        stuck = project.apply()
        assert stuck.exit_code is ExitCode.FAILED
        assert stuck.connectors[0].health is Health.FALLS_BEHIND, stuck
        told = re.search(r"lag grows: ([\d,]+) → ([\d,]+) records", render_report(stuck))
        assert told is not None, render_report(stuck)
        before, after = (int(each.replace(",", "")) for each in told.groups())
        assert before < after
        with read_from(pipe):
            project.choices = PATIENT
            project.want(sink(unique, tmp_path / "pipe", unique, **{"tasks.max": "2"}))
            reading = project.apply()
            assert reading.connectors[0].health is Health.RUNNING, reading
            assert reading.exit_code is ExitCode.OK
            project.specs = {}
            assert project.apply().exit_code is ExitCode.OK
    os.close(pipe)
