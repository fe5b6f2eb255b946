"""Topics against REST: each kind of difference is found once, and what moves by itself is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from connect_reconciler.backend import open_backend
from connect_reconciler.doctor.checks import (
    ClusterInTopics,
    ClusterOverRest,
    TopicFacts,
    check_topics,
    check_version,
    compare,
    failed,
    left_over,
    read_by_strangers,
    record_locations,
    running_with_errors,
    scattered_offsets,
    unreadable,
)
from connect_reconciler.doctor.look import examine
from connect_reconciler.model.live import GroupMember
from connect_reconciler.model.offsets import Offsets
from connect_runtime import KAFKA_VERSION
from connect_runtime.herder.verbs import ConnectorInfo, ConnectorStatus, InstanceStatus
from connect_runtime.storage import config_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.offsets_topic import offset_records
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    ConnectorState,
    OffsetSnapshot,
    State,
    Status,
    StatusSnapshot,
    TaskId,
)
from connect_specs.desired import OffsetEntry, RestTarget, TargetState
from support.applying import PROJECT

CONFIG = {"name": "a", "connector.class": "X", "db.password": "hunter2"}
AT = OffsetEntry({"p": 1}, {"o": 7})
RECORD = config_topic.connector_record("configs", "a", CONFIG)
PLACES = record_locations([LogRecord("configs", 0, 17, 0, RECORD.key, RECORD.value)], [])

TOPICS = ClusterInTopics(
    cluster_id="k",
    brokers=1,
    topics={},
    config=ConfigSnapshot({"a": ConnectorState("a", CONFIG, TargetState.STOPPED)}),
    status=StatusSnapshot({"a": Status(State.STOPPED, "w", 1)}),
    sinks=frozenset(),
    offsets={"a": Offsets((AT,))},
    places=PLACES,
)
REST = ClusterOverRest(
    version=KAFKA_VERSION,
    cluster_id="k",
    infos={"a": ConnectorInfo("a", CONFIG, (), "source")},
    statuses={"a": ConnectorStatus("a", InstanceStatus(State.STOPPED, "w"), {}, "source")},
    offsets={"a": Offsets((AT,))},
)


def info(**config: str) -> dict[str, ConnectorInfo]:
    return {"a": ConnectorInfo("a", CONFIG | config, (), "source")}


def status(connector: State, *tasks: State) -> dict[str, ConnectorStatus]:
    parts = {number: InstanceStatus(state, "w") for number, state in enumerate(tasks)}
    return {"a": ConnectorStatus("a", InstanceStatus(connector, "w"), parts, "source")}


def test_a_sink_that_shares_its_group_with_strangers_is_an_error() -> None:
    """Both of two clusters say that their sink runs, and each gets a part of the records."""
    topics = replace(TOPICS, strangers={"a": (GroupMember("connector-consumer-a-0", "/10.0.0.1"),)})
    (found,) = read_by_strangers(topics)
    assert (found.code, found.severity) == ("doctor.group-members", "error")
    assert "connector-consumer-a-0 at 10.0.0.1" in found.what


def test_an_offset_in_two_partitions_of_the_topic_is_found() -> None:
    """The trap: partitions were added to the topic, and the older offset is read last."""

    def record(number: int, at: int, offset: int | None) -> LogRecord:
        value = None if offset is None else {"o": offset}
        (made,) = offset_records("offsets", "a", [({"p": 1}, value)], OffsetSnapshot())
        return LogRecord("offsets", number, at, 0, made.key, made.value)

    def found(*records: LogRecord) -> list[tuple[str, str]]:
        side = replace(TOPICS, offset_records=records)
        return [(each.severity, each.what) for each in scattered_offsets(side)]

    assert found(record(3, 1, 7), record(3, 2, 8)) == []
    assert found(record(3, 1, 7), record(3, 2, None), record(5, 0, 8)) == []
    ((severity, what),) = found(record(3, 1, 7), record(5, 0, 8))
    assert severity == "error"
    assert "offsets-3, offset 1 and offsets-5, offset 0" in what
    assert [each[0] for each in found(record(3, 1, 7), record(5, 0, 7))] == ["warning"]


def codes(topics: ClusterInTopics, rest: ClusterOverRest) -> list[str]:
    return [finding.code for finding in compare(topics, rest)]


def test_two_sides_that_agree() -> None:
    assert codes(TOPICS, REST) == []


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        (replace(REST, cluster_id="other"), ["doctor.other-kafka"]),
        (replace(REST, infos={}), ["doctor.only-in-topic"]),
        (replace(REST, infos=info(topic="t")), ["doctor.config"]),
        (replace(REST, infos=info(**{"db.password": "****"})), []),
        (replace(REST, statuses={}), ["doctor.status"]),
        (replace(REST, statuses=status(State.RUNNING)), ["doctor.target", "doctor.status"]),
        (replace(REST, statuses=status(State.FAILED)), ["doctor.status"]),
        (replace(REST, offsets={"a": Offsets()}), ["doctor.offset"]),
        (replace(REST, offsets={}), []),
    ],
)
def test_each_difference(rest: ClusterOverRest, found: list[str]) -> None:
    """What topics and REST say of one thing, cross-checked."""
    assert codes(TOPICS, rest) == found


def test_what_only_rest_tells_of() -> None:
    other = replace(TOPICS, config=ConfigSnapshot({"b": ConnectorState("b", {"name": "b"})}))
    assert codes(other, REST) == ["doctor.only-in-topic", "doctor.only-in-rest"]
    assert codes(replace(TOPICS, config=ConfigSnapshot()), REST) == ["doctor.other-topics"]


def test_a_task_that_is_another_one() -> None:
    tasks = {TaskId("a", 0): Status(State.RUNNING, "w", 1)}
    topics = replace(
        TOPICS,
        config=ConfigSnapshot({"a": ConnectorState("a", CONFIG)}),
        status=StatusSnapshot({"a": Status(State.RUNNING, "w", 1)}, tasks),
    )
    rest = replace(REST, statuses=status(State.RUNNING, State.FAILED))
    assert codes(topics, rest) == ["doctor.status"]
    assert codes(topics, replace(REST, statuses=status(State.RUNNING, State.RUNNING))) == []
    (finding,) = failed(rest)
    assert (finding.severity, finding.code) == ("warning", "doctor.failed")
    assert finding.what == "task 0 failed"


def test_what_runs_with_an_error_is_told() -> None:
    away = InstanceStatus(State.RUNNING, "w", "Traceback (most recent call last):\nX: away")
    tasks = {0: InstanceStatus(State.RUNNING, "w"), 1: replace(away, trace="Y: no")}
    runs = {"a": ConnectorStatus("a", away, tasks, "source")}
    found = list(running_with_errors(replace(REST, statuses=runs)))
    assert {(each.severity, each.code) for each in found} == {
        ("warning", "doctor.running-with-error")
    }
    assert [each.what for each in found] == [
        "the connector runs with an error: X: away",
        "task 1 runs with an error: Y: no",
    ]
    waits = InstanceStatus(State.UNASSIGNED, "w", "it waits for a slot")
    rest = {"a": ConnectorStatus("a", waits, {}, "source")}
    assert not list(running_with_errors(replace(REST, statuses=rest)))


def test_a_difference_names_its_record_and_no_value() -> None:
    (finding,) = compare(TOPICS, replace(REST, infos=info(**{"db.password": "other"})))
    assert finding.where == "configs-0, offset 17"
    assert "db.password" in finding.what
    assert "hunter2" not in repr(finding) and "other'" not in repr(finding)


def test_statuses_that_are_left_over() -> None:
    state = ConnectorState("a", CONFIG, inconsistent=True)
    tasks = {TaskId("gone", 0): Status(State.RUNNING, "w", 1)}
    side = replace(TOPICS, config=ConfigSnapshot({"a": state}), status=StatusSnapshot(tasks=tasks))
    assert [(each.severity, each.code) for each in left_over(side)] == [
        ("warning", "doctor.orphan-status"),
        ("error", "doctor.inconsistent"),
    ]


def test_offsets_that_could_not_be_read_are_a_warning_with_the_reason() -> None:
    (finding,) = unreadable(replace(TOPICS, unknown={"b": "Connection refused"}))
    assert (finding.severity, finding.code) == ("warning", "doctor.offsets-unknown")
    assert (finding.what, finding.why) == (
        "the offsets of b could not be read",
        "Connection refused",
    )
    assert list(unreadable(TOPICS)) == []


LEDGER = (PROJECT.topics.ledger, TopicFacts(PROJECT.topics.ledger, 1, 1, "compact"))


def facts(kind: str, **changes: object) -> Callable[[], ClusterInTopics]:
    def made() -> ClusterInTopics:
        names = PROJECT.topics
        good = {
            each: TopicFacts(each, 1, 3, "compact")
            for each in (names.config, names.offsets, names.status)
        }
        name = getattr(names, kind)
        good[name] = replace(good.get(name, TopicFacts(name, 1, 3, "compact")), **changes)
        return replace(TOPICS, brokers=3, topics=good)

    return made


@pytest.mark.parametrize(
    ("side", "found"),
    [
        (facts("config"), []),
        (facts("config", policy=""), []),
        (facts("status", policy="delete"), ["doctor.not-compacted"]),
        (facts("status", offline=(1, 2)), ["doctor.offline"]),
        (facts("config", policy="compact,delete"), ["doctor.not-compacted"]),
        (facts("config", partitions=2), ["doctor.partitions"]),
        (facts("offsets", partitions=25), []),
        (facts("ledger", partitions=2), ["doctor.partitions"]),
        (facts("offsets", replication=1), ["doctor.replication"]),
        (lambda: replace(TOPICS, topics={}), ["doctor.new-cluster"]),
        (lambda: replace(TOPICS, topics=dict([LEDGER])), ["doctor.no-topic"] * 3),
    ],
)
def test_topics_as_they_must_be(side: Callable[[], ClusterInTopics], found: list[str]) -> None:
    assert [each.code for each in check_topics(PROJECT, side())] == found


def test_a_cluster_of_apaches_has_topics() -> None:
    project = replace(PROJECT, target=RestTarget("http://connect:8083"))
    found = [each.code for each in check_topics(project, replace(TOPICS, topics={}))]
    assert found == ["doctor.no-topic"] * 3


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("3.6.0", []),
        ("4.3.1", []),
        ("3.5.2", [("error", "doctor.old-connect")]),
        ("5.0.0", [("warning", "doctor.version")]),
        ("", [("warning", "doctor.version")]),
    ],
)
def test_versions(version: str, found: list[tuple[str, str]]) -> None:
    assert [(each.severity, each.code) for each in check_version(version, "g")] == found


def test_a_certificate_that_cannot_be_used_is_reported_over_rest_alone() -> None:
    target = RestTarget("https://connect.test:8083", ca_file=Path("/missing.pem"))
    report = examine(open_backend(replace(PROJECT, target=target), {}))
    assert [each.code for each in report.findings] == ["cluster.bad-certificate"]
    assert not report.healthy
