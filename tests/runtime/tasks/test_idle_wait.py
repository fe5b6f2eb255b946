"""How long a source task waits after an empty poll."""

from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.tasks.idle_wait import IdleWait, wait_s

silences = st.floats(0, 1e6)
clocks = st.floats(0, 1e9)


def test_the_wait_grows_with_the_silence() -> None:
    assert [wait_s(silence_s, now=5.0) for silence_s in (0, 0.04, 0.4, 1, 2, 4, 3600)] == [
        0.01, 0.01, 0.1, 0.25, 0.5, 1.0, 1.0,
    ]  # fmt: skip


@given(silences, silences, clocks)
def test_a_longer_silence_never_means_a_shorter_wait(one: float, other: float, now: float) -> None:
    assert wait_s(min(one, other), now) <= wait_s(max(one, other), now) + 1e-6


def test_idle_tasks_that_polled_within_a_tenth_of_a_second_wake_up_at_the_same_time() -> None:
    ends = {round(now + wait_s(60, now), 6) for now in (7.01, 7.05, 7.099)}
    assert ends == {8.1}


def test_only_an_empty_poll_that_returned_at_once_is_followed_by_a_wait() -> None:
    idle = IdleWait()
    assert idle.seconds == 0
    idle.polled(found=False, took_s=0.001)
    assert idle.seconds > 0
    idle.polled(found=True, took_s=0.001)
    assert idle.seconds == 0
    idle.polled(found=False, took_s=0.2)
    assert idle.seconds == 0
