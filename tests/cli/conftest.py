"""A project of the test's own, and the command in it."""

from pathlib import Path

import pytest

from support.broker import BrokerAddress
from support.command import Command


@pytest.fixture
def connect(tmp_path: Path) -> Command:
    """The command in an empty folder."""
    return Command(tmp_path)


@pytest.fixture
def on_kafka(connect: Command, broker: BrokerAddress, unique: str) -> Command:
    """The command in a project `p` on the session's Kafka, without specs and with no runtime."""
    connect.write("connect.yaml", f"project: p\ncluster: {broker.cluster(unique)}\n")
    return connect
