"""What a runtime creates when it joins a cluster, on a real broker."""

from confluent_kafka.admin import ConfigResource, ResourceType

from connect_runtime.joining import ensure_topics
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.settings.worker_config import from_properties
from support.broker import BrokerAddress


def test_topics_have_small_segments_unless_the_worker_sets_others(
    broker: BrokerAddress, unique: str
) -> None:
    given = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": unique,
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "status.storage.segment.bytes": "20971520",
    }
    for kind in ("config", "offset", "status"):
        given[f"{kind}.storage.topic"] = f"{unique}-{kind}"
        given[f"{kind}.storage.replication.factor"] = "1"
    config, _ = from_properties(given)
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
