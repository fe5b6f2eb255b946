"""What only the brokers tell: topics' settings, how many brokers there are, who uses the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from connect_reconciler.doctor.facts import Finding, TopicFacts
from connect_runtime.kafka.clients import admin, cluster_metadata
from connect_runtime.kafka.election import find_leader
from connect_runtime.kafka.errors import as_failure, error_of
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError, Diagnostic
from connect_specs.names import ClusterTopics

_REQUEST_S = 10.0
_OF_APACHE = "cluster.of-apache"


def brokers_of(client: Mapping[str, str]) -> int:
    """How many there are."""
    asks = admin(client)
    try:
        return len(cluster_metadata(asks, _REQUEST_S).brokers)
    except KafkaException as error:
        raise as_failure(error_of(error), "The brokers cannot be listed", "Kafka") from None


def topic_facts(client: Mapping[str, str], topics: ClusterTopics) -> dict[str, TopicFacts]:
    """Those of the cluster's topics that exist."""
    names = [topics.config, topics.offsets, topics.status, topics.assignments, topics.ledger]
    asks = admin(client)
    found: dict[str, TopicFacts] = {}
    described = asks.describe_topics(TopicCollection(names), request_timeout=_REQUEST_S)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    settings = asks.describe_configs(resources, request_timeout=_REQUEST_S)
    for name, resource in zip(names, resources, strict=True):
        try:
            topic = described[name].result()
        except KafkaException:
            continue
        replication = min((len(each.replicas) for each in topic.partitions), default=0)
        try:
            policy = str(settings[resource].result()["cleanup.policy"].value)
        except KafkaException:
            policy = None
        found[name] = TopicFacts(name, len(topic.partitions), replication, policy)
    return found


def group_mixing(project: Project, client: Mapping[str, str]) -> Iterator[Finding]:
    """Whether workers of the other kind use the group: ours and Apache's refuse each other."""
    group = project.group_id
    try:
        leader = find_leader(client, group, project.topics.config, 0.0)
    except ConnectError as error:
        found = error.diagnostics[0]
        if found.code != _OF_APACHE:
            raise
        if project.target is None:
            yield Finding("error", found)
        return
    if project.target is not None and leader is not None:
        what = f"a runtime of ours leads the group, at {leader.identity}"
        hint = "stop it, or write target: runtime"
        yield Finding("error", Diagnostic("doctor.mixed-group", what, group, hint=hint))
    elif project.target is not None:
        what = "no worker of Apache's is in the group"
        hint = "start the workers, or check cluster.group.id"
        yield Finding("warning", Diagnostic("doctor.no-workers", what, group, hint=hint))
