"""Two runtimes of one group: the leader frozen, replaced, thawed; and one that ends in order."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from subprocess import Popen
from typing import Any

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from connect_runtime.kafka.log import KafkaLogs
from support import http
from support.broker import BrokerAddress
from support.lines import Account, Feeder, account, once
from support.processes import Process, frozen, of_session, process, task_processes
from support.rig import Rig, Tail, Up, committed_lines, lines_of
from support.wait import wait_until

LINES = 20_000

_WORKER = """\
bootstrap.servers={kafka}
group.id={group}
config.storage.topic={group}-configs
offset.storage.topic={group}-offsets
status.storage.topic={group}-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.flush.interval.ms=500
listeners={url}
exactly.once.source.support=enabled
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A `connect distributed` in the foreground."""

    at: Up
    command: Popen[str]

    @property
    def leads(self) -> bool:
        found = self.at.get("/runtime")
        return found is not None and found["leading"]

    @property
    def tasks(self) -> list[Process]:
        """The Python processes of its tasks."""
        return task_processes(of_session(self.command.pid))


def _start(rig: Rig, kafka: str) -> Runtime:
    url = f"http://{LOOPBACK}:{free_port()}"
    file = rig.folder / f"worker-{url.rpartition(':')[2]}.properties"
    file.write_text(_WORKER.format(kafka=kafka, group=rig.name, url=url))
    command = rig.start("distributed", file.name)
    return Runtime(Up(url, kafka, command.pid), command)


@pytest.fixture
def rig(
    broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory, unique: str
) -> Iterator[Rig]:
    """A project on the tests' Kafka. Nothing that was started in it may survive."""
    folder = tmp_path_factory.mktemp("failover") / "project"
    rig = Rig(folder, unique[-20:].lstrip("-"), broker.kafka)
    yield rig
    assert rig.end() == []


def test_failover(
    rig: Rig, broker: BrokerAddress, record_property: Callable[[str, object], None]
) -> None:
    kafka = broker.bootstrap_servers
    first = _start(rig, kafka)
    second = _start(rig, kafka)
    wait_until(lambda: first.leads or second.leads, what="one of the two to lead", timeout_s=60)
    old, new = (first, second) if first.leads else (second, first)
    wait_until(lambda: new.at.get("/health"), what="the standby to be healthy")

    infile = rig.source("read")
    outfile = rig.sink("write", "read")
    with Feeder(infile) as feeder:
        rig.source("read", topic=f"{rig.name}-read")
        rig.sink("write", f"{rig.name}-read")
        rig.apply()
        _standby_reads_and_forwards_writes(old, new)
        assert len(old.tasks) == 2

        status = Tail(kafka, rig.topics.status)
        driver = process(old.command.pid)
        assert driver is not None
        began = time.monotonic()
        with frozen([driver]):
            wait_until(lambda: new.leads, what="the standby to lead", timeout_s=20)
            record_property("standby_leads_after_s", round(time.monotonic() - began, 1))
            for name in ("read", "write"):
                status.wait_until_runs(name)
            record_property("standby_runs_all_after_s", round(time.monotonic() - began, 1))
        _the_old_leader_does_not_write(rig, old, new)
        wait_until(lambda: not old.tasks, what="the old one's tasks to end", timeout_s=15)
        assert not old.leads
        assert old.at.get("/runtime")["leader"] == new.at.url

        last = feeder.finish(LINES)
    _account(rig, kafka, last)

    began = time.monotonic()
    os.kill(new.command.pid, signal.SIGTERM)
    new.command.communicate(timeout=45)
    ended = time.monotonic()
    wait_until(lambda: old.leads, what="the standby to lead again", timeout_s=5)
    record_property("clean_stop_took_s", round(ended - began, 1))
    record_property("leads_after_clean_stop_s", round(time.monotonic() - ended, 1))
    assert new.command.returncode == 0
    with infile.open("a") as more:
        more.write("the end\n")
    wait_until(lambda: lines_of(outfile)[-1] == "the end", what="the last line", timeout_s=60)
    rig.assert_nothing_to_do()
    status.close()
    os.kill(old.command.pid, signal.SIGTERM)
    old.command.communicate(timeout=45)
    assert old.command.returncode == 0


def _standby_reads_and_forwards_writes(old: Runtime, new: Runtime) -> None:
    wait_until(
        lambda: new.at.get("/connectors/write/status") == old.at.get("/connectors/write/status"),
        what="both to tell the same",
    )
    assert sorted(new.at.get("/connectors")) == ["read", "write"]
    assert new.at.get("/runtime")["leader"] == old.at.url
    created = http.post(f"{new.at.url}/connectors", json=_stopped("kept"), timeout=30)
    assert created.status_code == 201
    assert created.headers["location"] == f"{new.at.url}/connectors/kept"
    assert "kept" in old.at.get("/connectors")
    assert http.delete(f"{new.at.url}/connectors/kept", timeout=30).status_code == 204
    assert "kept" not in old.at.get("/connectors")


def _the_old_leader_does_not_write(rig: Rig, old: Runtime, new: Runtime) -> None:
    """It forwards a write, or refuses it: it is done by the new one, once, or not at all."""
    answer = http.post(f"{old.at.url}/connectors", json=_stopped("late"), timeout=30)
    done = answer.status_code == 201
    assert done or 400 <= answer.status_code < 600, answer.text
    assert ("late" in new.at.get("/connectors")) == done
    logs = KafkaLogs({"bootstrap.servers": new.at.kafka})
    configs = logs.reader(rig.topics.config).read_to_end(30)
    logs.close()
    assert [record.key for record in configs].count(b"connector-late") == done
    if done:
        assert http.delete(f"{new.at.url}/connectors/late", timeout=30).status_code == 204


def _stopped(name: str) -> dict[str, Any]:
    config = {"connector.class": "FileStreamSource", "file": "none", "topic": name}
    return {"name": name, "config": config, "initial_state": "STOPPED"}


def _account(rig: Rig, kafka: str, last: int) -> None:
    outfile = rig.folder / "write.out"
    wait_until(
        lambda: account(lines_of(outfile), once(last)).lost == 0,
        what="all lines in the sink's file",
        timeout_s=60,
        every_s=0.5,
    )
    found = account(committed_lines(kafka, f"{rig.name}-read"), once(last))
    assert found == Account(found=last, lost=0, duplicated=0, torn=0, extra=0)
    assert account(lines_of(outfile), once(last)).extra == 0
