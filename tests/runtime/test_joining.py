"""Who leads, asked of a Kafka that answers and of one that does not."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from confluent_kafka import KafkaError

from connect_runtime import joining
from connect_runtime.joining import LeaderLookup, find_cluster, find_kafka
from connect_runtime.kafka.election import Leader as Member
from connect_runtime.kafka.errors import as_failure
from connect_runtime.settings.worker_config import from_properties
from connect_specs.diagnostics import Diagnostic, Unreachable
from support.wait import wait_until

WORKER = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "g",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    **{f"{kind}.storage.topic": f"g-{kind}" for kind in ("config", "offset", "status")},
}


class Kafka:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.leader: Member | None = Member("http://a:1", "127.0.0.1")
        self.asked = 0

    def __call__(self, *_: object) -> Member | None:
        self.asked += 1
        if not self.answers.wait(30):
            raise Unreachable(Diagnostic("test", "Kafka is frozen"))
        return self.leader


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    found = Kafka()
    monkeypatch.setattr(joining, "find_leader", found)
    return found


class Starting:
    """A Kafka that answers the second time. Notes how long it was waited for."""

    def __init__(self, code: str) -> None:
        self.waits: list[float] = []
        self._code = code

    def __call__(self, _: object, timeout_s: float) -> str:
        self.waits.append(timeout_s)
        if len(self.waits) == 1:
            raise Unreachable(Diagnostic(self._code, "Kafka cannot be reached", "k:1", "refused"))
        return "its id"


def test_a_worker_waits_for_a_kafka_that_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = {
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "bootstrap.servers": "localhost:9092",
        "offset.storage.file.filename": "/tmp/x",
        "default.api.timeout.ms": "30000",
    }
    config, _ = from_properties(given, standalone=True)
    # a command that ran in this process shows it itself
    monkeypatch.setattr(logging.getLogger("connect.waits"), "propagate", True)
    monkeypatch.setattr(joining, "check_reachable", kafka := Starting("kafka.unreachable"))
    assert find_kafka(config) == "its id"
    assert kafka.waits[0] == 3
    assert 25 < kafka.waits[1] <= 30
    assert "Kafka cannot be reached at k:1 (refused); waiting up to 30 s for it" in caplog.text
    # what does not pass by itself is told at once
    monkeypatch.setattr(joining, "check_reachable", Starting("kafka.authentication"))
    with pytest.raises(Unreachable):
        find_kafka(config)


class StartingGroups:
    """A Kafka whose group coordinator is there the third time."""

    def __init__(self, error: KafkaError) -> None:
        self.asked = 0
        self._error = error

    def __call__(self, *_: object) -> None:
        self.asked += 1
        if self.asked < 3:
            raise as_failure(self._error, "The group cannot be read", "g")


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError._TIMED_OUT,
    ],
)
def test_a_worker_waits_for_the_coordinators_of_a_kafka_that_starts(
    code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config, _ = from_properties(WORKER)
    monkeypatch.setattr(logging.getLogger("connect.waits"), "propagate", True)
    monkeypatch.setattr(joining, "check_reachable", lambda *_: "its id")
    monkeypatch.setattr(joining, "find_leader", groups := StartingGroups(KafkaError(code)))
    assert find_cluster(config) == "its id"
    assert groups.asked == 3
    # more than one handler may have the same record
    waits = {id(each) for each in caplog.records if "The group cannot" in each.getMessage()}
    assert len(waits) == 1
    # no longer than for a Kafka that does not answer
    config, _ = from_properties(WORKER | {"default.api.timeout.ms": "1"})
    monkeypatch.setattr(joining, "find_leader", StartingGroups(KafkaError(code)))
    with pytest.raises(Unreachable, match="The group cannot be read"):
        find_cluster(config)


def test_a_worker_does_not_wait_for_a_right(monkeypatch: pytest.MonkeyPatch) -> None:
    config, _ = from_properties(WORKER)
    denied = StartingGroups(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    monkeypatch.setattr(joining, "check_reachable", lambda *_: "its id")
    monkeypatch.setattr(joining, "find_leader", denied)
    with pytest.raises(Unreachable, match="The group cannot be read"):
        find_cluster(config)
    assert denied.asked == 1


def test_an_answer_of_kafka_is_waited_for(kafka: Kafka) -> None:
    kafka.answers.set()
    assert LeaderLookup({}, "g", "c")() == "http://a:1"


def test_a_frozen_kafka_delays_callers_only_briefly(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = LeaderLookup({}, "g", "c")
    begun = time.monotonic()
    for _ in range(20):
        assert leader() is None
    # one second for each would be 20
    assert time.monotonic() - begun < 15
    assert kafka.asked == 1
    kafka.answers.set()
    wait_until(leader, what="the leader")
    # what was known counts for a while
    monkeypatch.setattr(joining, "_FRESH_S", 0.0)
    kafka.answers.clear()
    assert leader() == "http://a:1"
    monkeypatch.setattr(joining, "_STALE_S", 0.0)
    assert leader() is None
    kafka.answers.set()


def test_what_cannot_be_asked_is_not_known(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Unreachable(Diagnostic("test", "refused"))

    monkeypatch.setattr(joining, "find_leader", refuse)
    assert LeaderLookup({}, "g", "c")() is None
