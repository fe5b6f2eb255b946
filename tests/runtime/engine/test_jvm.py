"""A JVM's process that freezes, reads nothing or prints without end, with another program in its
place."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.engine import jvm as jvm_module
from connect_runtime.engine import jvm_connection, jvm_on_demand
from connect_runtime.engine.engine_jar import class_archive, class_path
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Fields, JvmEnded
from connect_runtime.engine.jvm_on_demand import JvmOnDemand
from connect_runtime.waiting import TakesTooLong
from connect_specs.secrets import Redactor
from support.processes import frozen, process
from support.wait import wait_until

Run = Callable[..., PluginJvm]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Starts a program in place of Java, and waits only shortly for it."""
    monkeypatch.setattr(jvm_connection, "_PATIENCE", struct.pack("ll", 0, 300_000))
    for module in (jvm_module, jvm_connection):
        monkeypatch.setattr(module, "_END_S", 0.3)
    monkeypatch.setattr(jvm_module, "LOOK_EVERY_S", 0.05)

    def started(*command: str, **more: Any) -> PluginJvm:
        def start(
            theirs: socket.socket, options: Sequence[str], held: Sequence[int]
        ) -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.PIPE)

        monkeypatch.setattr(jvm_module, "_start", start)
        return PluginJvm({}, "w", **more)

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


def test_a_jvm_on_demand_ends_soon_after_its_last_answer(run: Run) -> None:
    """Also one that is asked for its metrics all the time."""
    demand = JvmOnDemand(lambda: run("/bin/sleep", "600"), idle_s=0.4)
    jvms: list[PluginJvm] = []

    def ask(jvm: PluginJvm, left_s: float) -> None:
        jvms.append(jvm)
        with pytest.raises(TakesTooLong):
            jvm.call("slow", 1.5)

    def has_ended() -> bool:
        with suppress(TakesTooLong, JvmEnded):
            jvms[0].call("metrics", 0.01)
        return process(jvms[0].pid) is None

    demand.ask(ask)
    wait_until(has_ended, what="the end of the JVM", timeout_s=10)
    demand.ask(ask)
    assert jvms[1] is not jvms[0]
    demand.close()


def test_a_jvm_on_demand_may_finish_what_takes_too_long(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_on_demand, "SLOW_S", 1.5)
    monkeypatch.setattr(jvm_on_demand, "SLACK_S", 0.0)
    demand = JvmOnDemand(lambda: run("/bin/sleep", "600"), idle_s=0.2)
    jvms: list[PluginJvm] = []

    def ask(jvm: PluginJvm, left_s: float) -> None:
        jvms.append(jvm)
        jvm.call("slow", 0.1)

    began = time.monotonic()
    with pytest.raises(TakesTooLong):
        demand.ask(ask)
    wait_until(lambda: process(jvms[0].pid) is None, what="the end of the JVM", timeout_s=10)
    assert time.monotonic() - began > 1.5
    demand.close()


def test_output_without_a_line_s_end_takes_no_memory(run: Run) -> None:
    jvm = run("/bin/sh", "-c", "head -c 30000000 /dev/zero; exec sleep 600")
    began = time.monotonic()
    wait_until(lambda: len(jvm._tail) == jvm._tail.maxlen, what="its output")
    assert time.monotonic() - began < 30
    assert max(map(len, jvm._tail)) <= 16_384
    jvm.end()


def test_a_call_that_takes_long_says_so_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_connection, "SLOW_S", 0.1)
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


def test_the_end_of_a_jvm_is_noticed_though_what_it_started_keeps_its_socket(run: Run) -> None:
    """As a process does that a plugin starts with its own standard input."""
    jvm = run("/bin/sh", "-c", "exec 3<&0; sleep 30 <&3 & exit 5")
    began = time.monotonic()
    with pytest.raises(JvmEnded, match="exit code 5"):
        jvm.call("small", 60)
    assert time.monotonic() - began < 20


