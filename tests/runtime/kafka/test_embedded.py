"""The embedded broker: adopted while it lives, else started again on the same data."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.embedded import (
    BrokerError,
    BrokerRecord,
    EmbeddedBroker,
    class_archive,
    find_broker,
)
from connect_runtime.kafka.local_processes import end_process, is_alive, start_time
from connect_runtime.kafka.log import KafkaLogs
from connect_specs.diagnostics import Unreachable
from support.broker import BrokerAddress, cluster_at, create_topic, produce, read_to_end
from support.wait import wait_until

_STARTER = (
    "import sys, signal; from pathlib import Path;"
    "from connect_runtime.kafka.embedded import EmbeddedBroker;"
    "broker = EmbeddedBroker.start(Path(sys.argv[1]));"
    "print(broker.pid, flush=True); signal.pause()"
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A broker's folder; a broker that a test leaves running there is ended."""
    yield tmp_path
    left = find_broker(tmp_path) if (tmp_path / "data").exists() else None
    if left is not None:
        end_process(left.pid, left.started, patience_s=5)


def _write(folder: Path, record: BrokerRecord) -> None:
    (folder / "broker.json").write_text(json.dumps(asdict(record)))


@pytest.fixture
def umask() -> Iterator[None]:
    """The usual one, with which everybody could read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def _open_to_others(folder: Path) -> list[str]:
    found = (folder, *folder.rglob("*"))
    return [str(each) for each in found if each.lstat().st_mode & 0o077]


def test_a_broker_outlives_its_killed_starter_and_keeps_its_port_and_data(
    folder: Path, broker: BrokerAddress, umask: None
) -> None:
    """Nobody else can read its files, also those that everybody could read before."""
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    starter.kill()
    starter.communicate()

    adopted = EmbeddedBroker.start(folder)
    assert (adopted.adopted, adopted.pid) == (True, pid)
    with pytest.raises(BrokerError, match=r"runs on port .*, not 19999") as caught:
        EmbeddedBroker.start(folder, port=19999)
    assert str(pid) in caught.value.diagnostics[0].hint
    create_topic(adopted.bootstrap_servers, "kept")
    produce(adopted.bootstrap_servers, "kept", [(b"k", b"v")])
    logs = KafkaLogs({"bootstrap.servers": adopted.bootstrap_servers})
    reader = logs.reader("kept")
    assert len(reader.read_to_end(10)) == 1
    assert not reader.led_anew
    kept = folder / "data" / "kept-0"
    assert kept.is_dir()
    assert _open_to_others(folder) == []

    os.kill(adopted.pid, signal.SIGKILL)
    wait_until(lambda: find_broker(folder) is None, what="the broker to be gone")
    for each in (folder, folder / "data", kept):
        each.chmod(0o755)
    for each in kept.iterdir():
        each.chmod(0o644)
    again = EmbeddedBroker.start(folder)
    assert not again.adopted
    assert _open_to_others(folder) == []
    if sys.platform == "linux":  # `make test` makes the archive
        maps = Path(f"/proc/{again.pid}/maps").read_text()
        assert ("/class-archives/broker-" in maps) == bool(class_archive().flags())
    assert (again.cluster_id, again.bootstrap_servers) == (
        adopted.cluster_id,
        adopted.bootstrap_servers,
    )
    assert [message.value() for message in read_to_end(again.bootstrap_servers, "kept")] == [b"v"]
    # whoever read before reads on, though the partition's leader has another epoch now
    produce(again.bootstrap_servers, "kept", [(b"k", b"w")])
    assert [record.value for record in reader.read_to_end(10)] == [b"w"]
    assert reader.led_anew
    logs.close()

    again.stop()
    assert find_broker(folder) is None
    assert cluster_at(broker.bootstrap_servers) == broker


def test_a_pid_that_is_used_again_is_neither_adopted_nor_ended(folder: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    started = start_time(bystander.pid)
    assert started is not None
    record = BrokerRecord(bystander.pid, started - 1, 29092, 29093, "AAAAAAAAQACAAAAAAAAAAA")
    _write(folder, record)
    assert find_broker(folder) is None
    EmbeddedBroker(folder, record, adopted=True).stop()
    assert is_alive(bystander.pid, started)
    bystander.kill()
    bystander.wait()
    assert start_time(bystander.pid) is None


def test_another_cluster_on_the_recorded_port_is_not_adopted(
    folder: Path, broker: BrokerAddress
) -> None:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    own = start_time(os.getpid())
    assert own is not None
    _write(folder, BrokerRecord(os.getpid(), own, port, port, "AAAAAAAAQACAAAAAAAAAAA"))
    with pytest.raises(BrokerError, match=broker.cluster_id):
        EmbeddedBroker.start(folder)


def test_a_taken_port_is_refused(folder: Path, broker: BrokerAddress) -> None:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with pytest.raises(BrokerError, match=f"port {port} is taken"):
        EmbeddedBroker.start(folder, port=port)


def test_a_broker_that_ends_while_it_starts_shows_its_log(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=7\n")
    with pytest.raises(BrokerError, match="ended while it started") as caught:
        EmbeddedBroker.start(folder)
    assert 0 < len(caught.value.why.splitlines()) <= 5
    assert find_broker(folder) is None


def test_a_format_that_takes_too_long_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connect_runtime.kafka.embedded._START_S", 0.01)
    with pytest.raises(BrokerError, match=r"was not formatted within"):
        EmbeddedBroker.start(folder)


def test_a_damaged_record_is_named(folder: Path) -> None:
    (folder / "broker.json").write_text("{")
    with pytest.raises(BrokerError, match=r"broker\.json"):
        find_broker(folder)


@pytest.mark.long
def test_a_login_is_asked_for_if_wanted(folder: Path) -> None:
    started = EmbeddedBroker.start(folder, authentication=True)
    properties = started.client_properties
    assert properties["security.protocol"] == "SASL_PLAINTEXT"
    assert (folder / "password").stat().st_mode & 0o777 == 0o600
    assert check_reachable(properties) == started.cluster_id
    bare = {"bootstrap.servers": started.bootstrap_servers}
    with pytest.raises(Unreachable):
        check_reachable(bare, timeout_s=3)
    password = (folder / "password").read_text().strip()
    wrong = properties["sasl.jaas.config"].replace(password, "guessed")
    with pytest.raises(Unreachable, match="Kafka refuses the login"):
        check_reachable(properties | {"sasl.jaas.config": wrong})
    assert _asked(folder) == b"", "nor does the controller's listener let anybody in"
    with pytest.raises(BrokerError, match="asks for a login"):
        EmbeddedBroker.start(folder)
    assert password not in (folder / "broker.log").read_text()
    started.stop()

    again = EmbeddedBroker.start(folder, authentication=True)
    assert again.client_properties == properties
    again.stop()
    without = EmbeddedBroker.start(folder)
    assert check_reachable(without.client_properties) == started.cluster_id
    assert not (folder / "password").exists()
    assert _asked(folder) != b""
    with pytest.raises(BrokerError, match="asks for no login"):
        EmbeddedBroker.start(folder, authentication=True)
    without.stop()


def _asked(folder: Path) -> bytes:
    """What the controller's listener answers to DescribeCluster without a login."""
    port = json.loads((folder / "broker.json").read_text())["controller_port"]
    request = struct.pack(">hhih", 60, 1, 1, -1) + b"\0" + b"\0\x02" + b"\0"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as asked:
        asked.sendall(struct.pack(">i", len(request)) + request)
        return asked.recv(4)
