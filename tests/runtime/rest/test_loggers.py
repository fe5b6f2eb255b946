"""Levels of loggers over REST: Connect's names and levels, for one worker and for all."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from connect_runtime.engine import java_loggers
from connect_runtime.logs import logger_levels
from connect_runtime.logs.logger_levels import ClusterLevels
from connect_runtime.storage import config_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import ConfigSnapshot
from runtime.rest.client import Client, client_of, error, running_source
from runtime.rest.fake_verbs import FakeVerbs
from support.memory_cluster import TOPICS, MemoryCluster

CONNECT = "org.apache.kafka.connect"


@pytest.fixture
def verbs() -> FakeVerbs:
    return running_source()


@pytest.fixture
def client(verbs: FakeVerbs) -> Client:
    return client_of(verbs)


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the loggers of the test, at INFO, and none is changed for other tests."""
    manager = logging.Manager(logging.RootLogger(logging.INFO))
    monkeypatch.setattr(logging.Logger, "manager", manager)
    monkeypatch.setattr(logging.Logger, "root", manager.root)
    monkeypatch.setattr(logging, "root", manager.root)
    monkeypatch.setattr(logger_levels, "_modified_ms", {})
    monkeypatch.setattr(java_loggers, "_set", {})
    for name in (
        "connect_runtime.herder.herder",
        "connect_runtime.tasks.sink",
        "py4j.clientserver",
    ):
        logging.getLogger(name)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


def level(client: Client, name: str) -> Any:
    return client("GET", f"/admin/loggers/{name}").json()


def test_loggers_have_connects_names_and_levels(client: Client) -> None:
    assert client("GET", "/admin/loggers").json() == {
        f"{CONNECT}.herder.herder": {"level": "INFO", "last_modified": None},
        f"{CONNECT}.tasks.sink": {"level": "INFO", "last_modified": None},
        "root": {"level": "INFO", "last_modified": None},
        "uvicorn": {"level": "ERROR", "last_modified": None},
    }
    assert level(client, "uvicorn") == {"level": "ERROR", "last_modified": None}
    # a name that has loggers below it is not one itself
    assert level(client, CONNECT) == error(404, f"Logger {CONNECT} not found.")


def test_a_level_is_set_for_a_logger_and_those_below(client: Client) -> None:
    before = time.time() * 1000
    found = client("PUT", f"/admin/loggers/{CONNECT}", {"level": "debug"})
    assert (found.status_code, found.json()) == (
        200,
        [CONNECT, f"{CONNECT}.herder.herder", f"{CONNECT}.tasks.sink"],
    )
    assert logging.getLogger("connect_runtime.tasks.sink").isEnabledFor(logging.DEBUG)
    assert logging.getLogger("connect_runtime.new").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("uvicorn").isEnabledFor(logging.WARNING)
    changed = level(client, f"{CONNECT}.tasks.sink")
    assert changed["level"] == "DEBUG"
    assert before - 1 <= changed["last_modified"] <= time.time() * 1000

    again = client("PUT", f"/admin/loggers/{CONNECT}", {"level": "DEBUG"})
    assert again.json() == []
    assert level(client, f"{CONNECT}.tasks.sink") == changed


def test_the_root_is_every_logger_but_the_bridge_to_spark(client: Client) -> None:
    found = client("PUT", "/admin/loggers/ROOT", {"level": "WARN"}).json()
    assert found == [f"{CONNECT}.herder.herder", f"{CONNECT}.tasks.sink", "root", "uvicorn"]
    assert logging.getLogger("py4j.clientserver").level == logging.NOTSET


@pytest.mark.parametrize("name", ["py4j", "py4j.clientserver", "py4j.new"])
def test_the_bridge_to_spark_stays_as_it_is(client: Client, name: str) -> None:
    logging.getLogger("py4j").setLevel(logging.WARNING)
    assert client("PUT", f"/admin/loggers/{name}", {"level": "DEBUG"}).json() == []
    assert logging.getLogger(name).getEffectiveLevel() == logging.WARNING


@pytest.mark.parametrize(
    ("name", "number"),
    [("TRACE", 5), ("FATAL", 50), ("OFF", 60), ("ALL", 1)],
)
def test_levels_that_python_has_no_name_for(client: Client, name: str, number: int) -> None:
    assert client("PUT", "/admin/loggers/a.b", {"level": name}).json() == ["a.b"]
    assert logging.getLogger("a.b").level == number
    assert level(client, "a.b")["level"] == name
    assert ("a.b" in client("GET", "/admin/loggers").json()) == (name != "OFF")


@pytest.mark.parametrize("scope", ["worker", "bogus", "worker&scope=cluster"])
def test_any_other_scope_is_this_worker(client: Client, verbs: FakeVerbs, scope: str) -> None:
    found = client("PUT", f"/admin/loggers/uvicorn?scope={scope}", {"level": "INFO"})
    assert (found.status_code, found.json()) == (200, ["uvicorn"])
    assert not verbs.logger_levels


@pytest.mark.parametrize("scope", ["cluster", "CLUSTER"])
def test_a_level_for_the_cluster_is_written_as_sent(
    client: Client, verbs: FakeVerbs, scope: str
) -> None:
    found = client("PUT", f"/admin/loggers/{CONNECT}?scope={scope}", {"level": "debug"})
    assert (found.status_code, found.content) == (204, b"")
    assert verbs.logger_levels == {CONNECT: "debug"}


def test_every_worker_applies_levels_for_the_cluster() -> None:
    cluster = MemoryCluster()
    first, second = cluster.leader(), cluster.runtime()
    cluster.logs.writer("apache").write([config_topic.logger_record(TOPICS.config, "x", "bogus")])
    first.verbs.set_logger_level("a.b", "debug")
    written = dict(cluster.written(TOPICS.config))
    assert written["logger-cluster-a.b"] == '{"level":"debug"}'
    assert logger_levels.level_of("a.b") is not None  # the leader has read what it wrote
    logger_levels.set_level("a.b", "ERROR")
    second.tick()
    found = logger_levels.level_of("a.b")
    assert found is not None and found.level == "DEBUG"

    logger_levels.set_level("a.b", "ERROR")
    late = cluster.runtime()
    late.tick()
    found = logger_levels.level_of("a.b")
    assert found is not None and found.level == "ERROR"


def test_each_request_is_applied_once_and_in_order() -> None:
    applied: list[tuple[str, str]] = []
    follower = ClusterLevels(lambda name, level: applied.append((name, level)))
    config = ConfigSnapshot()
    follower.follow(config)
    follower.start(config)
    for offset, (name, level) in enumerate((("b", "INFO"), ("a", "WARN"), ("b", "INFO"))):
        made = config_topic.logger_record("c", name, level)
        record = LogRecord("c", 0, offset, 0, made.key, made.value)
        config = config_topic.reduce_all(config, [record])
        if offset:
            follower.follow(config)
            follower.follow(config)
    assert applied == [("b", "INFO"), ("a", "WARN"), ("b", "INFO")]
