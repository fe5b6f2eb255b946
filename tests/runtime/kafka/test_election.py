"""Elections on a real broker: who leads, who takes over, and who knows that it lost."""

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import ConsumerGroupState

from connect_runtime.kafka import clients, election
from connect_runtime.kafka.election import Election, GroupTaken, Leader, find_leader
from connect_specs.diagnostics import Unreachable
from support.broker import BrokerAddress, create_topic
from support.oracle import Oracle
from support.wait import wait_until

CLOCK_SET = Path(__file__).parents[2] / "support" / "clock_set.c"
# Polls, and says on each change whether it leads.
_MEMBER = """
import sys
from connect_runtime.kafka import election
from connect_runtime.kafka.election import Election
servers, group, topic, identity = sys.argv[1:]
member = Election({"bootstrap.servers": servers}, group, topic, identity)
said = None
while True:
    member.poll(0.05)
    if member.leading != said:
        said = member.leading
        print(said, flush=True)
"""

Stand = Callable[[str], Election]


@pytest.fixture
def kafka(broker: BrokerAddress) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def topic(broker: BrokerAddress, unique: str) -> str:
    """A topic of one partition, named as the test's group."""
    create_topic(broker.bootstrap_servers, unique)
    return unique


@pytest.fixture
def stand(kafka: dict[str, str], topic: str) -> Iterator[Stand]:
    """Opens members that are closed when the test ends."""
    members: list[Election] = []

    def opened(identity: str) -> Election:
        members.append(Election(kafka, topic, topic, identity))
        return members[-1]

    yield opened
    for member in members:
        member.close()


def poll_all(*members: Election) -> list[bool]:
    for member in members:
        member.poll()
    return [member.leading for member in members]


def test_the_first_leads_and_a_second_does_not_take_over(
    kafka: dict[str, str], topic: str, stand: Stand
) -> None:
    first = stand("http://one:1")
    wait_until(lambda: poll_all(first) == [True], what="the first to lead")
    second = stand("http://two:2")
    joined = _members_counted(kafka, topic)

    def settled() -> bool:
        assert poll_all(first, second) == [True, False]
        return joined() == 2

    wait_until(settled, what="the second to join")
    assert first.term == 1
    assert find_leader(kafka, topic, topic, 5) == Leader("http://one:1", "127.0.0.1")


def test_a_group_whose_leader_leads_by_another_topic_belongs_to_another_cluster(
    kafka: dict[str, str], topic: str, stand: Stand
) -> None:
    """As with a worker file that was copied and given other topics: both would fence each other."""
    first = stand("http://one:1")
    wait_until(lambda: poll_all(first) == [True], what="the first to lead")
    with pytest.raises(GroupTaken, match=f"http://one:1, with {topic} in place of other"):
        find_leader(kafka, topic, "other", 5)


def test_closing_hands_over_at_once(kafka: dict[str, str], topic: str, stand: Stand) -> None:
    first = stand("http://one:1")
    wait_until(lambda: poll_all(first) == [True], what="the first to lead")
    second = stand("http://two:2")
    joined = _members_counted(kafka, topic)
    wait_until(lambda: poll_all(first, second) and joined() == 2, what="the second to join")
    first.close()
    assert not first.leading
    wait_until(lambda: poll_all(second) == [True], what="the second to lead", timeout_s=5)
    assert find_leader(kafka, topic, topic, 5) == Leader("http://two:2", "127.0.0.1")
    second.close()
    assert find_leader(kafka, topic, topic, 5) is None


def test_a_standby_that_closes_leaves_the_group_at_once(
    kafka: dict[str, str], topic: str, stand: Stand
) -> None:
    leader = stand("http://leads:8083")
    wait_until(lambda: poll_all(leader) == [True], what="a leader")
    standby = stand("http://stands-by:8083")
    members = _members_counted(kafka, topic)
    wait_until(lambda: poll_all(leader, standby) and members() == 2, what="two members")
    standby.close()
    # not only when the session of the member is over
    wait_until(
        lambda: poll_all(leader) == [True] and members() == 1, what="one member", timeout_s=3
    )


