"""The group of Apache's Connect workers, after they were stopped or killed, and while they live."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime import joining
from connect_runtime.joining import find_cluster
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.election import ApacheGroup, Election, find_leader
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from support.broker import BrokerAddress
from support.oracle import Oracle
from support.wait import wait_until

pytestmark = pytest.mark.oracle


@pytest.fixture
def worker(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Oracle]:
    """A worker that a test may end."""
    started = Oracle.start(tmp_path, broker.bootstrap_servers, group_id=unique)
    try:
        yield started
    finally:
        started.kill()


@pytest.fixture
def config(worker: Oracle) -> WorkerConfig:
    """Ours, from the file that Apache's worker was started with."""
    lines = (worker.folder / "worker.properties").read_text().splitlines()
    return from_properties(dict(line.split("=", 1) for line in lines))[0]


def test_workers_that_live_are_refused_and_stopped_ones_taken_over_at_once(
    worker: Oracle, config: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # much less than Kafka keeps a member that it hears nothing of
    monkeypatch.setattr(joining, "_SESSION_S", 2.0)
    wait_for_members(config)
    with pytest.raises(ApacheGroup, match="Kafka Connect cluster of Apache's workers uses"):
        find_cluster(config)
    assert worker.answers()

    worker.stop()
    find_cluster(config)
    topic = config.topics.config
    assert find_leader(config.client, config.group_id, topic, 0.0) is None
    ours = Election(config.client, config.group_id, topic, "http://ours:1")
    try:
        wait_until(lambda: ours.poll(0.1) or ours.leading, what="ours to lead", timeout_s=5)
        found = find_leader(config.client, config.group_id, topic, 5.0)
        assert found is not None
        assert found.identity == "http://ours:1"
    finally:
        ours.close()


def wait_for_members(config: WorkerConfig) -> None:
    """A worker that had too little time for its heartbeats joins its group again."""
    kafka = admin(config.client)
    wait_until(
        lambda: any(group.members for group in kafka.list_groups(config.group_id, timeout=10)),
        what="the worker in its group",
    )


@pytest.mark.long
def test_a_worker_that_was_killed_is_waited_for(worker: Oracle, config: WorkerConfig) -> None:
    wait_for_members(config)
    worker.kill()
    with pytest.raises(ApacheGroup):
        find_leader(config.client, config.group_id, config.topics.config, 0.0)
    find_cluster(config)
