"""Offsets of consumer groups on a real broker: moved, deleted one by one, and in use."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from connect_runtime.kafka import groups
from connect_runtime.kafka.election import Election
from connect_runtime.kafka.groups import (
    GroupActive,
    SinkGroups,
    alter_group_offsets,
    delete_group,
    delete_group_offsets,
    list_group_offsets,
    list_offsets_of_groups,
)
from connect_runtime.kafka.local_processes import free_port
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_specs.diagnostics import Failed
from support.broker import BrokerAddress, create_topic
from support.kafka_proxy import KafkaProxy
from support.wait import wait_until


@pytest.fixture
def kafka(broker: BrokerAddress) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def topic(broker: BrokerAddress, unique: str) -> str:
    """A topic of two partitions, named as the test's group."""
    create_topic(broker.bootstrap_servers, unique, partitions=2)
    return unique


@pytest.fixture
def active_group(kafka: dict[str, str], topic: str) -> Iterator[str]:
    alter_group_offsets(kafka, topic, {(topic, 0): 5})
    member = Election(kafka, topic, topic, "member")
    wait_until(lambda: member.poll(0.05) or member.leading, what="the member to join")
    yield topic
    member.close()


def test_a_group_that_never_was_has_no_offsets(kafka: dict[str, str], unique: str) -> None:
    assert list_group_offsets(kafka, unique) == {}
    assert list_offsets_of_groups(kafka, [unique, f"{unique}-2"]) == {unique: {}, f"{unique}-2": {}}


def test_offsets_are_set_and_one_of_them_is_deleted(kafka: dict[str, str], topic: str) -> None:
    alter_group_offsets(kafka, topic, {(topic, 0): 5, (topic, 1): 7})
    assert list_group_offsets(kafka, topic) == {(topic, 0): 5, (topic, 1): 7}
    for _ in range(2):
        delete_group_offsets(kafka, topic, [(topic, 0)])
        assert list_group_offsets(kafka, topic) == {(topic, 1): 7}
    alter_group_offsets(kafka, topic, {(topic, 1): 8})
    alter_group_offsets(kafka, topic, {})
    delete_group_offsets(kafka, topic, [])
    assert list_group_offsets(kafka, topic) == {(topic, 1): 8}


def test_a_group_is_deleted_and_deleted_again(kafka: dict[str, str], topic: str) -> None:
    alter_group_offsets(kafka, topic, {(topic, 0): 5})
    for _ in range(2):
        delete_group(kafka, topic)
        assert list_group_offsets(kafka, topic) == {}
    delete_group_offsets(kafka, topic, [(topic, 0)])


def test_what_does_not_exist_is_an_error(kafka: dict[str, str], topic: str) -> None:
    for partition in ((topic, 9), (f"no-{topic}", 0)):
        with pytest.raises(Failed) as caught:
            alter_group_offsets(kafka, topic, {partition: 1})
        assert not isinstance(caught.value, GroupActive)
    for refused in ((topic, -1), ("", 0)):
        with pytest.raises(Failed, match="The offsets cannot be altered"):
            alter_group_offsets(kafka, topic, {refused: 1})
    with pytest.raises(Failed, match="Offsets are 0 or greater"):
        alter_group_offsets(kafka, topic, {(topic, 0): -1})


def test_a_group_with_members_is_left_alone(kafka: dict[str, str], active_group: str) -> None:
    at = (active_group, 0)
    with pytest.raises(GroupActive):
        alter_group_offsets(kafka, active_group, {at: 1})
    with pytest.raises(GroupActive):
        delete_group_offsets(kafka, active_group, [at])
    with pytest.raises(GroupActive):
        delete_group(kafka, active_group)
    assert list_group_offsets(kafka, active_group) == {at: 5}


def sink_of(kafka: dict[str, str], group: str) -> ConnectorClients:
    """A sink that reads in this group."""
    config = {"consumer.override.group.id": group}
    return ConnectorClients("workers", "offsets", kafka, "sink", config, "sink")


def test_a_connectors_offsets_are_moved_once_its_last_member_has_left(
    kafka: dict[str, str], topic: str
) -> None:
    member = Election(kafka, topic, topic, "member")
    wait_until(lambda: member.poll(0.05) or member.leading, what="the member to join")
    leaving = threading.Timer(1.0, member.close)
    leaving.start()
    ours, sink = SinkGroups(), sink_of(kafka, topic)
    ours.alter(sink, {(topic, 0): 5})
    leaving.join()
    assert ours.offsets(sink) == {(topic, 0): 5}
    ours.forget(sink, [(topic, 0)])
    assert ours.offsets(sink) == {}


def test_members_that_stay_are_an_error_and_other_reasons_are_logged(
    kafka: dict[str, str],
    active_group: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(groups, "_LEAVING_S", 0.5)
    ours, sink = SinkGroups(), sink_of(kafka, active_group)
    for move in (
        lambda: ours.alter(sink, {(active_group, 0): 1}),
        lambda: ours.forget(sink, [(active_group, 0)]),
        lambda: ours.delete(sink),
    ):
        with pytest.raises(GroupActive):
            move()
    with pytest.raises(Failed):
        ours.alter(sink_of(kafka, f"{active_group}-2"), {(active_group, 9): 1})
    assert "Unknown topic or partition" in caplog.text


_ASKED_TWICE = """
import sys
from connect_runtime.kafka import groups, librdkafka
from connect_specs.diagnostics import Unreachable
kafka, group = {"bootstrap.servers": sys.argv[1]}, sys.argv[2]
librdkafka._WAIT_S = patient_s = 0.3
groups._REQUEST_S, patient_s = patient_s, groups._REQUEST_S
try:
    groups.list_group_offsets(kafka, group)
except Unreachable as error:
    kept = error
    print("unreachable", flush=True)
sys.stdin.readline()
groups._REQUEST_S = patient_s
print(groups.list_group_offsets(kafka, group))
"""


def test_a_coordinator_that_answers_too_late_ends_nobody(
    broker: BrokerAddress, unique: str
) -> None:
    """As after a restart of Kafka. librdkafka aborts a process in which the client of a request
    that timed out still lives."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with KafkaProxy(free_port(), port) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        command = [sys.executable, "-c", _ASKED_TWICE, address, unique]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as asking:
            assert asking.stdin is not None
            assert asking.stdout is not None
            with proxy.cut():
                assert asking.stdout.readline() == "unreachable\n"
            told, _ = asking.communicate("go on\n", timeout=60)
    assert (asking.returncode, told) == (0, "{}\n")
