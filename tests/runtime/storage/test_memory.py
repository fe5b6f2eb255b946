"""What logs in memory forget: old records that newer ones replace."""

from __future__ import annotations

import pytest

from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.memory import MemoryLogs


def value(number: int) -> bytes:
    return str(number).encode()


@pytest.mark.parametrize("at_once", [1, 3])
def test_replaced_records_are_forgotten_once_they_are_old(at_once: int) -> None:
    logs = MemoryLogs(kept=10)
    logs.create_topic("t")
    writer, follower = logs.writer("w"), logs.reader("t")
    for key in (b"a", b"b"):
        writer.write([NewRecord("t", key, b"first")])
    seen = [each.value for each in follower.poll()]
    for begin in range(0, 99, at_once):
        numbers = range(begin, begin + at_once)
        writer.write([NewRecord("t", b"c", value(number)) for number in numbers])
        seen += [each.value for each in follower.poll()]
    writer.write([NewRecord("t", b"a", b"last")])
    seen += [each.value for each in follower.poll()]

    assert seen == [b"first", b"first", *map(value, range(99)), b"last"]
    left = logs.reader("t").poll()
    newest = {each.key: each.value for each in left}
    assert newest == {b"a": b"last", b"b": b"first", b"c": value(98)}
    assert len(left) <= 3 + 10
    assert [each.key for each in left].count(b"a") == 1
    last = 2 * 2 + 99 + 99 // at_once
    assert left[-1].offset == last


def test_otherwise_nothing_is_forgotten() -> None:
    logs = MemoryLogs()
    logs.create_topic("t")
    writer = logs.writer("w")
    for number in range(50):
        writer.write([NewRecord("t", b"c", value(number))])
    assert len(logs.reader("t").poll()) == 50
