"""The real Connect worker that other tests compare with: it runs, on this session's Kafka."""

import pytest

from connect_runtime import KAFKA_VERSION
from support import http
from support.broker import BrokerAddress
from support.oracle import Oracle


@pytest.mark.oracle
def test_the_oracle_is_the_pinned_connect_on_the_tests_kafka(
    oracle: Oracle, broker: BrokerAddress
) -> None:
    root = http.get(oracle.url).json()
    assert root["version"] == KAFKA_VERSION
    assert root["kafka_cluster_id"] == broker.cluster_id
    plugins = {plugin["class"] for plugin in http.get(f"{oracle.url}/connector-plugins").json()}
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in plugins


def test_names_of_their_own(unique: str) -> None:
    assert unique.startswith("test-names-of-their-own-")
