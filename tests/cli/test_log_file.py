"""The runtime's log stays small and readable."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from connect_reconciler.cli.running.log_file import Repeats, rotate


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


def test_a_line_that_makes_no_sense_is_left_to_its_handler() -> None:
    assert Repeats(Clock()).filter(record("%d", "text"))


def test_what_is_remembered_is_bounded() -> None:
    repeats = Repeats(Clock())
    for number in range(5000):
        assert repeats.filter(record("x" * number))
    assert not repeats.filter(record("x" * 4999))
    assert repeats.filter(record("x" * 10))


def test_a_large_log_is_cut_under_its_writers(tmp_path: Path) -> None:
    log = tmp_path / "runtime.log"
    writer = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for number in range(6):
            os.write(writer, f"{number}".encode() * 100)
            rotate(log, 99)
            os.write(writer, b"next")
            rotate(log, 99)
    finally:
        os.close(writer)
    assert log.read_bytes() == b"next"
    kept = sorted(each.name for each in tmp_path.iterdir())
    assert kept == ["runtime.log", "runtime.log.1", "runtime.log.2", "runtime.log.3"]
    assert (tmp_path / "runtime.log.1").read_bytes() == b"next" + b"5" * 100
    assert (tmp_path / "runtime.log.3").read_bytes() == b"next" + b"3" * 100


def test_a_log_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    rotate(tmp_path / "runtime.log")
