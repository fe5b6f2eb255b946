"""Reading back what the cluster has, from many threads at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count

import pytest

from connect_reconciler.backend.followed_topics import ConfigTopic
from connect_runtime.storage.log import LogRecord
from connect_specs.diagnostics import Diagnostic, Unreachable
from support.wait import wait_until


class Gone:
    """A log of a Kafka that is gone: each reading waits until the test lets it fail."""

    def __init__(self) -> None:
        self.readings = 0
        self.fails = threading.Event()

    def read_to_end(self, timeout_s: float) -> Sequence[LogRecord]:
        self.readings += 1
        self.fails.wait(20)
        raise Unreachable(Diagnostic("kafka.unreachable", "gone"))

    def close(self) -> None:
        """Nothing is open."""


def test_who_waited_while_reading_failed_is_told_so_at_once() -> None:
    """Else eight threads would wait for a Kafka that is gone one after another."""
    gone, times = Gone(), count()
    asked: list[float] = []

    def clock() -> float:
        asked.append(next(times))
        return asked[-1]

    read_back = ConfigTopic(gone, clock)  # type: ignore[arg-type]
    told: list[Unreachable] = []

    def ask() -> None:
        with pytest.raises(Unreachable) as error:
            read_back("a")
        told.append(error.value)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(asked) == 8, what="all to ask")
    gone.fails.set()
    for thread in threads:
        thread.join(20)
    assert (len(told), gone.readings) == (8, 1)
    with pytest.raises(Unreachable):
        read_back("a")
    assert gone.readings == 2
