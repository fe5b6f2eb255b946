"""The console of a standalone worker: what the worker passes on to tasks, and what tasks get."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.connectors.console import (
    console_for,
    standard_input,
    standard_output,
    uses_console,
)

SOURCE = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
SINK = {"connector.class": "FileStreamSink"}
# A worker whose only task returns what it reads, in capitals; the task starts again after a line.
_ECHO = """
import time
from connect_runtime.connectors.console import console_for, standard_input, standard_output
from connect_runtime.connectors.file_source import FileStreamSourceTask

def line(task):
    until = time.monotonic() + 30
    while not (found := task.poll()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found.values

with console_for([{source}, {sink}]):
    out = standard_output()
    for size in (1, 2):
        task = FileStreamSourceTask()
        task.start({{"topic": "t", "batch.size": str(size)}})
        for each in line(task):
            out.write(each.upper().encode() + b"\\n")
        task.stop()
    out.close()
"""
# More than the pipe to the reader holds, and less than with the pipe of the tasks
_STUCK = """
from connect_runtime.connectors import console

console._END_S = 0.5
with console.console_for([{sink}]):
    with console.standard_output() as out:
        out.write(b"x" * 150_000)
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
def test_who_uses_the_console(
    configs: list[dict[str, str]], used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "read", lambda *_: b"")  # whoever runs the tests types nothing
    assert uses_console(configs) == used
    with console_for(configs):
        folder = Path(os.environ.get("CONNECT_CONSOLE", "nowhere"))
        there = {each.name for each in folder.iterdir()} if folder.exists() else set()
    names = {"FileStreamSource": "console.in", "FileStreamSink": "console.out"}
    wanted = {
        name
        for config in configs
        for of, name in names.items()
        if of in config.get("connector.class", "") and not config.get("file")
    }
    assert there == wanted
    assert not folder.exists()
    assert "CONNECT_CONSOLE" not in os.environ


def test_lines_pass_both_ways_and_a_task_that_starts_again_gets_the_next() -> None:
    with _process(_ECHO.format(source=SOURCE, sink=SINK)) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        for line in ("one", "two"):
            worker.stdin.write(f"{line}\n")
            worker.stdin.flush()
            assert worker.stdout.readline() == f"{line.upper()}\n"
        # what is in the pipe when the worker ends has been shown; its standard input stays open
        assert worker.wait(30) == 0
        assert worker.stdout.read() == ""


def test_a_worker_ends_though_nobody_takes_its_output() -> None:
    """A terminal that was stopped: the pipes are full, and a write waits when the worker ends."""
    with _process(_STUCK.format(sink=SINK)) as worker:
        assert worker.wait(30) == 0


@contextmanager
def _process(script: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def test_without_a_console_input_is_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONNECT_CONSOLE", raising=False)
    with standard_input() as nothing:
        found: Any = nothing.read(10)
    assert found == b""
    assert standard_output() is None
