"""The runtime's log stays small and readable."""

from __future__ import annotations

import logging

from connect_reconciler.cli.runtime_logs import Repeats


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
