"""What tests with Connect workers share: the tests' Kafka, and a topic on it."""

from pathlib import Path

import pytest

from support.broker import BrokerAddress, create_topic, produce
from support.real_connectors import make_plugin_path


@pytest.fixture
def client(broker: BrokerAddress) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def topic(broker: BrokerAddress, unique: str) -> str:
    """Ten records."""
    create_topic(broker.bootstrap_servers, unique)
    produce(broker.bootstrap_servers, unique, [(None, str(n).encode()) for n in range(10)])
    return unique


@pytest.fixture(scope="session")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin.path with connectors that teams run."""
    return make_plugin_path(tmp_path_factory.mktemp("plugins"))
