"""What a runtime creates when it joins a cluster, on a real broker."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from connect_runtime.joining import ensure_topics, find_cluster, join_topics
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_specs.diagnostics import Failed
from support.broker import BrokerAddress, create_topic
from support.own_broker import own_broker
from support.wait import wait_until


def worker(kafka: str, group: str, **more: str) -> WorkerConfig:
    given = {
        "bootstrap.servers": kafka,
        "group.id": group,
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
    }
    for kind in ("config", "offset", "status"):
        given[f"{kind}.storage.topic"] = f"{group}-{kind}"
        given[f"{kind}.storage.replication.factor"] = "1"
    config, _ = from_properties(given | more)
    return config


def topics_of(config: WorkerConfig) -> set[str]:
    return set(admin(config.client).list_topics(timeout=10).topics)


def test_topics_have_small_segments_unless_the_worker_sets_others(
    broker: BrokerAddress, unique: str
) -> None:
    more = {"status.storage.segment.bytes": "20971520"}
    config = worker(broker.bootstrap_servers, unique, **more)
    logs = KafkaLogs(config.client)
    ensure_topics(config, logs)
    logs.close()
    client = admin(config.client)
    topics = config.topics
    resources = {
        name: ConfigResource(ResourceType.TOPIC, name)
        for name in (topics.config, topics.offsets, topics.status, topics.assignments)
    }
    answers = client.describe_configs(list(resources.values()))
    sizes = {
        name: answers[each].result()["segment.bytes"].value for name, each in resources.items()
    }
    assert sizes == dict.fromkeys(resources, "10485760") | {topics.status: "20971520"}


def test_a_worker_waits_for_the_brokers_that_its_topics_need(
    broker: BrokerAddress, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache's does: the first broker of three answers before the others have joined it."""
    monkeypatch.setattr(logging.getLogger("connect.waits"), "propagate", True)
    three = {"offset.storage.replication.factor": "3"}
    config = worker(broker.bootstrap_servers, unique, **three)
    logs = KafkaLogs(config.client)
    with ThreadPoolExecutor() as pool:
        joined = pool.submit(join_topics, config, logs)
        # the leader would be another one: the topics before it in order are there
        wait_until(lambda: config.topics.config in topics_of(config), what="the first topic")
        create_topic(
            broker.bootstrap_servers,
            config.topics.offsets,
            partitions=3,
            config={"cleanup.policy": "compact"},
        )
        joined.result(30)
    assert config.topics.assignments in topics_of(config)
    logs.close()

    # it is told how many brokers there are, and waited for no longer than for Kafka itself
    config = worker(
        broker.bootstrap_servers, f"{unique}-b", **three, **{"default.api.timeout.ms": "1"}
    )
    logs = KafkaLogs(config.client)
    with pytest.raises(Failed, match="cannot be created") as refused:
        join_topics(config, logs)
    (told,) = refused.value.diagnostics
    assert told.why is not None and "only 1 broker" in told.why
    assert told.hint is not None and "offset.storage.replication.factor" in told.hint
    logs.close()


@pytest.mark.long
def test_a_worker_waits_for_coordinators_that_are_not_there_yet(tmp_path: Path) -> None:
    with own_broker(tmp_path) as kafka, ThreadPoolExecutor() as pool:
        way = kafka.ways[0]
        config = worker(f"127.0.0.1:{way.port}", "starting")
        with way.no_coordinators():
            began = time.monotonic()
            found = pool.submit(find_cluster, config)
            # longer than one request for the group is waited for
            wait_until(lambda: time.monotonic() - began > 25 or found.done(), what="25 s")
            assert not found.done()
        assert found.result(30)
        logs = KafkaLogs(config.client)
        join_topics(config, logs)
        assert config.topics.assignments in topics_of(config)
        logs.close()
