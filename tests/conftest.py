"""Fixtures that any test may ask for: Kafka, a real Connect worker, names of its own."""

import gc
import os
import re
import secrets
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from support import shared
from support.broker import BrokerAddress, cluster_at
from support.ender import end_with_run
from support.guarded_broker import GuardedBroker, guarded_broker
from support.oracle import Oracle
from support.rig import Rig

# The connectors that tests bring, for whatever runs in this process.
allow_modules({PLUGIN_MODULES: "support"})

# What a shell starts in the background ignores Ctrl-C, and so do all processes that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about the machine than about the code. A run gives the same
# result for the same code; nightly ones (`make nightly`) use other examples each time, and more.
_ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", _ANY_MACHINE, derandomize=True, max_examples=30)
settings.register_profile("nightly", _ANY_MACHINE, derandomize=False, max_examples=2000)
settings.load_profile("gate")


def pytest_configure(config: pytest.Config) -> None:
    shared.configure(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    shared.unconfigure(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput["connect_shared"] = str(node.config.stash[shared.FOLDER])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> shared.Scheduling:
    return shared.Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector need not look at it, which saves
    each worker a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    result = yield
    shared.end_unused(item, nextitem)
    return result


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shared.order(config, items)


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> BrokerAddress:
    """The Kafka that CONNECT_TEST_BOOTSTRAP names, else the run's embedded broker."""
    existing = os.environ.get("CONNECT_TEST_BOOTSTRAP")
    return cluster_at(existing) if existing else shared.broker(pytestconfig, "broker")


@pytest.fixture(scope="session")
def other_broker(pytestconfig: pytest.Config) -> BrokerAddress:
    """A second Kafka cluster, for connectors that work elsewhere than their workers."""
    return shared.broker(pytestconfig, "other-broker")


@pytest.fixture(scope="session")
def oracle(broker: BrokerAddress, pytestconfig: pytest.Config) -> Iterator[Oracle]:
    """A real Connect worker with exactly-once sources, started by the first test that asks."""
    own = shared.folder(pytestconfig, "oracle")
    worker = Oracle.start(own, broker.bootstrap_servers, group_id=own.name)
    end_with_run(own, worker.pid, worker.started)
    yield worker
    worker.kill()


@pytest.fixture(scope="session")
def guarded(pytestconfig: pytest.Config) -> Iterator[GuardedBroker]:
    """A Kafka with an authorizer and logins, started by the first test that asks."""
    with guarded_broker(shared.folder(pytestconfig, "guarded")) as started:
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
