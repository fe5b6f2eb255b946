"""Fixtures that any test may ask for: Kafka, a real Connect worker, names of its own."""

import os
import re
import secrets
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from connect_runtime import plugins
from connect_runtime.kafka.embedded import EmbeddedBroker
from support.broker import BrokerAddress, cluster_at
from support.guarded_broker import GuardedBroker, guarded_broker
from support.oracle import Oracle
from support.rig import Rig

# The connectors that tests bring, for whatever runs in this process.
plugins.allow_modules({plugins.PLUGIN_MODULES: "support"})

# What a shell starts in the background ignores Ctrl-C, and so do all processes that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A gate says the same of the same code. `--hypothesis-profile=explore` looks elsewhere each time.
settings.register_profile("gate", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("gate")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    """The Kafka that CONNECT_TEST_BOOTSTRAP names, else one embedded broker for the session."""
    existing = os.environ.get("CONNECT_TEST_BOOTSTRAP")
    if existing:
        yield cluster_at(existing)
        return
    started = EmbeddedBroker.start(tmp_path_factory.mktemp("broker"))
    try:
        yield BrokerAddress(started.bootstrap_servers, started.cluster_id)
    finally:
        started.stop()


@pytest.fixture(scope="session")
def other_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    """A second Kafka cluster, for connectors that work elsewhere than their workers."""
    started = EmbeddedBroker.start(tmp_path_factory.mktemp("other-broker"))
    try:
        yield BrokerAddress(started.bootstrap_servers, started.cluster_id)
    finally:
        started.stop()


@pytest.fixture(scope="session")
def oracle(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """A real Connect worker with exactly-once sources, started by the first test that asks."""
    worker = Oracle.start(
        tmp_path_factory.mktemp("oracle"),
        broker.bootstrap_servers,
        group_id=f"oracle-{secrets.token_hex(4)}",
    )
    try:
        yield worker
    finally:
        worker.stop()


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    """A Kafka with an authorizer and logins, started by the first test that asks."""
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as started:
        yield started


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A project with a Kafka and a runtime of its own, for tests that kill them in turn. Nothing
    that was started in it may survive `connect down`."""
    project = Rig(tmp_path_factory.mktemp("rig") / "project")
    yield project
    assert project.end() == []


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name from the test's id, never given twice, valid for a topic, group or connector."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{name[:48].rstrip('-')}-{secrets.token_hex(4)}"
