"""Processes that stay stopped are killed, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from connect_runtime.spark import frozen
from connect_runtime.spark.frozen import LOOKS, look
from support.processes import Process, kill, process
from support.processes import frozen as stopped
from support.wait import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def _sleeping() -> Iterator[Process]:
    """A child of this process, which stands for Spark's daemon."""
    child = subprocess.Popen(["/bin/sleep", "600"])
    try:
        found = process(child.pid)
        assert found is not None
        yield found
    finally:
        child.kill()
        child.wait()


def test_a_process_that_stays_stopped_is_killed_and_its_siblings_go_on() -> None:
    with _sleeping() as task, _sleeping() as sibling, stopped([task]):
        looks = look(os.getpid(), {})
        for _ in range(LOOKS - 2):
            looks = look(os.getpid(), looks)
        assert task.alive
        look(os.getpid(), looks)
        wait_until(lambda: not task.alive, what="the frozen process to be gone")
        assert sibling.alive


def test_a_process_that_goes_on_starts_anew() -> None:
    with _sleeping() as task:
        with stopped([task]):
            looks = look(os.getpid(), {})
            assert len(looks) == 1
        wait_until(lambda: not look(os.getpid(), {}), what="it to go on")
        looks = look(os.getpid(), looks)
        with stopped([task]):
            for _ in range(LOOKS - 1):
                looks = look(os.getpid(), looks)
            assert task.alive


def test_the_daemon_itself_is_looked_at() -> None:
    """Frozen, it would start no more tasks; Spark starts another one."""
    with _sleeping() as daemon, stopped([daemon]):
        looks = look(daemon.pid, {})
        for _ in range(LOOKS - 1):
            looks = look(daemon.pid, looks)
        wait_until(lambda: not daemon.alive, what="it to be gone")


def test_who_is_gone_by_now_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with _sleeping() as task, stopped([task]):
        seen = next(frozen._stopped(os.getpid()))
    kill(task)
    monkeypatch.setattr(frozen, "_stopped", lambda daemon: iter([seen]))
    assert look(os.getpid(), {seen: LOOKS - 1}) == {seen: LOOKS}
