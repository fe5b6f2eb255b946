"""Whether an attempt's process is dead, told by a lock that only its life holds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connect_runtime.spark.lease import Lease, hold
from runtime.spark.bodies import is_gone
from support.wait import wait_until

_HOLDER = """
import sys, time
from connect_runtime.spark.lease import hold
print(hold(sys.argv[1]) is not None, flush=True)
time.sleep(60)
"""
_FORKER = """
import os, sys, time
from connect_runtime.spark.forks import keep_from_forks, sockets
from connect_runtime.spark.lease import hold
keep_from_forks([*sockets(), hold(sys.argv[1])])
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(60)
"""


@contextmanager
def _holder(lease: Lease) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _HOLDER, lease.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "True\n"
            yield process
        finally:
            process.kill()


def test_a_process_that_lives_holds_it_until_it_dies(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    with _holder(lease) as process:
        assert not lease.over()
        process.kill()
        process.wait()
        assert lease.over()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_it_forked_does_not_hold_it(tmp_path: Path) -> None:
    """Nor its connections: who waits for the end of one would wait for that of the fork."""
    lease = Lease(tmp_path)
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
    lease = Lease(tmp_path)
    assert lease.over()
    assert not hold(str(lease.path))
    assert lease.over()


def test_nobody_begins_while_another_lives(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    with _holder(lease):
        assert not hold(str(lease.path))


def test_the_holder_can_be_killed(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    lease.kill()
    other = Lease(tmp_path)
    with _holder(other) as process:
        other.kill()
        wait_until(other.over, what="the lock to be free")
        assert is_gone(process.pid)


def test_nobody_asks_for_a_dropped_one(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    with _holder(lease):
        lease.drop()
        lease.drop()
    assert list(tmp_path.iterdir()) == []