def test_what_a_jvm_sent_before_its_end_is_read(run: Run) -> None:
    """Such as why it ended: also if its process is gone before the reader comes to it."""
    events: list[str] = []
    goes_on = threading.Event()

    def take(event: str, fields: Fields) -> None:
        assert goes_on.wait(20)
        events.append(event)

    frame = b'{"event":"x"}'
    sends = f"import os; os.write(0, {struct.pack('>I', len(frame)) + frame!r} * 2000)"
    jvm = run(sys.executable, "-c", sends, on_event=take)
    wait_until(lambda: process(jvm.pid) is None, what="its end")
    goes_on.set()
    wait_until(lambda: events[-1:] == ["ended"], what="its events")
    assert events == ["x"] * 2000 + ["ended"]


@pytest.mark.parametrize("bytes", [r"\0\0\0\2xx", r"\377\377\377\377", r"\0\0\0\0017"])
def test_a_jvm_that_sends_no_frames_is_ended(run: Run, bytes: str) -> None:
    """A plugin may write into the socket; its callers would wait for a reader that is gone."""
    events: list[tuple[str, Fields]] = []
    command = f"printf '{bytes}' >&0; exec sleep 600"
    jvm = run("/bin/sh", "-c", command, on_event=lambda *event: events.append(event))
    with pytest.raises(JvmEnded, match="cannot be read"):
        jvm.call("small", 60)
    assert process(jvm.pid) is None
    wait_until(lambda: [name for name, _ in events] == ["ended"], what="its end")


@pytest.mark.parametrize(
    ("number", "killed"), [(signal.SIGKILL, True), (signal.SIGTERM, True), (signal.SIGABRT, False)]
)
def test_a_crash_is_told_from_a_kill(run: Run, number: signal.Signals, killed: bool) -> None:
    """Native code of a plugin ends a JVM by SIGABRT; such an end is the plugin's."""
    events: list[tuple[str, Fields]] = []
    run("/bin/sh", "-c", f"kill -{number.value} $$", on_event=lambda *event: events.append(event))
    wait_until(lambda: events, what="its end")
    ((name, fields),) = events
    assert (name, fields["killed"]) == ("ended", killed)
    assert number.name in fields["why"]


@pytest.mark.long
def test_crashes_leave_one_report_and_the_cause_in_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: a file for each crash, in the working folder, until the disk is full."""
    class_path(), class_archive()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jvm_module, "cache_folder", lambda: tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    for _ in range(2):
        jvm = PluginJvm({}, "w")
        jvm.call("loggers", 60)
        command = Path(f"/proc/{jvm.pid}/cmdline").read_text().split("\0")
        assert jvm._folder.options[0] in command
        os.kill(jvm.pid, signal.SIGSEGV)
        with pytest.raises(JvmEnded, match=r"SIGABRT(.|\n)*A fatal error has been detected"):
            jvm.call("plugins", 60)
    files = [file.relative_to(tmp_path).name for file in tmp_path.rglob("*") if file.is_file()]
    assert files == ["java-crash.log"]


@pytest.mark.parametrize("ended", ["by us", "by a signal"])
def test_what_plugins_unpack_is_removed_with_the_jvm(run: Run, ended: str) -> None:
    """The trap: a JVM that is killed deletes no libraries, and the next one unpacks them again."""
    jvm = run("/bin/sleep", "600")
    assert jvm._folder.path is not None
    folder = Path(jvm._folder.path)
    (folder / "libnative.so").touch()
    if ended == "by us":
        jvm.end()
    else:
        os.kill(jvm.pid, signal.SIGKILL)
    wait_until(lambda: not folder.exists(), what="its folder to be removed")
    jvm.end()


def test_each_secret_is_hidden_though_two_are_named_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm = run("/bin/sleep", "600")
    made, making = Redactor.of_configs, threading.Event()

    def slow(*configs: Any, texts: set[str], **more: Any) -> Redactor:
        redactor = made(*configs, texts=tuple(texts), **more)
        if not making.is_set():
            making.set()
            time.sleep(0.3)
        return redactor

    monkeypatch.setattr(Redactor, "of_configs", slow)
    thread = threading.Thread(target=jvm.hide, args=(["open-sesame-1"],))
    thread.start()
    assert making.wait(20)
    jvm.hide(["open-sesame-2"])
    thread.join(20)
    assert "open-sesame" not in jvm.redact("open-sesame-1 and open-sesame-2")
    jvm.end()
