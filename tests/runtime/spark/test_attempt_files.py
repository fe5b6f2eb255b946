"""An attempt's process is dead or alive, as its lease shows; metrics get from it to the driver."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connect_runtime.spark.attempt_files import MetricsFile, ProcessLease, lock_lease, read_metrics
from runtime.spark.bodies import is_gone
from support.wait import wait_until

_HOLDER = """
import sys, time
from connect_runtime.spark.attempt_files import lock_lease
print(lock_lease(sys.argv[1]) is not None, flush=True)
time.sleep(60)
"""
_FORKER = """
import os, sys, time
from connect_runtime.spark.attempt_files import keep_from_forks, sockets
from connect_runtime.spark.attempt_files import lock_lease
keep_from_forks([*sockets(), lock_lease(sys.argv[1])])
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(60)
"""


@contextmanager
def _holder(lease: ProcessLease) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _HOLDER, lease.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "True\n"
            yield process
        finally:
            process.kill()


def test_a_process_that_lives_holds_it_until_it_dies(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    with _holder(lease) as process:
        assert not lease.over()
        process.kill()
        process.wait()
        assert lease.over()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_it_forked_does_not_hold_it(tmp_path: Path) -> None:
    """Nor its connections: who waits for the end of one would wait for that of the fork."""
    lease = ProcessLease(tmp_path)
    here, there = socket.socketpair()
    there.set_inheritable(True)
    command = [sys.executable, "-c", _FORKER, str(lease.path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, pass_fds=[there.fileno()]
    ) as process:
        there.close()
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert not lease.over()
            process.kill()
            process.wait()
            wait_until(lease.over, what="the lock to be free")
            assert not is_gone(child)
            here.settimeout(60)
            assert here.recv(1) == b""
        finally:
            os.kill(child, signal.SIGKILL)
            here.close()


def test_a_process_that_comes_late_does_not_begin(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    assert lease.over()
    assert not lock_lease(str(lease.path))
    assert lease.over()


def test_nobody_begins_while_another_lives(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    with _holder(lease):
        assert not lock_lease(str(lease.path))


def test_the_holder_can_be_killed(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    lease.kill()
    other = ProcessLease(tmp_path)
    with _holder(other) as process:
        other.kill()
        wait_until(other.over, what="the lock to be free")
        assert is_gone(process.pid)


def test_nobody_asks_for_a_dropped_one(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    with _holder(lease):
        lease.drop()
        lease.drop()
    assert list(tmp_path.iterdir()) == []


def test_the_newest_reading_is_read(tmp_path: Path) -> None:
    readings = iter([b'{"metrics":{"a":1000}}', b'{"metrics":{"a":2}}'])
    path = tmp_path / "lease.metrics"
    file = MetricsFile(path, lambda: next(readings))
    assert read_metrics(path) is None
    file.publish()
    assert read_metrics(path) == {"metrics": {"a": 1000}}
    file.close()
    assert read_metrics(path) == {"metrics": {"a": 2}}


def test_a_reading_that_did_not_change_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "lease.metrics"
    file = MetricsFile(path, lambda: b"{}")
    assert file.publish()
    os.truncate(path, 0)
    assert not file.publish()
    assert path.stat().st_size == 0


def test_a_reading_that_is_half_written_is_none(tmp_path: Path) -> None:
    path = tmp_path / "lease.metrics"
    MetricsFile(path, lambda: b'{"metrics":{"a":1}}').publish()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    assert read_metrics(path) is None
    path.write_bytes(content[:5])
    assert read_metrics(path) is None
    assert read_metrics(tmp_path / "none") is None


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) is None
