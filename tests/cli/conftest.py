"""A project of the test's own, and the command in it."""

from pathlib import Path

import pytest

from support.broker import BrokerAddress
from support.by_hand import ByHand
from support.command import Command


@pytest.fixture
def connect(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """The command in an empty folder, run in this process."""
    return Command(tmp_path, capture=capfd)


@pytest.fixture
def on_kafka(connect: Command, broker: BrokerAddress, unique: str) -> Command:
    """The command in a project `p` on the session's Kafka, without specs and with no runtime."""
    connect.write("connect.yaml", f"project: p\ncluster: {broker.cluster(unique)}\n")
    return connect


@pytest.fixture
def by_hand(broker: BrokerAddress, unique: str) -> ByHand:
    """Writes to the topics of the cluster that `on_kafka` names."""
    return ByHand(broker.bootstrap_servers, unique)
