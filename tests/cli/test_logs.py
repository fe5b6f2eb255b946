"""connect logs: files of a runtime, read as events; and a log that stays small."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.cli.runtime_logs import LogFiles, Repeats, events, is_about
from connect_runtime.logs.log_output import rotate, text_about
from support.command import CONNECT, Command
from support.wait import wait_until

PROJECT = "project: p\ncluster: {group.id: p, kafka: embedded}\n"
TASK = """\
2026-01-02 03:04:06,000 ERROR [orders|task-0] Task failed: Traceback (most recent call last):
  deep
ValueError: boom (a)
"""
OTHER = "2026-01-02 03:04:05,500 ERROR [orders-2|task-0] not this one (a)\n"
RUNTIME = "2026-01-02 03:04:05,000 WARNING [orders] Connector orders fails (b)\n"


def _logs(folder: Path, *, runtime: str, spark: str) -> None:
    (folder / ".connect" / "spark").mkdir(parents=True)
    (folder / ".connect" / "runtime.log").write_text(runtime)
    (folder / ".connect" / "spark" / "spark.log").write_text(spark)


def test_follow_prints_new_lines(connect: Command) -> None:
    connect.write("connect.yaml", PROJECT)
    _logs(connect.folder, runtime=RUNTIME, spark="")
    log, shown = connect.folder / ".connect" / "spark" / "spark.log", connect.folder / "shown"
    with shown.open("wb") as output:
        following = subprocess.Popen(
            [*CONNECT, "logs", "orders", "--follow"],
            cwd=connect.folder,
            env=dict(os.environ),
            stdout=output,
        )
    try:
        wait_until(lambda: shown.read_text() == RUNTIME, what="what is there already")
        with log.open("a") as more:
            more.write(OTHER + TASK)
        wait_until(lambda: shown.read_text() == RUNTIME + TASK, what="what was added")
    finally:
        following.terminate()
        following.wait(20)


def test_a_file_that_is_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text(TASK + RUNTIME[:10])
    files = LogFiles([file])
    assert [event.text for event in files.read()] == [TASK.rstrip("\n")]
    with file.open("a") as more:
        more.write(RUNTIME[10:])
    assert [event.text for event in files.read()] == [RUNTIME.rstrip("\n")]
    file.write_text("  late\n")
    (late,) = files.read()
    assert late.text == "  late" and is_about(late, "orders")


def test_lines_right_before_a_rotation_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text(TASK * 5)
    files = LogFiles([file])
    assert len(files.read()) == 5
    for _ in range(2):
        with file.open("a") as more:
            more.write(RUNTIME + OTHER[:10])
        rotate(file, most_bytes=0)
        with file.open("a") as more:
            more.write(OTHER[10:])
        assert [event.text + "\n" for event in files.read()] == [RUNTIME, OTHER]
        file.write_text(TASK * 5)
        assert len(files.read()) == 5
    # emptied by somebody: the older file is not read again
    file.write_text("")
    assert files.read() == []


def test_a_rotation_while_the_log_is_read(tmp_path: Path) -> None:
    class RotatedAtOpen(type(Path())):  # type: ignore[misc]
        rotates = False

        def open(self, *words: Any, **options: Any) -> Any:
            if RotatedAtOpen.rotates:
                RotatedAtOpen.rotates = False
                rotate(Path(self), most_bytes=0)
            return Path(self).open(*words, **options)

    file = tmp_path / "a.log"
    file.write_text(TASK * 5)
    files = LogFiles([RotatedAtOpen(file)])
    assert len(files.read()) == 5
    with file.open("a") as more:
        more.write(RUNTIME)
    RotatedAtOpen.rotates = True
    assert [event.text + "\n" for event in files.read()] == [RUNTIME]


def test_other_lines_are_about_no_connector() -> None:
    lines = ["noise", "{not json", RUNTIME.rstrip("\n"), "REST is at http://x"]
    assert [is_about(event, "orders") for event in events(lines)] == [False, False, True, False]


@pytest.mark.parametrize(
    "name", ["orders", "orders] x", "orders|task-0", "a] b", "[a", "a.*", "%s"]
)
def test_each_name_finds_its_own_lines(name: str) -> None:
    (event,) = events([text_about(name, "RUNNING", "connect.progress")])
    assert is_about(event, name)
    assert not is_about(event, "other")
    assert not is_about(event, f"{name}s")


def test_lines_that_only_look_like_events_are_text() -> None:
    lines = [
        "2026-13-45 99:99:99,000 ERROR no such time",
        "0001-01-01 00:00:00,000 ERROR before the times of a zone",
        '{"time":' + '{"a":' * 100_000,
    ]
    assert [(event.text, event.at) for event in events(lines)] == [(line, 0.0) for line in lines]


def test_a_long_trace_is_read_in_one_go() -> None:
    lines = [RUNTIME.rstrip("\n"), *["\tat somewhere"] * 300_000]
    (event,) = events(lines)
    assert event.text.count("\n") == 300_000


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(text: str, *args: object, name: str = "a") -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, __file__, 1, text, args, None)


def test_a_line_is_repeated_once_a_minute() -> None:
    clock = Clock()
    repeats = Repeats(clock)
    passed = []
    for second in range(120):
        clock.now = 1000.0 + second
        line = record("The write %d failed: %s", second, "timeout")
        if repeats.filter(line):
            passed.append(line.getMessage())
    assert passed == [
        "The write 0 failed: timeout",
        "The write 55 failed: timeout (and 54 times more since)",
        "The write 110 failed: timeout (and 54 times more since)",
    ]


def test_other_lines_pass() -> None:
    repeats = Repeats(Clock())
    assert repeats.filter(record("%s failed", "one"))
    assert repeats.filter(record("%s failed", "two"))
    assert repeats.filter(record("%s failed", "one", name="b"))
    assert not repeats.filter(record("%s failed", "one"))


def test_connectors_whose_names_differ_in_a_number_have_lines_of_their_own() -> None:
    repeats = Repeats(Clock())
    for name in ("orders-1", "orders-2"):
        line = record("Connector %s fails", name)
        line.connector = name
        assert repeats.filter(line)
        assert not repeats.filter(line)


def test_a_line_that_makes_no_sense_is_left_to_its_handler() -> None:
    assert Repeats(Clock()).filter(record("%d", "text"))


def test_what_is_remembered_is_bounded() -> None:
    repeats = Repeats(Clock())
    for number in range(5000):
        assert repeats.filter(record("x" * number))
    assert not repeats.filter(record("x" * 4999))
    assert repeats.filter(record("x" * 10))