@contextmanager
def leading_process(
    kafka: dict[str, str], topic: str, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """The member `child`, in a process of its own, once it leads."""
    command = [sys.executable, "-c", _MEMBER, kafka["bootstrap.servers"], topic, topic, "child"]
    with subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            wait_until(lambda: said_by(child) == "True\n", what="the child to lead")
            yield child
        finally:
            child.kill()


def said_by(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def wait_for_two(kafka: dict[str, str], topic: str, standby: Election, what: str) -> None:
    joined = _members_counted(kafka, topic)
    wait_until(lambda: (poll_all(standby), joined())[1] == 2, what=what)


def test_a_frozen_leader_is_replaced_and_knows_it_when_it_wakes(
    kafka: dict[str, str], topic: str, stand: Stand
) -> None:
    with leading_process(kafka, topic) as child:
        standby = stand("standby")
        wait_for_two(kafka, topic, standby, "the standby to join")
        os.kill(child.pid, signal.SIGSTOP)
        wait_until(lambda: poll_all(standby) == [True], what="the standby to lead", timeout_s=12)
        os.kill(child.pid, signal.SIGCONT)
        assert said_by(child) == "False\n"
        wait_for_two(kafka, topic, standby, "the child to join again")
        assert poll_all(standby) == [True]
        assert standby.term == 1


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_leader_whose_clock_is_set_back_keeps_leading(
    kafka: dict[str, str], topic: str, stand: Stand, tmp_path: Path
) -> None:
    """By a minute, for which librdkafka's own waits last longer."""
    library, set_by = tmp_path / "clock_set.so", tmp_path / "set-by"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, CLOCK_SET, "-ldl"], check=True)
    set_by.write_bytes(struct.pack("q", 0))
    preloaded = {"LD_PRELOAD": str(library), "CLOCK_SET": str(set_by)}
    with leading_process(kafka, topic, **preloaded):
        standby = stand("standby")
        wait_for_two(kafka, topic, standby, "the standby to join")
        with set_by.open("r+b") as file:
            file.write(struct.pack("q", -60))
        standby.poll(15)
        assert not standby.leading
        assert find_leader(kafka, topic, topic, 5) == Leader("child", "127.0.0.1")


def test_a_member_that_closes_waits_for_no_coordinator(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would ask without a pause until its time is over."""
    member = stand("closing")
    wait_until(lambda: poll_all(member) == [True], what="the member to lead")
    asked: list[float] = []
    member.close()
    monkeypatch.setattr(member, "_poll", asked.append)
    monkeypatch.setattr(member, "_consumer", SimpleNamespace(commit=lambda **_: None))
    assert not member._is_still_member()
    assert asked == []


def test_an_owner_that_is_busy_keeps_leading(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(election._SETTINGS, "max.poll.interval.ms", 6_000)
    busy = stand("busy")
    wait_until(lambda: poll_all(busy) == [True], what="the member to lead")
    standby = stand("standby")
    standby.poll(9)
    assert (busy.leading, standby.leading) == (True, False)
    assert busy.term == 1


def test_an_owner_that_is_stuck_stops_leading_and_is_replaced(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its thread gets little of a processor, and polls a second later than it wants."""
    monkeypatch.setattr(election, "_OWNER_S", 1.0)
    monkeypatch.setattr(election, "_SLICE_S", 0.9)
    monkeypatch.setitem(election._SETTINGS, "max.poll.interval.ms", 6_000)
    stuck = stand("stuck")
    wait_until(lambda: poll_all(stuck) == [True], what="the member to lead")
    wait_until(lambda: not stuck.leading, what="the member to doubt", timeout_s=5)
    stuck.poll()
    assert stuck.leading, "it is still a member"
    standby = stand("standby")
    wait_until(lambda: poll_all(standby) == [True], what="the standby to lead")
    for _ in range(30):
        assert poll_all(stuck, standby) == [False, True]
        stuck.poll(0.05)


def test_a_member_does_not_lead_until_the_coordinator_has_answered(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = stand("doubting")
    wait_until(lambda: poll_all(member) == [True], what="the member to lead")
    with monkeypatch.context() as patched:
        patched.setattr(member, "_is_still_member", lambda: None)
        member._polled -= election._SESSION_S
        for _ in range(10):
            member.poll(0.05)
            assert not member.leading
    wait_until(lambda: poll_all(member) == [True], what="the member to lead again")
    assert member.term == 1


def test_an_error_on_the_thread_is_raised_to_the_owner_and_the_member_goes_on(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = stand("unlucky")
    wait_until(lambda: poll_all(member) == [True], what="the member to lead")
    with monkeypatch.context() as patched:
        patched.setattr(member, "_serve", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            wait_until(lambda: member.poll(0.05), what="the error")
    wait_until(lambda: not member.poll() and member.leading, what="the member to go on")
    assert member.term == 1


def test_a_group_of_apaches_workers_is_refused(kafka: dict[str, str], oracle: Oracle) -> None:
    groups = clients.admin(kafka).list_groups
    wait_until(
        lambda: any(group.members for group in groups(oracle.group_id, timeout=10)),
        what="the worker to join its group",
    )
    with pytest.raises(Unreachable, match="Kafka Connect cluster of Apache's"):
        find_leader(kafka, oracle.group_id, oracle.config_topic, 5)
    member = Election(kafka, oracle.group_id, oracle.config_topic, "ours")
    try:
        with pytest.raises(Unreachable, match="Kafka Connect cluster of Apache's"):
            wait_until(lambda: member.poll(0.05), what="a refusal")
    finally:
        member.close()


def test_nobody_leads_where_nobody_stands(kafka: dict[str, str], unique: str) -> None:
    assert find_leader(kafka, unique, unique, 5) is None


def _members_counted(kafka: dict[str, str], group: str) -> Callable[[], int]:
    """Counts the members of a group that has settled, 0 while it has not."""
    client = clients.admin(kafka)

    def count() -> int:
        found = client.describe_consumer_groups([group])[group].result()
        return len(found.members) if found.state is ConsumerGroupState.STABLE else 0

    return count
