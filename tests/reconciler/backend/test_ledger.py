"""The ledger's pen, on logs in memory and on a real broker."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from connect_reconciler.backend.lease import LeaseLost, taken_over
from connect_reconciler.backend.ledger import Ledger, NotRecorded, read_ledger
from connect_reconciler.ledger.journal import Ending, Journal, JournalEntry, snapshot_records
from connect_reconciler.model.ledger import (
    AppliedPin,
    ConnectorSnapshot,
    HalfDone,
    Owned,
    Unfinished,
)
from connect_reconciler.model.ledger_records import owned_record, pin_record
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.log import Logs
from connect_runtime.storage.memory import MemoryLogs
from support.broker import BrokerAddress
from support.projects import project_of

JOURNAL = Journal("one", "orders", "me@here pid 1", 5, 2)
STEP = JournalEntry(1, "a", "Stop")
OWNED = Owned("orders", {"name": "a"}, None)


@pytest.fixture(params=["memory", "kafka"])
def logs(request: pytest.FixtureRequest, broker: BrokerAddress) -> Iterator[Logs]:
    if request.param == "memory":
        opened: Logs = MemoryLogs()
    else:
        opened = KafkaLogs({"bootstrap.servers": broker.bootstrap_servers})
    yield opened
    opened.close()


@pytest.fixture
def topic(unique: str) -> str:
    return f"{unique}-ledger"


def test_what_was_written_is_there_for_the_next(logs: Logs, topic: str, unique: str) -> None:
    ledger = Ledger.open(logs, topic, unique)
    ledger.begin(JOURNAL, new_fingerprint_key=b"key")
    ledger.started(STEP, [owned_record(topic, "a", OWNED)])
    ledger.done(STEP, [pin_record(topic, "a", "p", AppliedPin("h", None))])
    assert ledger.snapshot == read_ledger(logs, topic)
    assert ledger.state.connectors == {"a": OWNED}
    assert ledger.state.pins == {("a", "p"): AppliedPin("h", None)}
    assert ledger.state.fingerprint_key == b"key"
    assert ledger.state.unfinished == (Unfinished("one", JOURNAL.by, project="orders"),)
    assert ledger.snapshot.steps("one") == (replace(STEP, end="done"),)
    ledger.finish(Ending.DONE, exit_code=0, now_ms=9)
    found = read_ledger(logs, topic)
    assert found.state.unfinished == ()
    assert found.applies["one"] == replace(JOURNAL, ending=Ending.DONE, exit_code=0, ended_ms=9)
    ledger.close()


def test_a_taken_over_apply_writes_nothing_more(logs: Logs, topic: str, unique: str) -> None:
    first = Ledger.open(logs, topic, unique)
    first.begin(JOURNAL, new_fingerprint_key=b"key")
    second = Ledger.open(logs, topic, unique)
    with pytest.raises(LeaseLost):
        first.started(STEP, [owned_record(topic, "a", OWNED)])
    assert read_ledger(logs, topic).state.connectors == {}
    second.begin(replace(JOURNAL, id="two"), new_fingerprint_key=b"other")
    found = read_ledger(logs, topic)
    assert found.applies["one"].ending is Ending.INTERRUPTED
    assert [each.id for each in found.state.unfinished] == ["two"]
    assert found.state.fingerprint_key == b"key"
    first.close()
    second.close()


def test_a_takeover_fences_the_ledger_before_it_is_opened(
    broker: BrokerAddress, topic: str, unique: str
) -> None:
    """The apply before may hang, and never see that it has a rival."""
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    logs = KafkaLogs(kafka)
    first = Ledger.open(logs, topic, unique)
    first.begin(JOURNAL, new_fingerprint_key=b"key")
    with taken_over(project_of(unique), kafka, print) as lease:
        with pytest.raises(LeaseLost):
            first.started(STEP, [owned_record(topic, "a", OWNED)])
        lease.keep()
    first.close()
    logs.close()


def test_a_key_of_the_users_own_is_not_replaced(logs: Logs, topic: str, unique: str) -> None:
    ledger = Ledger.open(logs, topic, unique)
    ledger.begin(JOURNAL, new_fingerprint_key=None)
    assert ledger.state.fingerprint_key is None
    ledger.close()


def test_old_journals_go(topic: str, unique: str) -> None:
    """Each project on the cluster keeps its own: another one's applies push none out, and do not
    say of one that is unfinished how it ended."""
    logs = MemoryLogs()
    other = Ledger.open(logs, topic, unique)
    other.begin(replace(JOURNAL, id="another", project="other"), new_fingerprint_key=None)
    for number in range(30):
        ledger = Ledger.open(logs, topic, unique)
        journal = replace(JOURNAL, id=f"apply-{number:02}", since_ms=number)
        ledger.begin(journal, new_fingerprint_key=b"key")
        past = snapshot_records(topic, journal.id, "a", ConnectorSnapshot(None))
        ledger.started(STEP, [*past])
        ledger.done(STEP)
        ledger.finish(Ending.DONE, exit_code=0, now_ms=number)
    kept = read_ledger(logs, topic)
    found = [each.id for each in kept.of_project("orders")]
    assert found == [f"apply-{number:02}" for number in range(10, 30)]
    assert kept.raw_steps.keys() == kept.raw_snapshots.keys() == set(found)
    assert [each.id for each in kept.state.unfinished] == ["another"]


def test_several_connectors_are_under_way(logs: Logs, topic: str, unique: str) -> None:
    """Each of many threads finds in the topic what it was told is there."""
    ledger = Ledger.open(logs, topic, unique)
    ledger.begin(JOURNAL, new_fingerprint_key=None)
    names = [f"c{number}" for number in range(24)]

    def work(name: str) -> None:
        step = JournalEntry(1, name, "Stop")
        ledger.started(step, [owned_record(topic, name, OWNED)])
        assert ledger.state.connectors[name] == OWNED
        if name != "c7":
            ledger.done(step, [pin_record(topic, name, "p", AppliedPin("h", None))])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, names))
    found = read_ledger(logs, topic)
    assert found == ledger.snapshot
    assert sorted(found.state.pins) == sorted((name, "p") for name in names if name != "c7")
    assert found.state.unfinished[0].steps == (HalfDone("c7", "Stop"),)
    ledger.close()


def test_a_ledger_that_cannot_be_written_says_so(topic: str, unique: str) -> None:
    logs = MemoryLogs()
    ledger = Ledger.open(logs, topic, unique)
    ledger.begin(JOURNAL, new_fingerprint_key=None)
    ledger.close()
    with pytest.raises(NotRecorded):
        ledger.started(STEP)
