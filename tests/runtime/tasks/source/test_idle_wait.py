"""How long a source task waits after an empty poll."""

import heapq
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.tasks.source.source_task import IdleWait, idle_wait_s

silences = st.floats(0, 1e6)
clocks = st.floats(0, 1e9)


def test_the_wait_grows_with_the_silence() -> None:
    assert [idle_wait_s(silence_s, 5.0) for silence_s in (0, 0.04, 0.4, 1, 2, 4, 3600)] == [
        0.01, 0.01, 0.1, 0.25, 0.5, 1.0, 1.0,
    ]  # fmt: skip


@given(silences, silences, clocks)
def test_a_longer_silence_never_means_a_shorter_wait(one: float, other: float, now: float) -> None:
    assert idle_wait_s(min(one, other), now) <= idle_wait_s(max(one, other), now) + 1e-6


def test_idle_tasks_that_polled_within_a_tenth_of_a_second_wake_up_at_the_same_time() -> None:
    ends = {round(now + idle_wait_s(60, now), 6) for now in (7.01, 7.05, 7.099)}
    assert ends == {8.0}


def test_an_idle_task_polls_once_a_second() -> None:
    """It wakes up a little after the end of its wait."""
    now = 1234.5
    for _ in range(1000):
        began, now = now, now + idle_wait_s(60, now) + 0.0003
        assert now - began == pytest.approx(1.0, abs=0.001)


def test_only_an_empty_poll_is_followed_by_a_wait() -> None:
    idle = IdleWait(poll_waits=False)
    assert idle.seconds == 0
    idle.polled(has_records=False, took_s=0.001)
    assert idle.seconds > 0
    idle.polled(has_records=True, took_s=0.001)
    assert idle.seconds == 0


@pytest.mark.parametrize(
    ("poll_waits", "took_s", "waits_s"),
    [
        (False, 0.02, 0.98),
        (False, 0.39, 0.61),
        (False, 0.5, 0),
        # of one that waits for data, or skips what it reads
        (True, 0.02, 0),
        (True, 0.001, 0.999),
    ],
)
def test_the_time_of_the_poll_is_part_of_the_wait_or_all_of_it(
    monkeypatch: pytest.MonkeyPatch, poll_waits: bool, took_s: float, waits_s: float
) -> None:
    clock = [10.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    idle = IdleWait(poll_waits=poll_waits)
    clock[0] = 100 + took_s
    idle.polled(has_records=False, took_s=took_s)
    assert idle.seconds == pytest.approx(waits_s)


@pytest.mark.parametrize("begins", ["together", "apart"])
@pytest.mark.parametrize("count", [100, 350])
def test_tasks_that_queue_at_one_database_do_not_keep_it_busy(
    monkeypatch: pytest.MonkeyPatch, begins: str, count: int
) -> None:
    """They ask a server that answers one question at a time, in 1 ms: 10 and 35 % of its time."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    tasks = [IdleWait(poll_waits=False) for _ in range(count)]
    asks = [(0.01 * number if begins == "apart" else 0.0, number) for number in range(count)]
    heapq.heapify(asks)
    free_at, asked_late = 0.0, 0
    while asks[0][0] < 30:
        asked_at, number = heapq.heappop(asks)
        clock[0] = free_at = max(free_at, asked_at) + 0.001
        tasks[number].polled(has_records=False, took_s=free_at - asked_at)
        heapq.heappush(asks, (free_at + tasks[number].seconds, number))
        asked_late += asked_at >= 20
    assert asked_late <= 10 * len(tasks)  # at most once a second each
