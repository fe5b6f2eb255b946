"""The console of a standalone worker: what the worker hands out to tasks, and what tasks get."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from connect_runtime.api import SinkBatch
from connect_runtime.connectors.console import (
    console_for,
    standard_input,
    standard_output,
    uses_console,
)
from connect_runtime.connectors.file_sink import FileStreamSinkTask

SOURCE = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
SINK = {"connector.class": "FileStreamSink"}
# A worker whose only task returns what it reads, in capitals; the task starts again after a line.
_ECHO = f"""
import time
from connect_runtime.connectors.console import console_for, standard_output
from connect_runtime.connectors.file_source import FileStreamSourceTask

def line(task):
    until = time.monotonic() + 30
    while not (found := task.poll()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found.values

with console_for([{SOURCE}, {SINK}]):
    out = standard_output()
    for size in (1, 2):
        task = FileStreamSourceTask()
        task.start({{"topic": "t", "batch.size": str(size)}})
        for each in line(task):
            out.write(each.upper().encode() + b"\\n")
        task.stop()
    out.close()
"""
# A worker whose tasks are processes of their own, each with lines of one letter
_TASKS = f"""
import subprocess, sys
from connect_runtime.connectors.console import console_for
with console_for([{SINK}]):
    tasks = [subprocess.Popen([sys.executable, "-c", sys.argv[1], each]) for each in "abc"]
    sys.exit(any([task.wait(30) for task in tasks]))
"""
# Blocks that are more than a pipe takes at once
_WRITE = """
import sys
from connect_runtime.connectors.console import standard_output
out = standard_output()
for _ in range(20):
    out.write((sys.argv[1] * 99 + "\\n").encode() * 1000)
"""
# A worker with a task that is killed in the middle of a write, and one that writes after it
_TORN = f"""
import subprocess, sys
from connect_runtime.connectors.console import console_for, standard_output
task = "from connect_runtime.connectors.console import *; standard_output().write(b'x' * 150_000)"
with console_for([{SINK}]):
    killed = subprocess.Popen([sys.executable, "-c", task])
    sys.stdin.readline()
    killed.kill()
    killed.wait(30)
    print("killed", file=sys.stderr, flush=True)
    standard_output().write(b"whole\\n")
"""
_WITHOUT_WAITING = f"""
import os
from connect_runtime.connectors.console import console_for, standard_output
os.set_blocking(1, False)
with console_for([{SINK}]):
    standard_output().write(b"x" * 150_000)
"""


@pytest.mark.parametrize(
    ("configs", "used"),
    [
        ([SOURCE], True),
        ([SINK], True),
        ([{**SOURCE, "file": ""}], True),
        ([{**SOURCE, "file": "f"}, {**SINK, "file": "f"}], False),
        ([{"connector.class": "Other"}, {}], False),
    ],
)
def test_file_connectors_without_file_use_the_console(
    configs: list[dict[str, str]], used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "read", lambda *_: b"")  # whoever runs the tests types nothing
    assert uses_console(configs) == used
    variables = {"FileStreamSource": "CONNECT_CONSOLE_IN", "FileStreamSink": "CONNECT_CONSOLE_OUT"}
    wanted = {
        variable
        for config in configs
        for of, variable in variables.items()
        if of in config.get("connector.class", "") and not config.get("file")
    }
    with console_for(configs):
        assert wanted == {each for each in variables.values() if each in os.environ}
    assert not {*variables.values()} & {*os.environ}


def test_lines_pass_both_ways_and_a_task_that_starts_again_gets_the_next() -> None:
    with _process(_ECHO, stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        _assert_echo(worker, worker.stdin.fileno())
        # its standard input stays open
        assert worker.wait(30) == 0
        assert worker.stdout is not None
        assert worker.stdout.read() == b""


def test_a_standard_input_that_does_not_wait_is_waited_for() -> None:
    script = f"import os; os.set_blocking(0, False)\n{_ECHO}"
    with _process(script, stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        _assert_echo(worker, worker.stdin.fileno())
        assert worker.wait(30) == 0


def test_a_terminal_is_read_on_after_ctrl_d() -> None:
    ours, terminal = pty.openpty()
    with _process(_ECHO, stdin=terminal) as worker:
        os.close(terminal)
        _assert_echo(worker, ours, between=b"\x04")
        assert worker.wait(30) == 0
    os.close(ours)


def _assert_echo(worker: subprocess.Popen[bytes], stdin: int, between: bytes = b"") -> None:
    assert worker.stdout is not None
    os.write(stdin, b"one\n")
    assert worker.stdout.readline() == b"ONE\n"
    os.write(stdin, between + b"two\n")
    assert worker.stdout.readline() == b"TWO\n"


def test_a_standard_input_that_cannot_be_read_is_logged() -> None:
    only_to_write = os.open(os.devnull, os.O_WRONLY)
    with _process(_ECHO, stdin=only_to_write) as worker:
        os.close(only_to_write)
        assert worker.stderr is not None
        told = worker.stderr.readline()
    assert told == b"Standard input can be read no longer: [Errno 9] Bad file descriptor\n"


def test_lines_of_several_tasks_are_whole() -> None:
    with _process(_TASKS, _WRITE) as worker:
        told, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0
    assert sorted(told.splitlines()) == sorted([b"a" * 99, b"b" * 99, b"c" * 99] * 20_000)


def test_a_line_of_a_killed_task_is_ended_before_the_next() -> None:
    with _process(_TORN, stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None and worker.stderr is not None
        assert select.select([worker.stdout], [], [], 30)[0]
        worker.stdin.write(b"\n")
        assert worker.stderr.readline() == b"killed\n"
        told, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0
    torn, whole = told.splitlines()
    assert {*torn} == {*b"x"}
    assert whole == b"whole"


def test_an_error_of_standard_output_fails_the_task() -> None:
    task = FileStreamSinkTask()
    with _standard_output("/dev/full"), console_for([SINK]):
        task.start({})
        with pytest.raises(OSError, match="No space left on device"):
            task.put(SinkBatch(["a"], topics=["t"], partitions=[0], offsets=[0]))
        task.stop()


def test_a_standard_output_that_does_not_wait_is_waited_for() -> None:
    with _process(_WITHOUT_WAITING) as worker:
        told, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0
    assert told == b"x" * 150_000


def test_the_console_is_not_handed_out_to_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with console_for([SINK]):
        monkeypatch.setattr(os, "geteuid", lambda: -1)
        with pytest.raises(ConnectionError, match="does not hand out"):
            standard_output()


def test_without_a_console_input_is_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("CONNECT_CONSOLE_IN", "CONNECT_CONSOLE_OUT"):
        monkeypatch.delenv(each, raising=False)
    with standard_input() as nothing:
        assert nothing.read(10) == b""
    assert standard_output() is None


@contextmanager
def _standard_output(file: str) -> Iterator[None]:
    """This process's own, meanwhile."""
    before, there = os.dup(1), os.open(file, os.O_WRONLY)
    os.dup2(there, 1)
    os.close(there)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


@contextmanager
def _process(
    script: str,
    *words: str,
    stdin: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as started:
        try:
            yield started
        finally:
            started.kill()
