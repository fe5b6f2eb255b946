"""A JVM's process that freezes, reads nothing or prints without end, with another program in its
place."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Sequence

import pytest

from connect_runtime.engine import jvm as jvm_module
from connect_runtime.engine.jvm import JvmEnded, PluginJvm
from connect_runtime.waiting import TakesTooLong
from support.processes import frozen, process
from support.wait import wait_until

Run = Callable[..., PluginJvm]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Starts a program in place of Java, and waits only shortly for it."""
    monkeypatch.setattr(jvm_module, "_PATIENCE", struct.pack("ll", 0, 300_000))
    monkeypatch.setattr(jvm_module, "_END_S", 0.3)
    monkeypatch.setattr(jvm_module, "LOOK_EVERY_S", 0.05)

    def started(*command: str) -> PluginJvm:
        def start(
            theirs: socket.socket, options: Sequence[str], held: Sequence[int]
        ) -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.PIPE)

        monkeypatch.setattr(jvm_module, "_start", start)
        return PluginJvm({}, "w")

    return started


def test_a_jvm_that_reads_nothing_is_ended_and_keeps_no_caller_waiting(run: Run) -> None:
    """A request that fits into no buffer waits for it, and all others wait for that one."""
    jvm = run("/bin/sleep", "600")
    with pytest.raises(TakesTooLong):
        jvm.call("small", 0.1)
    with pytest.raises(JvmEnded):
        jvm.call("large", 600, text="x" * (8 << 20))
    with pytest.raises(JvmEnded, match="SIGKILL"):
        jvm.call("small", 600)
    assert process(jvm.pid) is None


def test_a_jvm_that_is_frozen_is_ended_and_its_callers_hear_of_it(run: Run) -> None:
    jvm = run("/bin/sleep", "600")
    alive = process(jvm.pid)
    assert alive is not None
    with frozen([alive]), pytest.raises(JvmEnded, match="SIGKILL"):
        jvm.call("small", 60)
    assert not alive.alive


def test_the_last_lines_of_a_jvm_are_in_the_reason_of_its_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that are read only after the process has ended."""
    read = PluginJvm._read_output

    def late(jvm: PluginJvm) -> None:
        time.sleep(0.3)
        read(jvm)

    monkeypatch.setattr(PluginJvm, "_read_output", late)
    jvm = run("/bin/sh", "-c", "echo 'multiple garbage collectors selected'; exit 1")
    with pytest.raises(JvmEnded, match=r"exit code 1\nmultiple garbage collectors selected$"):
        jvm.call("small", 60)


def test_output_without_a_line_s_end_takes_no_memory(run: Run) -> None:
    jvm = run("/bin/sh", "-c", "head -c 30000000 /dev/zero; exec sleep 600")
    began = time.monotonic()
    wait_until(lambda: len(jvm._tail) == jvm._tail.maxlen, what="its output")
    assert time.monotonic() - began < 30
    assert max(map(len, jvm._tail)) <= 16_384
    jvm.end()


def test_a_call_that_takes_long_says_so_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_module, "SLOW_S", 0.1)
    jvm = run("/bin/sleep", "600")
    slow: list[float] = []
    began = time.monotonic()
    with pytest.raises(TakesTooLong):
        jvm.call("small", 0.5, on_slow=lambda: slow.append(time.monotonic() - began))
    assert len(slow) == 1
    assert slow[0] < 0.5 <= time.monotonic() - began
    jvm.end()


@pytest.mark.parametrize("left_s", [0.0, -1.0])
def test_a_call_without_time_takes_too_long_at_once(run: Run, left_s: float) -> None:
    """Such as a question that is asked again after the first JVM has used up its time."""
    jvm = run("/bin/sleep", "600")
    with pytest.raises(TakesTooLong):
        jvm.call("small", left_s, on_slow=lambda: pytest.fail("it has not taken long"))
    jvm.end()
