"""Topics that sources create, offsets topics and override policies, as validation sees them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from connect_runtime.settings.connector_topics import TopicCreation, TopicSettings
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.validation.validate import validate

TABLE = yaml.safe_load(Path(__file__).with_name("topic_creation.yaml").read_text())

JSON = "org.apache.kafka.connect.json.JsonConverter"
SOURCE = {"name": "n", "connector.class": "FileStreamSource", "topic": "t", "file": "f"}
SINK = {"name": "n", "connector.class": "FileStreamSink", "topics": "t", "file": "f"}
CREATED = {
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "4",
}


def worker(**more: str) -> WorkerConfig:
    given = {
        "bootstrap.servers": "localhost:9092",
        "group.id": "g",
        "config.storage.topic": "configs",
        "offset.storage.topic": "offsets",
        "status.storage.topic": "status",
        "key.converter": JSON,
        "value.converter": JSON,
    }
    return from_properties(given | {k.replace("_", "."): v for k, v in more.items()})[0]


def errors(config: Mapping[str, str], given: WorkerConfig) -> dict[str, list[str]]:
    infos = validate(config, given).configs
    return {i.value.name: list(i.value.errors) for i in infos if i.value and i.value.errors}


@pytest.mark.parametrize(("more", "expected"), TABLE["source"])
def test_topics_of_a_source_are_validated(
    more: dict[str, str], expected: dict[str, list[str]]
) -> None:
    assert errors({**SOURCE, **more}, worker()) == expected


def test_the_policy_is_a_validation_error() -> None:
    given = worker(connector_client_config_override_policy="Principal")
    key = "consumer.override.max.poll.records"
    config = {**SINK, key: "5", "consumer.override.sasl.mechanism": "PLAIN"}
    text = (
        "The 'Principal' policy does not allow 'max.poll.records' to be overridden in the "
        "connector configuration."
    )
    assert errors(config, given) == {key: [text]}
    assert validate(config, given).error_count == 1


def test_the_first_group_that_takes_a_topic_counts() -> None:
    config = {
        "topic.creation.groups": "compacted, logs",
        **CREATED,
        "topic.creation.default.retention.ms": "5",
        "topic.creation.compacted.include": "state-.*, table",
        "topic.creation.compacted.exclude": "state-tmp.*",
        "topic.creation.compacted.cleanup.policy": "compact",
        "topic.creation.compacted.partitions": "1",
        "topic.creation.logs.include": "state-.*",
        "topic.creation.logs.replication.factor": "-1",
    }
    found = TopicCreation.of(config, {})
    assert found is not None
    compacted = TopicSettings(1, 1, {"cleanup.policy": "compact"})
    assert found.settings("state-a") == found.settings("table") == compacted
    assert found.settings("state-tmp1") == TopicSettings(4, -1, {})
    # the whole name must match
    assert found.settings("my-table") == TopicSettings(4, 1, {"retention.ms": "5"})


@pytest.mark.parametrize(
    ("config", "given"),
    [({}, {}), (CREATED, {"topic.creation.enable": "False"})],
)
def test_topics_are_left_to_the_broker(config: dict[str, str], given: dict[str, str]) -> None:
    assert TopicCreation.of(config, given) is None
